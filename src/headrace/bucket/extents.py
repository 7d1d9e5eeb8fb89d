"""The bytes of files in segment objects: which requests bring them, and whether they are what was stored.

Checksums are those of extents, each of which is at most `BLOCK` bytes when it is stored. So whoever reads a
part of an extent asks for all of what was stored with it, and no more. Never here: who asks (an event loop,
a thread), or where the bytes go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.bucket.changes import FileExtent  # noqa: TC001 - msgspec reads the annotations
from headrace.bucket.errors import DamagedObject
from headrace.engine.records import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BLOCK: Final = 1 << 20
"""Extents end where a multiple of this is in their file: bytes that one checksum is over."""
MOST_AT_ONCE: Final = 4 << 20
"""Bytes that one request asks for: extents that lie one behind the other in an object are read together."""


class Fetch(Struct, frozen=True):
    """A request for the bytes [start, end) of an object, which hold these extents, one behind the other."""

    object: str
    start: int
    end: int
    extents: tuple[FileExtent, ...]


def fetches(extents: Iterable[FileExtent], most: int = MOST_AT_ONCE) -> list[Fetch]:
    """Return the requests that bring these extents, in the order of the file."""
    found: list[Fetch] = []
    for extent in extents:
        last = found[-1] if found else None
        end = extent.offset + extent.stored
        if (
            last is not None
            and last.object == extent.object
            and last.end in (extent.offset, end)  # the one behind it, or another part of the same
            and end - last.start <= most
        ):
            found[-1] = Fetch(last.object, last.start, end, (*last.extents, extent))
        else:
            found.append(Fetch(extent.object, extent.offset, end, (extent,)))
    return found


def pieces(fetch: Fetch, data: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the places in the file and the bytes of what a request brought.

    Raises: DamagedObject if that is not what was stored.
    """
    whole = memoryview(data)
    if len(whole) != fetch.end - fetch.start:
        raise DamagedObject(
            f"segment object {fetch.object} is cut off: {len(whole)} bytes from {fetch.start} on"
        )
    for extent in fetch.extents:
        at = extent.offset - fetch.start
        stored = whole[at : at + extent.stored]
        if crc32c(stored) != extent.crc:
            raise DamagedObject(
                f"segment object {fetch.object}: the checksum of the bytes at {extent.offset} is wrong"
            )
        yield extent.start, stored[extent.skip : extent.skip + extent.size]
