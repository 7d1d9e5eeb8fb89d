"""Archives a store's channel into a table of many small files, merges them, and says so: to be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.log.store import FileStore
from headrace.tables import Table, open_store
from headrace.tables import source as sources
from headrace.tables.archive import archive
from headrace.tables.files import FileLimits
from headrace.tables.rewrite import compact
from headrace.tables.source import LogSource

store = FileStore(Path(sys.argv[1]))
table = Table(open_store(sys.argv[2]))
source = LogSource(store.open(b"orders"), "orders")
sources.PAGE_MESSAGES = 10  # type: ignore[misc]


def say(*_progress: object) -> None:
    print("on the way", flush=True)


archive(table, source, limits=FileLimits(file_bytes=1, group_rows=10), progress=say)
with table.writing() as writer:
    compact(writer, FileLimits(file_bytes=20_000), say)
print("done", flush=True)
