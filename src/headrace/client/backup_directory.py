"""A stream's backup in a directory: `backup.json` and `stream.tar.s2`, as the tool nats lays it out.

    directory = BackupDirectory("/backups/ORDERS")
    taken = directory.take(api, "ORDERS")
    assert directory.contents().messages == taken.state["messages"]

`backup.json` has the configuration and the state of the stream; it is written last, so a directory that has
it has a whole backup. Never lives here: how the bytes come from a server and go to one (`snapshots`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.client.errors import ClientError
from headrace.client.snapshots import CHUNK, restore_snapshot, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.client.jetstream_api import JetStreamApi
    from headrace.client.snapshots import StreamSnapshot

_FACTS: Final = "backup.json"
_DATA: Final = "stream.tar.s2"
_OTHER_DATA: Final = "stream.arc.s2"
"""The name that later versions of the tool give the same bytes."""
_PART: Final = ".part"
_TYPE: Final = "io.nats.jetstream.api.v1.stream_snapshot_response"
_LARGEST_ENTRY: Final = 64 << 20


class BackupDamagedError(ClientError):
    """A backup that is not whole, or whose bytes are not those that were written."""


class BackupContents(Struct, frozen=True):
    """The contents of a backup, counted: `state` is that of the stream as the archive itself says it."""

    state: dict[str, Any]
    messages: int
    consumers: int
    first_sequence: int
    last_sequence: int


class BackupDirectory:
    """The directory of one stream's backup."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def is_whole(self) -> bool:
        """True if a backup was written to its end."""
        return (self.path / _FACTS).is_file()

    @property
    def size_bytes(self) -> int:
        """The bytes of the archive. Raises: OSError."""
        return self._data().stat().st_size

    def facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the configuration and the state of the stream. Raises: BackupDamagedError, OSError."""
        path = self.path / _FACTS
        try:
            found = json.loads(path.read_bytes())
            config, state = found["config"], found["state"]
            if not isinstance(config["name"], str) or not isinstance(state, dict):
                raise TypeError("it has no stream")
        except (ValueError, KeyError, TypeError) as error:
            raise BackupDamagedError(f"{path}: not the facts of a backup: {error}") from error
        return config, state

    def take(
        self,
        api: JetStreamApi,
        stream: str,
        *,
        with_consumers: bool = True,
        check: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> StreamSnapshot:
        """Write a backup of a stream, over one that is there; return what it is of.

        `check`: as `take_snapshot`. `progress` is called with the bytes so far and about how many there are.
        Raises: as `take_snapshot`; OSError.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        part = self.path / (_DATA + _PART)
        total, size = 0, 0

        def begun(state: Mapping[str, Any]) -> None:
            nonlocal total
            total = int(state.get("bytes", 0))

        def write(piece: bytes) -> None:
            nonlocal size
            file.write(piece)
            size += len(piece)
            if progress is not None:
                progress(size, max(total, size))

        try:
            with part.open("wb") as file:
                taken = take_snapshot(
                    api, stream, write, with_consumers=with_consumers, check=check, begun=begun
                )
                file.flush()
                os.fsync(file.fileno())
            (self.path / _FACTS).unlink(missing_ok=True)
            (self.path / _OTHER_DATA).unlink(missing_ok=True)
            part.replace(self.path / _DATA)
        finally:
            part.unlink(missing_ok=True)
        facts = {"type": _TYPE, "config": taken.config, "state": taken.state}
        part = self.path / (_FACTS + _PART)
        part.write_text(json.dumps(facts), encoding="utf-8")
        part.replace(self.path / _FACTS)
        return taken

    def restore(
        self,
        api: JetStreamApi,
        config: Mapping[str, Any],
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> dict[str, Any]:
        """Make a stream of the backup, with a configuration; return its info.

        `progress` is called with the bytes that the server has, and how many there are. Raises: as
        `restore_snapshot`; BackupDamagedError, OSError.
        """
        _, state = self.facts()
        total = self.size_bytes

        def sent(count: int) -> None:
            if progress is not None:
                progress(count, total)

        pieces = self._pieces(min(CHUNK, api.connection.max_payload))
        return restore_snapshot(api, config, state, pieces, sent=sent)

    def contents(self, progress: Callable[[int, int], object] | None = None) -> BackupContents:
        """Read the whole archive, with its checksums, and count what is in it.

        Raises: BackupDamagedError if it is cut off or damaged; OSError.
        """
        from headrace.protocol import archive, s2

        blocks, entries = s2.S2Reader(), archive.ArchiveReader(_LARGEST_ENTRY)
        counter = _ContentCounter()
        done, total = 0, self.size_bytes
        try:
            for piece in self._pieces(CHUNK):
                for data in blocks.feed(piece):
                    for entry in entries.feed(data):
                        counter.count(entry)
                done += len(piece)
                if progress is not None:
                    progress(done, total)
        except ValueError as error:
            raise BackupDamagedError(f"{self._data()}: {error}") from error
        if not counter.is_whole or not blocks.is_between_frames:
            raise BackupDamagedError(f"{self._data()}: it is cut off")
        return BackupContents(counter.state, counter.messages, counter.consumers, counter.first, counter.last)

    def _data(self) -> Path:
        other = self.path / _OTHER_DATA
        path = self.path / _DATA
        return other if not path.exists() and other.exists() else path

    def _pieces(self, size: int) -> Iterator[bytes]:
        with self._data().open("rb") as file:
            while piece := file.read(size):
                yield piece


class _ContentCounter:
    """The contents of an archive, counted entry by entry."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.messages = self.consumers = self.first = self.last = 0
        self.is_whole = False

    def count(self, entry: Any) -> None:
        """Count an entry. Raises: ValueError for one that may not stand there."""
        if self.is_whole:
            raise ValueError("it goes on after its end")
        if entry.is_end:
            self.is_whole = True
        elif entry.sequence:
            if entry.sequence <= self.last:
                raise ValueError(f"message {entry.sequence} is out of order")
            self.first = self.first or entry.sequence
            self.last = entry.sequence
            self.messages += 1
        elif entry.name == b"state.json":
            self.state = json.loads(entry.payload)
        else:
            self.consumers += 1
