"""Making a backup of a store, which a server may have open meanwhile.

The logs of a service's state are read before the logs they speak of: a consumer is then never said to be
further than the messages are. Where a log is removed meanwhile, all is looked at once more.
"""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.backup.copying import Copier
from headrace.backup.errors import BackupError
from headrace.backup.manifest import VERSION, Log, Manifest, backups_in, read_manifest
from headrace.log.store import list_logs
from headrace.tables.errors import KeyExists
from headrace.tables.store import MANIFESTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.tables.store import Store

ATTEMPTS: Final = 10
"""How often all is looked at again, since logs were removed meanwhile."""


class Taken(Struct, frozen=True):
    """What one backup came to. `segments`: of all its logs; `copied`: those that were not in the target."""

    name: str
    logs: int
    segments: int
    copied: int
    copied_bytes: int


class Wanted(Struct, frozen=True):
    """What is backed up. `is_state`: whether a log is a service's state, by its name."""

    home: Path
    is_state: Callable[[bytes], bool]
    account: str | None = None
    prefix: bytes = b""
    """Of the names of the logs that are wanted."""

    @property
    def source(self) -> str:
        return f"{socket.gethostname()}:{self.home.resolve()}"


def take_backup(
    store: Store, wanted: Wanted, told: Callable[[int, int], object] = lambda _done, _of: None
) -> Taken:
    """`told` of bytes that are done and of all, again and again. Raises: BackupError, StoreError."""
    names = backups_in(store)
    if not names and (others := [*store.entries(), *store.folders()]) and not _is_cut_off(store):
        raise BackupError(
            f"{store.location} is not empty ({len(others)} other things are there) and has no backup"
        )
    known = _last_of(store, names, wanted)
    with store.lock():
        return _take(store, wanted, known, told)


def _is_cut_off(store: Store) -> bool:
    """Whether all that is there is of a first backup that was cut off."""
    own = all(entry.key.endswith(".segment") for entry in store.entries())
    return own and set(store.folders()) <= {"_headrace"}


def _last_of(store: Store, names: list[str], wanted: Wanted) -> Manifest | None:
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


def _take(store: Store, wanted: Wanted, last: Manifest | None, told: Callable[[int, int], object]) -> Taken:
    known = {
        (log.name, part.name): part for log in (last.logs if last is not None else ()) for part in log.parts
    }
    for _ in range(ATTEMPTS):
        found = _logs_of(wanted)
        total = sum(path.stat().st_size for one in found.values() for path in _segments(one))
        done = 0

        def progress(more: int, total: int = total) -> None:
            nonlocal done
            done += more
            told(min(done, total), total)

        copier = Copier(store, known, progress)
        order = sorted(found, key=lambda name: (not wanted.is_state(name), name))
        try:
            logs = [Log(name, found[name].name, copier.log(name, found[name])) for name in order]
        except FileNotFoundError:
            continue
        except OSError as error:
            raise BackupError(f"cannot read {wanted.home}: {error}") from error
        if found.keys() <= _logs_of(wanted).keys():
            name = _publish(store, wanted, tuple(logs))
            return Taken(name, len(logs), copier.segments, copier.copied, copier.copied_bytes)
    raise BackupError(f"{wanted.home}: streams are removed faster than they can be copied")


def _logs_of(wanted: Wanted) -> dict[bytes, Path]:
    try:
        found = list_logs(wanted.home)
    except FileNotFoundError as error:
        raise BackupError(f"{wanted.home} has no streams of Headrace") from error
    except OSError as error:
        raise BackupError(f"cannot read {wanted.home}: {error}") from error
    return {name: path for name, path in found.items() if name.startswith(wanted.prefix)}


def _segments(directory: Path) -> list[Path]:
    return [path for path in directory.glob("*.log") if path.exists()]


def _publish(store: Store, wanted: Wanted, logs: tuple[Log, ...]) -> str:
    now = datetime.now(UTC)
    manifest = Manifest(VERSION, now.isoformat(timespec="seconds"), wanted.source, wanted.account, logs)
    number = len(backups_in(store))
    while True:
        name = f"{now:%Y%m%dT%H%M%SZ}-{number:06}"
        try:
            store.create(f"{MANIFESTS}/{name}.json", manifest.encode())
        except KeyExists:
            number += 1
        else:
            return name
