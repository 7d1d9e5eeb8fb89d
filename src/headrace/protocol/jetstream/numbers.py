"""Numbers of JetStream: the types of its JSON's fields, how large each may be; and numbers in headers.

Nothing here reads JSON: msgspec checks the bounds, `go_decode` says what is wrong. A `Duration` is ns, a
`Time` is RFC 3339 text. Source: the field types of the JetStream API.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
UINT64_MAX: Final = (1 << 64) - 1
_MOST_DIGITS: Final = 20
"""The most digits of an unsigned number of 64 bits; Python refuses to read digits without end."""
_LONG: Final = re.compile(rb"[0-9]{19}")
_PART_OF_LONG: Final = re.compile(rb"[0-9]{2}")

Int = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX, extra={"go": "int"})]
Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX, extra={"go": "int64"})]
Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1, extra={"go": "int32"})]
Uint64 = Annotated[int, Meta(ge=0, extra={"go": "uint64"})]
"""A number up to 2^64 - 1; msgspec cannot say so, `requests` does."""
Duration = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX, extra={"go": "time.Duration"})]
Time = Annotated[str, Meta(extra={"go": "time.Time"})]


def has_long_number(text: bytes) -> bool:
    """True if JSON has 19 digits in a row: a number that may be beyond 64 bits, which msgspec lets pass."""
    # Of 19 bytes in a row every ninth of a text has two: most texts need no closer look.
    return _PART_OF_LONG.search(text[::9]) is not None and _LONG.search(text) is not None


def whole(text: bytes) -> int | None:
    """Parse digits of a header or a subject; None for anything else, and beyond 64 bits."""
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number <= UINT64_MAX else None
