"""JSON that somebody else composed, of which a part is of use here: answers of other servers, backups.

What is not known is passed over; what is no JSON is told, however deep it is nested. Requests are not read
here (`requests`).
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def read(kind: type[T], data: bytes) -> T:
    """The part that `kind` has. Raises: ValueError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
