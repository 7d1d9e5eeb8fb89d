"""How rules say no in their own words: three errors whose text is free. Never here: which rule is broken."""

from __future__ import annotations

from headrace.protocol.jetstream.errors import ApiError


def invalid(text: str) -> ApiError:
    """A configuration that cannot be."""
    return ApiError(10052, err=text)


def pedantic_error(text: str) -> ApiError:
    """A value that would have been put right, had the client not asked for pedantic checks."""
    return ApiError(10157, err=text)
