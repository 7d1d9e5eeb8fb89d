"""The exceptions of loads: what is wrong with what was asked for. Those of connections are the client's."""

from __future__ import annotations

from headrace.errors import HeadraceError


class LoadError(HeadraceError):
    """A load that cannot be run as it was asked for."""


class LoadOptionsError(LoadError, ValueError):
    """Options of a load that mean nothing, or exclude each other."""
