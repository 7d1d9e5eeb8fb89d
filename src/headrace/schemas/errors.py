"""The exceptions of schemas: one for a schema that cannot be used, one for a payload that does not fit."""

from __future__ import annotations

from headrace.errors import HeadraceError


class SchemaError(HeadraceError):
    """A schema that cannot be used; the text says what of it, and where there is one the way out."""


class Misfit(HeadraceError):
    """A payload that is not of its schema; the text says why, in a line."""
