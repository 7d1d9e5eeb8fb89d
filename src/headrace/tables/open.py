"""The way from names to tables: of a stream its table's name, of a directory or URL its tables."""

from __future__ import annotations

import hashlib
import re
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import quote_from_bytes

from headrace.objects.opening import open_store
from headrace.objects.port import OWN
from headrace.tables.errors import TableMissing
from headrace.tables.manifest import TableKind
from headrace.tables.table import Table

LONGEST_NAME: Final = 200
"""Bytes; of a longer one the end is its SHA-256. File systems take 255."""
_CUT: Final = 100
_STREAMS: Final = frozenset({"cluster", "shards"})
"""The folders of a bucket that has the streams of a server."""
KEY_VALUE: Final = "KV_"
"""The prefix of the stream of a key-value bucket."""
BUCKETS: Final = (KEY_VALUE, "OBJ_")
"""The prefixes of streams that key-value and object stores are made of."""


def is_meant(pattern: str, stream: str) -> bool:
    """True if a pattern means a stream: `*` in it is any text, but does not begin the name of a bucket."""
    prefix = next((one for one in BUCKETS if stream.startswith(one)), "")
    return pattern.startswith(prefix) and fnmatchcase(stream, pattern)


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


def table_place(stream: str, kind: TableKind) -> str:
    """The directory of a stream's table of a kind: `ORDERS`, of a bucket `settings.latest`."""
    if kind is TableKind.MESSAGES:
        return table_name(stream)
    return f"{table_name(stream.removeprefix(KEY_VALUE))}.{kind}"


def catalog_name(place: str) -> str:
    """The name of a table in a catalog, by its directory: letters, digits and `_`, which SQL need not quote.

    Several directories may have one name: `orders.eu` and `orders_eu`.
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", place)
    return f"_{plain}" if plain[0].isdigit() else plain


def find_tables(location: str, **options: Any) -> list[Table]:
    """The table there, else the tables directly below. Raises: TableMissing for none; StoreError."""
    store = open_store(location, **options)
    folders = store.list_folder().folders
    if OWN in folders:
        return [Table(store)]
    below = [Table(open_store(f"{store.location}/{name}", **options)) for name in folders]
    found = [table for table in below if OWN in table.store.list_folder().folders]
    if not found and set(folders) >= _STREAMS:
        raise TableMissing(
            f"{store.location} has streams, and no tables: `read_stream` reads them, and "
            "headrace tables archive --from makes tables"
        )
    if not found:
        raise TableMissing(f"{store.location}: there is no table here")
    return found
