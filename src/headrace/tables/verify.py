"""Verifying a table against its manifest, file by file.

Only looks. Whoever repairs knows the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.tables.columns import layout_of
from headrace.tables.files import SUFFIX, problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.tables.table import Table


def verify(table: Table, progress: Callable[[int, int], object] = lambda _done, _all: None) -> list[str]:
    """Return the faults of a table, one line each; none if all is well.

    Every byte is read. `progress`: bytes, of bytes.

    Raises: TableMissing, TableDamaged for a manifest that cannot be used, StoreError.
    """
    manifest = table.manifest()
    found: list[str] = []
    done = 0
    schema = layout_of(manifest).schema
    for file in manifest.files:
        found += problems(table.store, file, schema)
        done += file.bytes
        progress(done, manifest.bytes)
    named = {file.path for file in manifest.files}
    waiting = {one.path for one in manifest.retired}
    for entry in table.store.list_folder().objects:
        if entry.key.endswith(SUFFIX) and entry.key not in named | waiting:
            found.append(f"{entry.key}: it is not part of the table; plain readers of the directory see it")
    return found
