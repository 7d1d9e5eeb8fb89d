"""A backup checked without restoring it, or made a store.

Checked: every part is there, and is what was written. While a store is made:

    NEW/jetstream.importing/   while it goes on; a server does not start beside it
    NEW/jetstream/             the whole of it, from one moment to the next

A run that was cut off leaves the first; the next one goes on with what is whole in it.
"""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from headrace.backup.manifest import BackupError, key_of
from headrace.log.filesystem import RealFileSystem, replace_file
from headrace.log.staging import Staging
from headrace.log.store import LOGS, list_logs, log_directory
from headrace.objects.errors import KeyMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    from headrace.backup.manifest import BackupManifest, Log, Part
    from headrace.objects.port import ObjectStore


def wrong_parts(
    store: ObjectStore, manifest: BackupManifest, told: Callable[[int, int], object] = lambda _done, _of: None
) -> Iterator[str]:
    """Yield the faults of a backup as texts, stream by stream. Raises: StoreError."""
    total = sum(part.size for log in manifest.logs for part in log.parts)
    done = 0
    verdicts: dict[str, str] = {}
    for log in manifest.logs:
        for part in log.parts:
            if part.sha256 not in verdicts:
                verdicts[part.sha256] = read_part(store, part)[1]
            done += part.size
            told(done, total)
            if verdicts[part.sha256]:
                yield words_of(log, part, verdicts[part.sha256])


def words_of(log: Log, part: Part, wrong: str) -> str:
    """One line that names a damaged or missing segment and its log. `wrong`: of `read_part`."""
    return f"{log.shown}: segment {part.name} {wrong}"


def read_part(store: ObjectStore, part: Part) -> tuple[bytes, str]:
    """Its bytes, and what is wrong with them: mostly nothing. Raises: StoreError."""
    try:
        data = store.get(key_of(part.sha256))
    except KeyMissing:
        return b"", f"is missing ({key_of(part.sha256)})"
    if len(data) != part.size or hashlib.sha256(data).hexdigest() != part.sha256:
        return data, f"is damaged ({key_of(part.sha256)})"
    return data, ""


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
