"""Checking a backup without restoring it: every part is there, and is what was written."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from headrace.backup.manifest import key_of
from headrace.objects.errors import KeyMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
