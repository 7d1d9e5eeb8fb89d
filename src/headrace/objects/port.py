"""The contract of an object store: bytes under keys, each whole or not there.

A key is a path relative to the store, with `/` between its parts. Every method raises StoreError.

What callers may count on, and no more:

- A put is atomic, and durable when it returns (but not over `file://`, see `opening`). After a StoreError it
  may have had its effect all the same.
- `create` is the one conditional put: of all who create one key exactly one succeeds, for ever. In a
  directory (`local`) that is so among those who hold its lock.
- A read after a put sees it. A listing may be older than a read: it says where to begin to look.
- There is no rename: `move` is a copy and a removal.

Credentials and endpoint are arguments of `opening`, or come from the environment (`AWS_*`, `GOOGLE_*`,
`AZURE_*`). ADR 0034.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    Bytes = bytes | bytearray | memoryview

OWN: Final = "_headrace"
"""The folder of what is not an owner's data. Readers of Parquet leave out names that begin so."""


class ObjectInfo(NamedTuple):
    """An object that is there. A listing of a directory tells keys only."""

    key: str
    size: int | None = None
    """Bytes."""
    modified_ns: int | None = None
    """Nanoseconds since 1970 UTC, by the store's clock."""


class Listing(NamedTuple):
    """The objects directly in a folder, and the names of the folders in it; both sorted."""

    objects: list[ObjectInfo]
    folders: list[str]


class Draft(Protocol):
    """An object being written: in no list until `publish`, gone after `discard` or when the writer dies."""

    @property
    def closed(self) -> bool: ...
    def write(self, data: Bytes) -> int: ...
    def flush(self) -> None: ...
    def tell(self) -> int: ...

    def close(self) -> None:
        """End the writing (what writes Parquet calls it). It is still a draft."""

    def publish(self, key: str) -> str:
        """Put it under its key, durable on return; return its SHA-256. Raises: StoreError."""

    def discard(self) -> None:
        """Take it away. Safe to call twice, and after `publish`, when it does nothing."""


class ObjectStore(Protocol):
    """A store for threads that may wait."""

    @property
    def location(self) -> str:
        """The path or URL, for people and for other readers."""

    def get(self, key: str) -> bytes:
        """Return all bytes of an object. Raises: KeyMissing."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes [start, end), fewer at the object's end. Raises: KeyMissing."""

    def head(self, key: str) -> ObjectInfo:
        """Return the size of an object, and when it was written where that is known. Raises: KeyMissing."""

    def open(self, key: str, *, in_parts: bool = False) -> IO[bytes]:
        """Open an object for reading anywhere in it; `in_parts`: only some of it will be read.

        Raises: KeyMissing; with `in_parts` every read of it does, too.
        """

    def put(self, key: str, data: bytes) -> None:
        """Write an object whole and durable, in place of one that is there."""

    def create(self, key: str, data: bytes) -> None:
        """Write an object that was not there, whole and durable. Raises: KeyExists."""

    def draft(self) -> Draft:
        """Begin an object that is larger than memory."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a folder ("": all) with keys behind `after`, in no order."""

    def list_folder(self, folder: str = "") -> Listing:
        """Return what lies directly in a folder ("": the store itself); nothing where there is none."""

    def move(self, old: str, new: str) -> None:
        """Move an object, not atomically: a crash may leave both or, where `old` is of no use, none.

        Raises: KeyMissing.
        """

    def delete(self, key: str) -> None:
        """Remove an object, durable on return. Nothing happens when it is not there."""

    def lock(self) -> AbstractContextManager[bool]:
        """Keep other writers out while it is held: True; False where the store has no locks.

        Raises: LockHeld.
        """

    def sync_folder(self, folder: str) -> None:
        """Make a folder and what is listed in it durable: a writer that died may have left it unsynced."""


class AsyncObjectStore(Protocol):
    """A store for an event loop: several requests may be under way. Methods mean what they do above."""

    @property
    def location(self) -> str: ...

    async def get(self, key: str) -> bytes:
        """Return an object. Raises: KeyMissing."""

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes of an object from `start` to before `end`. Raises: KeyMissing."""

    async def head(self, key: str) -> ObjectInfo:
        """Return the size and the time of an object. Raises: KeyMissing."""

    async def put(self, key: str, data: Bytes | Path) -> None:
        """Bytes are sent in one request; a file is read as it is sent, in parts where it is large."""

    async def create(self, key: str, data: Bytes | Path) -> None:
        """Write an object that must be new. Raises: KeyExists."""

    def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[ObjectInfo]:
        """Yield the objects below a folder ("": all) with keys behind `after`, in no order."""

    async def list_folder(self, folder: str = "") -> Listing: ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; keys without an object are passed over."""
