"""The segments of one log as they are at one moment, while a server writes, rewrites and unlinks them.

Segments that are full do not grow, but may be rewritten without what was removed, which relies on records in
later segments; so they count only if none has changed from when it was read to the end. They are read from
the oldest to the newest: what a later one says about an earlier one is then never too little. The last one
is cut to whole records.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.backup.manifest import BackupError, Part, key_of
from headrace.engine.sequence_set import SequenceSet
from headrace.log.segment import BEGINNING, CEILING, HEADER_BYTES, Header, Segment, base_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headrace.objects.port import ObjectStore

    Mark = tuple[int, ...]

ATTEMPTS: Final = 20
"""The number of times a log is read again after the server changed it meanwhile."""
_SETTLED_NS: Final = 2_000_000_000
"""A file that was written less long ago may be written once more without a change of its time."""


class Copier:
    """Puts what is new of logs into a target. `known`: parts of the last backup by log and name."""

    def __init__(
        self, store: ObjectStore, known: Mapping[tuple[bytes, str], Part], told: Callable[[int], object]
    ) -> None:
        self._store = store
        self._known = known
        self._told = told
        self._there = {entry.key for entry in store.list_folder().objects}
        self.segments = 0
        """Parts of the logs so far."""
        self.copied = 0
        """Segments that were not in the target."""
        self.copied_bytes = 0

    def log(self, name: bytes, directory: Path) -> tuple[Part, ...]:
        """Copy a log into the backup and return its segments.

        Raises: FileNotFoundError when the log is gone; BackupError, OSError, StoreError.
        """
        done: dict[str, Part] = {}
        for _ in range(ATTEMPTS):
            names = sorted(one for one in os.listdir(directory) if base_of(one) is not None)
            changed = False
            done = {one: part for one, part in done.items() if one in names}
            for one in names[:-1]:
                if one not in done or done[one].mark != _mark(directory / one):
                    changed |= self._full(name, directory / one, done)
            if changed:
                continue  # what was read before may have changed meanwhile
            parts = [done[one] for one in names[:-1] if one in done]
            last = self._last(directory / names[-1]) if names else None
            is_settled = names == sorted(one for one in os.listdir(directory) if base_of(one) is not None)
            if is_settled and all(part.mark == _mark(directory / part.name) for part in parts):
                found = tuple(_lasting(part) for part in parts) + ((last,) if last is not None else ())
                self.segments += len(found)
                return found
        raise BackupError(f"{directory}: its segments change faster than they can be copied")

    def _full(self, log: bytes, path: Path, done: dict[str, Part]) -> bool:
        """Add a full segment; return True if it had to be read, or is gone."""
        done.pop(path.name, None)
        mark = _mark(path)
        known = self._known.get((log, path.name))
        if known is not None and known.mark == mark and key_of(known.sha256) in self._there:
            done[path.name] = known
            self._told(known.size)
            return False
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return True
        if _mark(path) == mark:  # else it was changed while it was read
            done[path.name] = self._put(path.name, data, mark)
        return True

    def _last(self, path: Path) -> Part | None:
        """The segment that is written, up to its last whole record; None: nothing is in it."""
        data = path.read_bytes()
        header = Header.read(data[:BEGINNING])
        if header is None or header.is_packed:
            return self._put(path.name, data, ()) if data.strip(b"\0") else None
        scan = Segment(path, header, len(data)).scan(header.base, CEILING, 0, None)
        scan.removals(data[HEADER_BYTES:], True, SequenceSet(), 0)
        end = len(data) if scan.bad_from is None else HEADER_BYTES + scan.bad_from
        return self._put(path.name, data[:end], ())

    def _put(self, name: str, data: bytes, mark: Mark) -> Part:
        sha256 = hashlib.sha256(data).hexdigest()
        key = key_of(sha256)
        if key not in self._there:
            draft = self._store.draft()
            try:
                draft.write(data)
                draft.close()
                draft.publish(key)
            finally:
                draft.discard()
            self._there.add(key)
            self.copied += 1
            self.copied_bytes += len(data)
        self._told(len(data))
        return Part(name, len(data), sha256, mark)


def _lasting(part: Part) -> Part:
    """Return the part, without its mark if the file changed just now: one more change might leave the mark as
    it is.
    """
    return part if time.time_ns() - part.mark[-1] > _SETTLED_NS else replace(part, mark=())


def _mark(path: Path) -> Mark:
    """Return values of a file that change when it is written or replaced; none if it is gone."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
