"""Many logs by name: in memory, or each in a directory of its own.

Here live the two stores, the lock that keeps a second process out, and how a name becomes a directory's.
Never here: what a log's files hold, or what a name means to a service.

    <directory>/lock              held by the process that has the store open
    <directory>/closed            while nobody has: which logs are durable (`closing`)
    <directory>/logs/<entry>/     one log; its name percent-encoded
    <directory>/logs/<entry>.name the whole name, when it is too long for a file system; once more as
    <directory>/logs/<entry>/name
    <directory>/logs/.removed.*   logs being removed; swept when the store is opened
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote_from_bytes, unquote_to_bytes

from headrace.errors import LogClosed, StorageError, StoreLocked
from headrace.log.closing import closed_log, is_unchanged, take_mark, write_mark
from headrace.log.file import SEGMENT_BYTES, FileLog
from headrace.log.filesystem import RealFileSystem, make_directory, read_file, replace_file
from headrace.log.port import NO_LIMITS, Limits, SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.log.closing import ClosedLog
    from headrace.log.damage import Damage
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.key_rotation import Conversion
    from headrace.log.memory import MemoryLog
    from headrace.log.port import Limits, MessageLog

LONGEST_ENTRY: Final = 200
"""A name whose encoding is longer is cut and told apart by its SHA-256; file systems take 255 bytes."""
_CUT: Final = 100
_REMOVED: Final = ".removed."
_NAME: Final = ".name"
_NAME_INSIDE: Final = "name"
LOGS: Final = "logs"
"""The directory of all logs, in that of a store."""


class LogStore(Protocol):
    """The logs of one directory, or of memory, by name; for one thread.

    Errors are those of `headrace.errors.LogError`. Every method raises LogClosed after `close`.
    """

    def open(self, name: bytes, limits: Limits = NO_LIMITS) -> MessageLog:
        """The log of that name under these limits, created when missing. A log that is open is given again.

        Raises: ValueError for an empty name, StorageError.
        """

    def names(self) -> list[bytes]:
        """Return the names of all logs, open or not, sorted."""

    def remove(self, name: bytes) -> bool:
        """Close a log and delete all of it; it does not come back after a crash. False: there is none."""

    def close(self) -> None:
        """Close every log. Safe to call twice. Raises: StorageError of the first that failed to sync."""


class MemoryStore:
    """Logs that are there until they are closed or removed. `clock`: wall clock in ns since 1970 UTC."""

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._logs: dict[bytes, MemoryLog] = {}
        self._closed = False

    def open(self, name: bytes, limits: Limits = NO_LIMITS) -> MessageLog:
        self._check_open()
        _check_name(name)
        log = self._logs.get(name)
        if log is not None and _is_open(log):
            log.limits = limits
            return log
        return self._new(name, limits)

    def _new(self, name: bytes, limits: Limits) -> MessageLog:
        from headrace.log.memory import MemoryLog  # many servers have none

        log = self._logs[name] = MemoryLog(limits, self._clock)
        return log

    def names(self) -> list[bytes]:
        self._check_open()
        return sorted(name for name, log in self._logs.items() if _is_open(log))

    def remove(self, name: bytes) -> bool:
        self._check_open()
        log = self._logs.pop(name, None)
        if log is None or not _is_open(log):
            return False
        log.close()
        return True

    def close(self) -> None:
        self._closed = True
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed("the store is closed")


class FileStore:
    """Logs in files below one directory, which is made when missing.

    `report` is told of damage: the log's name, and what it is. `remembers`: a log that
    was opened is there after a power loss; else it is there once something is written to it, has a name among
    `names` from then on, and survives a power loss from its first sync on. `converted`: what is sealed
    otherwise than with `cipher` is sealed with it first (`key_rotation`), and this is told of it; without it
    such files are refused when their log is opened, and plain ones are left as they are. `checkpoint_bytes`:
    as for `FileLog`.
    Raises: StoreLocked when another process has the store open, StorageError.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Callable[[], int] = time.time_ns,
        sync: SyncPolicy = SyncPolicy.GROUP,
        segment_bytes: int = SEGMENT_BYTES,
        cipher: Cipher | None = None,
        filesystem: FileSystem | None = None,
        report: Callable[[bytes, Damage], object] | None = None,
        remembers: bool = True,
        converted: Callable[[Conversion], object] | None = None,
        checkpoint_bytes: int | None = None,
    ) -> None:
        self._remembers = remembers
        self._checkpoint_bytes = checkpoint_bytes
        self._directory = directory
        self._clock = clock
        self._sync = sync
        self._segment_bytes = segment_bytes
        self._cipher = cipher
        self._files: FileSystem = filesystem or RealFileSystem()
        self._report = report
        self._logs: dict[bytes, FileLog] = {}
        self._durable: dict[str, ClosedLog] = {}
        """Logs that were closed in order and not opened since."""
        self._entries: dict[bytes, str] = {}
        """Every log's directory, relative to `logs`."""
        self._closed = False
        with self._storage():
            make_directory(self._files, directory)
            self._lock = self._take_lock()
        try:
            with self._storage():
                self._durable = take_mark(self._files, directory)
                make_directory(self._files, self._home)
                self._sweep()
                logs = list_logs(directory, self._files)
                self._entries = {name: path.name for name, path in logs.items()}
            if converted is not None and cipher is not None:
                from headrace.log.key_rotation import convert  # few stores are sealed

                convert(logs, self._files, cipher, converted)
        except BaseException:
            self._files.close(self._lock)
            raise

    def open(self, name: bytes, limits: Limits = NO_LIMITS) -> MessageLog:
        self._check_open()
        _check_name(name)
        log = self._logs.get(name)
        if log is not None and _is_open(log):
            log.limits = limits
            return log
        if self._remembers and name not in self._entries:
            with self._storage():
                self._create(name)
        opened = self._logs[name] = self._open_log(name, limits)
        return opened

    def names(self) -> list[bytes]:
        self._check_open()
        return sorted(self._entries)

    def remove(self, name: bytes) -> bool:
        self._check_open()
        log = self._logs.pop(name, None)
        was_open = log is not None and _is_open(log)
        if log is not None:
            self._close_unsynced(log)
        entry = self._entries.get(name)
        if entry is None:
            return was_open
        with self._storage():
            # Renamed first: a crash on the way must not leave half of a log under its name. If the rename was
            # done and not synced, the removal has failed, and this is the second attempt.
            if self._files.is_directory(self._home / entry):
                self._files.rename(self._home / entry, self._home / self._free_name())
            self._files.fsync_dir(self._home)
            del self._entries[name]
            self._durable.pop(entry, None)
        self._sweep()
        return True

    def _close_unsynced(self, log: MessageLog) -> None:
        try:
            log.close()
        except StorageError:
            return  # what could not be synced is about to be deleted, perhaps since the disk is full

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        failed: StorageError | None = None
        for log in self._logs.values():
            try:
                log.close()
            except StorageError as error:
                failed = failed or error
        if self._sync is not SyncPolicy.NEVER:
            with suppress(OSError):  # only the next start takes longer
                self._leave_mark()
        self._logs.clear()
        self._files.close(self._lock)
        if failed is not None:
            raise failed

    def _leave_mark(self) -> None:
        """Say which logs are durable: those closed now, and those that nobody opened. Raises: OSError."""
        for name, log in self._logs.items():
            entry = self._entries.get(name)
            if entry is not None and log.left is not None:
                self._durable[entry] = closed_log(self._files, self._home / entry, log.left)
        write_mark(self._files, self._directory, self._durable)

    @property
    def _home(self) -> Path:
        return self._directory / LOGS

    def _open_log(self, name: bytes, limits: Limits) -> FileLog:
        entry = self._entries.get(name)
        directory = self._home / (entry or _entry(name))
        closed = self._durable.pop(directory.name, None)
        is_closed = closed is not None and is_unchanged(self._files, directory, closed)
        return FileLog(
            directory,
            limits=limits,
            clock=self._clock,
            filesystem=self._files,
            segment_bytes=self._segment_bytes,
            sync=self._sync,
            cipher=self._cipher,
            report=partial(self._damaged, name),
            make=partial(self._create, name) if entry is None else None,
            left=closed.left if closed is not None and is_closed else None,
            checkpoint_bytes=self._checkpoint_bytes,
        )

    def _damaged(self, name: bytes, damage: Damage) -> None:
        if self._report is not None:
            self._report(name, damage)

    def _take_lock(self) -> int:
        try:
            return self._files.lock(self._directory / "lock")
        except BlockingIOError as error:
            raise StoreLocked(f"another process has {self._directory} open") from error

    def _create(self, name: bytes) -> None:
        entry = _entry(name)
        path = self._home / entry
        if self._files.is_directory(path) and entry not in self._files.listdir(self._home):
            raise StorageError(f"{self._home} does not tell upper case from lower: {entry} is there already")
        if _is_cut(entry):
            replace_file(self._files, self._home / (entry + _NAME), name)
        if self._remembers:
            make_directory(self._files, path)
        elif not self._files.is_directory(path):
            self._files.mkdir(path)
        if _is_cut(entry):
            replace_file(self._files, path / _NAME_INSIDE, name)
        self._entries[name] = entry

    def _free_name(self) -> str:
        taken = set(self._files.listdir(self._home))
        return next(name for n in range(len(taken) + 1) if (name := f"{_REMOVED}{n}") not in taken)

    def _sweep(self) -> None:
        """Delete what removed logs left behind."""
        try:
            entries = self._files.listdir(self._home)
            for entry in entries:
                if entry.startswith(_REMOVED):
                    self._delete(self._home / entry)
                elif _is_cut(entry) and entry.endswith(_NAME) and entry.removesuffix(_NAME) not in entries:
                    self._files.unlink(self._home / entry)
        except OSError:
            # It holds space and nothing else: the next removal or start tries again.
            return

    def _delete(self, directory: Path) -> None:
        for entry in self._files.listdir(directory):
            if self._files.is_directory(directory / entry):
                self._delete(directory / entry)
            else:
                self._files.unlink(directory / entry)
        self._files.rmdir(directory)

    @contextmanager
    def _storage(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self._directory}: {error}") from error

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed("the store is closed")


