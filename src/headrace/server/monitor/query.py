"""Reading the query options of a monitoring request, with the error texts of the Go server.

Never lives here: what an option does.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE: Final = frozenset(("", "0", "f", "F", "FALSE", "false", "False"))
_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]+\Z", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)
_UINT64: Final = range(2**64)
_MAX_DIGITS: Final = 32  # more than any number in range has; int() refuses very long texts


class QueryError(HeadraceError):
    """A query option that cannot be understood; the text is the body of the 400 answer."""


def boolean(query: Mapping[str, str], name: str) -> bool:
    """False when not given."""
    text = query.get(name, "")
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise QueryError(
        f"Error decoding boolean for '{name}': strconv.ParseBool: parsing {_quoted(text)}: invalid syntax"
    )


def integer(query: Mapping[str, str], name: str) -> int:
    """0 when not given."""
    text = query.get(name, "") or "0"
    problem = _problem(text, _INTEGER, _INT64)
    if problem:
        raise QueryError(f"Error decoding int for '{name}': strconv.Atoi: parsing {_quoted(text)}: {problem}")
    return int(text)


def unsigned(query: Mapping[str, str], name: str) -> int:
    """0 when not given."""
    text = query.get(name, "") or "0"
    problem = _problem(text, _DIGITS, _UINT64)
    if problem:
        raise QueryError(
            f"Error decoding uint64 for '{name}': strconv.ParseUint: parsing {_quoted(text)}: {problem}"
        )
    return int(text)


def page(query: Mapping[str, str], default_limit: int) -> tuple[int, int]:
    """Offset and limit of a listing; a negative offset is 0, a limit of 0 or less the default."""
    offset, limit = integer(query, "offset"), integer(query, "limit")
    return max(offset, 0), limit if limit > 0 else default_limit


def _problem(text: str, form: re.Pattern[str], valid: range) -> str | None:
    if form.match(text) is None:
        return "invalid syntax"
    if len(text) > _MAX_DIGITS or int(text) not in valid:
        return "value out of range"
    return None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
