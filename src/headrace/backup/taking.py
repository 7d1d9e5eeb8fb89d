"""Making a backup of a store, which a server may have open meanwhile.

The logs of a service's state are read before the logs they speak of: a consumer is then never said to be
further than the messages are. Where a log is removed meanwhile, also if there is then another one of that
name, all is looked at once more.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from headrace.backup.copying import Copier
from headrace.backup.manifest import (
    MANIFESTS,
    SUFFIX,
    VERSION,
    BackupError,
    BackupManifest,
    Log,
    backups_in,
    next_name,
    read_manifest,
)
from headrace.log.segment import BEGINNING, Header, base_of
from headrace.log.store import list_logs
from headrace.objects.errors import KeyExists
from headrace.objects.port import OWN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.objects.port import Listing, ObjectStore

ATTEMPTS: Final = 10
"""The number of times everything is read again after logs were removed meanwhile."""


class Taken(Struct, frozen=True):
    """The result of one backup. `segments`: of all its logs; `copied`: those that were not in the target."""

    name: str
    logs: int
    segments: int
    copied: int
    copied_bytes: int


class LogChoice(Struct, frozen=True):
    """The choice of logs. `is_state` tells from a log's name whether it is a service's state."""

    home: Path
    is_state: Callable[[bytes], bool]
    account: str | None = None
    prefix: bytes = b""
    """The prefix of the names of the logs that are wanted."""

    @property
    def source(self) -> str:
        """The machine and directory: backups of another one are refused."""
        return f"{socket.gethostname()}:{self.home.resolve()}"


def take_backup(
    store: ObjectStore, wanted: LogChoice, told: Callable[[int, int], object] = lambda _done, _of: None
) -> Taken:
    """Take a backup of a store beside the server that uses it.

    `told` of bytes that are done and of all, again and again. Raises: BackupError, StoreError.
    """
    _logs_of(wanted)  # what is not there leaves no target either
    names = backups_in(store)
    there = store.list_folder()
    others = len(there.objects) + len(there.folders)
    if not names and others and not _is_cut_off(there):
        raise BackupError(
            f"{store.location} is not empty ({others} other things are there) and has no backup"
        )
    known = _last_of(store, names, wanted)
    with store.lock():
        store.sync_folder(MANIFESTS)  # of a backup that was cut off
        return _take(store, wanted, known, told)


def _is_cut_off(there: Listing) -> bool:
    """True if the target has only parts of a first backup that was cut off."""
    return all(one.key.endswith(SUFFIX) for one in there.objects) and set(there.folders) <= {OWN}


def _last_of(store: ObjectStore, names: list[str], wanted: LogChoice) -> BackupManifest | None:
    if not names:
        return None
    last = read_manifest(store, names[-1])
    if last.source != wanted.source:
        raise BackupError(
            f"{store.location} has backups of {last.source}, not of {wanted.source}: it needs its own target"
        )
    if last.account != wanted.account:
        whose = "all accounts" if last.account is None else f"account {last.account}"
        raise BackupError(f"{store.location} has backups of {whose}: others need their own target")
    return last


def _take(
    store: ObjectStore, wanted: LogChoice, last: BackupManifest | None, told: Callable[[int, int], object]
) -> Taken:
    known = {
        (log.name, part.name): part for log in (last.logs if last is not None else ()) for part in log.parts
    }
    for _ in range(ATTEMPTS):
        found = _logs_of(wanted)
        began = {name: _oldest(directory) for name, directory in found.items()}
        total = sum(_size(path) for one in found.values() for path in one.glob("*.log"))
        done = 0

        def progress(more: int, total: int = total) -> None:
            nonlocal done
            done += more
            told(min(done, total), total)

        copier = Copier(store, known, progress)
        order = sorted(found, key=lambda name: (not wanted.is_state(name), name))
        try:
            logs = [Log(name, copier.log(name, found[name])) for name in order]
        except FileNotFoundError:
            continue
        except OSError as error:
            raise BackupError(f"cannot read {wanted.home}: {error}") from error
        if all(_is_still(began[name], directory) for name, directory in found.items()):
            name = _publish(store, wanted, tuple(logs))
            return Taken(name, len(logs), copier.segments, copier.copied, copier.copied_bytes)
    raise BackupError(f"{wanted.home}: streams are removed faster than they can be copied")


def _logs_of(wanted: LogChoice) -> dict[bytes, Path]:
    try:
        found = list_logs(wanted.home)
    except FileNotFoundError as error:
        raise BackupError(f"{wanted.home} has no streams of Headrace") from error
    except OSError as error:
        raise BackupError(f"cannot read {wanted.home}: {error}") from error
    logs = {name: path for name, path in found.items() if name.startswith(wanted.prefix)}
    if not logs and wanted.account is not None:
        raise BackupError(f"{wanted.home} has no streams of account {wanted.account}")
    return logs


def _size(path: Path) -> int:
    """0 for one that is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class _Segment(NamedTuple):
    """The identity of a log's oldest segment. Rewriting it keeps its salt."""

    name: str
    salt: int


def _oldest(directory: Path) -> _Segment | None:
    """Return the oldest segment of a directory; None if there is none, or it is damaged."""
    for path in sorted(path for path in directory.glob("*.log") if base_of(path.name) is not None):
        header = _header(path)
        return None if header is None else _Segment(path.name, header.salt)
    return None


def _is_still(oldest: _Segment | None, directory: Path) -> bool:
    """True if a log is the one that had this segment.

    The segment may be gone, but an older one never comes.
    """
    if not directory.is_dir():
        return False
    now = _oldest(directory)
    return oldest is None or now is None or now.name > oldest.name or now == oldest


def _header(path: Path) -> Header | None:
    try:
        with path.open("rb") as file:
            return Header.read(file.read(BEGINNING))
    except FileNotFoundError:
        return None


def _publish(store: ObjectStore, wanted: LogChoice, logs: tuple[Log, ...]) -> str:
    now = datetime.now(UTC)
    manifest = BackupManifest(VERSION, now.isoformat(timespec="seconds"), wanted.source, wanted.account, logs)
    while True:
        name = next_name(backups_in(store), now)
        with suppress(KeyExists):  # where there are no locks: another backup was as far
            store.create(f"{MANIFESTS}/{name}.json", manifest.encode())
            return name