def list_logs(directory: Path, filesystem: FileSystem | None = None) -> dict[bytes, Path]:
    """The logs of a store by name, with their directories; also of one that another process has open.

    What is not named as a log's directory is not ours and left alone. Raises: OSError.
    """
    files = filesystem or RealFileSystem()
    home = directory / LOGS
    found = {}
    for entry in files.listdir(home):
        path = home / entry
        if files.is_directory(path) and (name := log_name(path, files)) is not None:
            found[name] = path
    return found


def log_directory(store: Path, name: bytes, filesystem: FileSystem | None = None) -> Path:
    """The directory of a log of a store that nobody has open; it is made, durably. Raises: OSError."""
    files = filesystem or RealFileSystem()
    entry = _entry(name)
    path = store / LOGS / entry
    make_directory(files, path)
    if _is_cut(entry):
        replace_file(files, store / LOGS / (entry + _NAME), name)
        replace_file(files, path / _NAME_INSIDE, name)
    return path


def log_name(directory: Path, filesystem: FileSystem | None = None) -> bytes | None:
    """The name of the log in a directory of a store; None when it is not named as one. Raises: OSError."""
    entry = directory.name
    if not _is_cut(entry):
        name = unquote_to_bytes(entry)
        return name if name and _entry(name) == entry else None
    for path in (directory.with_name(entry + _NAME), directory / _NAME_INSIDE):
        with suppress(FileNotFoundError):
            name = read_file(filesystem or RealFileSystem(), path)
            if name and _entry(name) == entry:
                return name
    return None


def _check_name(name: bytes) -> None:
    if not name:
        raise ValueError("a log needs a name")


def _is_open(log: MessageLog) -> bool:
    """Close no log: that is left to those who use them; the port has no other way to ask."""
    try:
        log.next_expiry()
    except LogClosed:
        return False
    return True


def _entry(name: bytes) -> str:
    """The directory of a log: letters, digits, `-`, `_` and `.` are themselves, but for a dot in front."""
    entry = quote_from_bytes(name, safe="").replace("~", "%7E")
    if entry.startswith("."):
        entry = "%2E" + entry[1:]
    if len(entry) > LONGEST_ENTRY:
        import hashlib  # few names are so long

        entry = f"{entry[:_CUT]}~{hashlib.sha256(name).hexdigest()}"
    return entry


def _is_cut(entry: str) -> bool:
    return "~" in entry
