"""Making a store of a backup.

    NEW/jetstream.importing/   while it goes on; a server does not start beside it
    NEW/jetstream/             the whole of it, from one moment to the next

A run that was cut off leaves the first; the next one goes on with what is whole in it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from headrace.backup.checking import read_part, words_of
from headrace.backup.errors import BackupError
from headrace.log.filesystem import RealFileSystem, make_directory, replace_file
from headrace.log.store import log_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.backup.manifest import Log, Manifest, Part
    from headrace.tables.store import Store


def restore_backup(
    store: Store,
    manifest: Manifest,
    home: Path,
    unfinished: Path,
    told: Callable[[int, int], object] = lambda _done, _of: None,
) -> int:
    """Makes `home` what the backup holds; gives how many segments were written, and not there already.

    Raises: BackupError, StoreError; then `home` is as it was.
    """
    files = RealFileSystem()
    try:
        if files.is_directory(home) and files.listdir(home):
            raise BackupError(f"{home} is not empty: a backup is restored into a store of its own")
        make_directory(files, unfinished)
        lock = files.lock(unfinished / "lock")
    except BlockingIOError as error:
        raise BackupError(f"another command writes to {unfinished}") from error
    except OSError as error:
        raise BackupError(f"cannot write {unfinished}: {error}") from error
    try:
        written = _fill(store, manifest, unfinished, told)
        if files.is_directory(home):
            files.rmdir(home)
        files.rename(unfinished, home)
        files.fsync_dir(home.parent)
    except OSError as error:
        raise BackupError(f"cannot write {unfinished}: {error}") from error
    finally:
        files.close(lock)
    return written


def _fill(store: Store, manifest: Manifest, place: Path, told: Callable[[int, int], object]) -> int:
    total = sum(part.size for log in manifest.logs for part in log.parts)
    done = written = 0
    for log in manifest.logs:
        directory = log_directory(place, log.name)
        kept = {part.name for part in log.parts}
        for other in directory.glob("*"):
            if other.name.endswith((".log", ".new")) and other.name not in kept:
                other.unlink()  # of another backup, of which a run was cut off
        for part in log.parts:
            written += _write(store, log, part, directory)
            done += part.size
            told(done, total)
    return written


def _write(store: Store, log: Log, part: Part, directory: Path) -> bool:
    """False: it was there."""
    path = directory / part.name
    if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == part.sha256:
        return False
    data, wrong = read_part(store, part)
    if wrong:
        raise BackupError(words_of(log, part, wrong))
    replace_file(RealFileSystem(), path, data)
    return True
