"""Keeps an import from reading a store that a server is using, and never writes to it.

A server in a fault-tolerant group locks `.rootdir.lck` (a POSIX record lock); one on its own takes no lock at
all. So the files it has open are looked for too, as far as the system shows them, and what was read has to be
the same afterwards.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.importing.findings import SourceInUse, SourceUnusable

if TYPE_CHECKING:
    from types import TracebackType

LOCK_FILE: Final = ".rootdir.lck"

_PROCESSES: Final = Path("/proc")

_Stamp = tuple[int, int, int]


class SourceGuard:
    """Holds a store for reading: `with SourceGuard(directory) as guard: ...; guard.check()`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._handle = -1
        self._before: dict[str, _Stamp] = {}

    def __enter__(self) -> SourceGuard:
        """Begin to watch the files of the store.

        Raises: SourceInUse; SourceUnusable when the directory cannot be read.
        """
        self._before = self._stamps()
        try:
            self._lock()
            holder = _who_has_open(self._directory)
            if holder:
                raise SourceInUse(f"{self._directory} is in use: process {holder} has its files open")
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unlock()

    def check(self) -> None:
        """Look at the files of the store again.

        Raises: SourceInUse when one has changed, come or gone since the guard began.
        """
        after = self._stamps()
        changed = {
            name for name in self._before.keys() | after.keys() if self._before.get(name) != after.get(name)
        }
        if changed:
            first = min(changed)
            raise SourceInUse(
                f"{self._directory} changed while it was read ({first}): is a server running on it?"
            )

    def _lock(self) -> None:
        """A shared lock keeps a server of a group from starting; of both kinds, for whoever takes which."""
        path = self._directory / LOCK_FILE
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            raise SourceUnusable(f"cannot open {path}: {error.strerror}") from error
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise SourceInUse(f"{self._directory} is in use: a server holds its lock {LOCK_FILE}") from error

    def _unlock(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _stamps(self) -> dict[str, _Stamp]:
        stamps = {}
        try:
            for folder, _, names in os.walk(self._directory, onerror=_raise):
                for name in names:
                    path = os.path.join(folder, name)
                    status = os.stat(path) if os.path.exists(path) else os.lstat(path)  # a link to nowhere
                    relative = os.path.relpath(path, self._directory)
                    stamps[relative] = (status.st_ino, status.st_size, status.st_mtime_ns)
        except FileNotFoundError as error:
            if not self._before and Path(str(error.filename)) == self._directory:
                raise SourceUnusable(f"{self._directory} does not exist") from error
            raise SourceInUse(
                f"{self._directory} changes while it is read: {error.filename} is gone"
            ) from error
        except OSError as error:
            raise SourceUnusable(f"cannot read {error.filename}: {error.strerror}") from error
        return stamps


def _raise(error: OSError) -> None:
    raise error


def _who_has_open(directory: Path) -> int:
    """Return the id of another process that has a file below the directory open for writing; 0 when none is
    seen.
    """
    below = os.path.join(os.path.realpath(directory), "")
    for process in _PROCESSES.glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            handles = list((process / "fd").iterdir())
        except OSError:  # another user's, or it has ended: the lock and `check` remain
            continue
        for handle in handles:
            try:
                target = os.readlink(handle)
            except OSError:
                continue
            if target.startswith(below) and _is_for_writing(process / "fdinfo" / handle.name):
                return int(process.name)
    return 0


def _is_for_writing(info: Path) -> bool:
    try:
        flags = next(line for line in info.read_text().splitlines() if line.startswith("flags:"))
    except (OSError, StopIteration):
        return False
    return bool(int(flags.split()[1], 8) & os.O_ACCMODE)
