"""From names to tables: of a directory or URL its store, of a stream its table's name, of a place its tables.

Here live these choices; obstore is loaded only for a URL.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_from_bytes

from headrace.tables.errors import TableMissing
from headrace.tables.store import OWN, LocalStore
from headrace.tables.table import Table

if TYPE_CHECKING:
    from headrace.tables.store import Store

LONGEST_NAME: Final = 200
"""Bytes; of a longer one the end is its SHA-256. File systems take 255."""
_CUT: Final = 100


def open_store(location: str, **options: Any) -> Store:
    """A directory, or with obstore a URL such as `s3://bucket/prefix` (`options`: as obstore's `from_url`).

    Nothing is made or looked at yet. Raises: UnsupportedError without obstore, StoreError for a URL that it
    does not know, ValueError for options of a directory.
    """
    if re.match(r"[a-z][a-z0-9+.-]*://", location):
        from headrace.tables.object_store import RemoteStore

        return RemoteStore(location, **options)
    if options:
        raise ValueError(f"a directory takes no options, and {', '.join(options)} were given")
    return LocalStore(Path(location).absolute())


def table_name(stream: str) -> str:
    """The directory of a stream's table below a common one: its name, percent-encoded where it must be.

    Never one that readers of directories leave out (`_a`, `.a`).
    """
    raw = stream.encode("utf-8", "surrogateescape")
    quoted = quote_from_bytes(raw, safe="")
    if quoted[:1] in ("_", "."):
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    if len(quoted) > LONGEST_NAME:
        quoted = f"{quoted[:_CUT]}-{hashlib.sha256(raw).hexdigest()}"
    return quoted


def find_tables(location: str, **options: Any) -> list[Table]:
    """The table there, else the tables directly below. Raises: TableMissing for none; StoreError."""
    store = open_store(location, **options)
    folders = store.folders()
    if OWN in folders:
        return [Table(store)]
    below = [Table(open_store(f"{store.location}/{name}", **options)) for name in folders]
    found = [table for table in below if OWN in table.store.folders()]
    if not found:
        raise TableMissing(f"{store.location}: there is no table here")
    return found
