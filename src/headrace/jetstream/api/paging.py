"""Lists that are answered in parts: where a part begins and ends.

Source: JetStream specification, 1 (NAMES, LIST).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

_T = TypeVar("_T")
NAMES: Final = 1024
"""Names in one answer."""
DETAILS: Final = 256
"""Streams or consumers with all that is known of them, in one answer."""
EMPTY: Final = {"total": 0, "offset": 0, "limit": 0}


def page(everything: Sequence[_T], offset: int, limit: int) -> tuple[dict[str, Any], Sequence[_T]]:
    """The fields that say which part it is, and the part."""
    total = len(everything)
    start = min(max(offset, 0), total)
    return {"total": total, "offset": start, "limit": limit}, everything[start : start + limit]
