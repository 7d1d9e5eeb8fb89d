"""Making a store of a backup.

    NEW/jetstream.importing/   while it goes on; a server does not start beside it
    NEW/jetstream/             the whole of it, from one moment to the next

A run that was cut off leaves the first; the next one goes on with what is whole in it.
"""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from headrace.backup.checking import read_part, words_of
from headrace.backup.errors import BackupError
from headrace.log.filesystem import RealFileSystem, replace_file
from headrace.log.staging import Staging
from headrace.log.store import LOGS, list_logs, log_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from pathlib import Path

    from headrace.backup.manifest import BackupManifest, Log, Part
    from headrace.objects.port import ObjectStore


def restore_backup(
    store: ObjectStore,
    manifest: BackupManifest,
    home: Path,
    unfinished: Path,
    told: Callable[[int, int], object] = lambda _done, _of: None,
) -> int:
    """Make `home` what the backup holds; return how many segments were written, and not there already.

    `told` of bytes that are done and of all. Raises: BackupError, StoreError, StoreTaken, StoreLocked,
    StorageError; then `home` is as it was.
    """
    with Staging(home, unfinished) as staging:
        try:
            _clear(manifest, staging.directory)
            written = _fill(store, manifest, staging.directory, told)
        except OSError as error:
            raise BackupError(f"cannot write {unfinished}: {error}") from error
        staging.publish()
    return written


def _clear(manifest: BackupManifest, place: Path) -> None:
    """Take away what another import or restore, which was cut off, left: all but these logs' segments."""
    if not (place / LOGS).is_dir():
        return
    wanted = {log.name: {part.name for part in log.parts} for log in manifest.logs}
    kept = {path.name: wanted[name] for name, path in list_logs(place).items() if name in wanted}
    for entry in (place / LOGS).iterdir():
        if not entry.is_dir():
            entry.unlink()
        elif entry.name not in kept:
            shutil.rmtree(entry)
        else:
            _keep(entry, kept[entry.name])


def _keep(directory: Path, names: Container[str]) -> None:
    for file in directory.iterdir():
        if file.name not in names:
            file.unlink()


def _fill(
    store: ObjectStore, manifest: BackupManifest, place: Path, told: Callable[[int, int], object]
) -> int:
    total = sum(part.size for log in manifest.logs for part in log.parts)
    done = written = 0
    for log in manifest.logs:
        directory = log_directory(place, log.name)
        for part in log.parts:
            written += _write(store, log, part, directory)
            done += part.size
            told(done, total)
    return written


def _write(store: ObjectStore, log: Log, part: Part, directory: Path) -> bool:
    """False: it was there."""
    path = directory / part.name
    if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == part.sha256:
        return False
    data, wrong = read_part(store, part)
    if wrong:
        raise BackupError(words_of(log, part, wrong))
    replace_file(RealFileSystem(), path, data)
    return True
