"""The manifest of a table: which files it has and how far the stream came. A value, and its JSON.

A version is one JSON object that is written once and never changed; the newest version is the table. Here
lives what a version holds and how it is checked; never where versions lie or who may write the next
(`table`). Nothing of a message's content is in it, so that erasing a message never has to touch old versions.
Sequences are inclusive at both ends, times are ns since 1970 UTC.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct, convert, to_builtins

from headrace.errors import UnsupportedError
from headrace.objects.port import OWN
from headrace.schemas.metadata import SubjectSchema
from headrace.tables.errors import TableDamaged

FORMAT: Final = 2
"""The newest format that is read. A manifest of a higher one may mean something else."""
PLAIN_FORMAT: Final = 1
"""The format of tables of messages, which earlier versions read, too: without the fields `_ADDED`.

So a table whose files have columns of payloads has the newer one.
"""
_ADDED: Final = ("kind", "messages", "payloads")
MANIFESTS: Final = f"{OWN}/manifests"
"""The folder of versions."""
LINEAGE: Final = 32
"""Commits that a version names before itself: how a writer finds its own change in a later version."""

Ranges = tuple[tuple[int, int], ...]


class TableKind(StrEnum):
    """The rows of a table: messages of a stream; of a key-value bucket its history, or its latest values."""

    MESSAGES = "messages"
    HISTORY = "history"
    LATEST = "latest"


class DataFile(Struct, frozen=True):
    """One Parquet file; `first` and `last` are the sequences of its first and last row."""

    path: str
    first: int
    last: int
    rows: int
    first_time_ns: int
    last_time_ns: int
    bytes: int
    sha256: str


class Retired(Struct, frozen=True):
    """A file that is no longer part of the table. `erase`: it holds removed messages, and must not be read.

    Without `erase` its rows are in other files now, and readers that began earlier may finish with it.
    """

    path: str
    first: int
    last: int
    at_ns: int
    erase: bool


class TableManifest(Struct, frozen=True):
    """One version of a table. Files are in order of their sequences, which never overlap."""

    version: int
    stream: str
    """The stream's name; bytes that are not UTF-8 are lone surrogates."""
    created_ns: int
    """The time at which the stream was made; another stream of the same name has another one.

    0: the source cannot say.
    """
    next: int
    """The first sequence that was not archived yet."""
    retain: str = "stream"
    """The retention of rows: see `headrace.tables.retention`."""
    files: tuple[DataFile, ...] = ()
    retired: tuple[Retired, ...] = ()
    missed: Ranges = ()
    """Sequences that were gone from the stream before they were archived."""
    damaged: Ranges = ()
    """Sequences that the stream has and cannot read."""
    written_ns: int = 0
    commit: str = ""
    """Random: which writer made this version."""
    lineage: tuple[str, ...] = ()
    """The commits before it, newest first."""
    kind: TableKind = TableKind.MESSAGES
    messages: int = -1
    """The messages that the stream had when a table of latest values was last compared with it."""
    payloads: SubjectSchema | None = None
    """The schema of the stream's payloads, whose fields are columns of files from now on."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def encode(manifest: TableManifest) -> bytes:
    """The JSON of a version, with a checksum of the rest."""
    document = {"format": FORMAT, **to_builtins(manifest)}
    if manifest.kind is TableKind.MESSAGES and manifest.payloads is None:
        document["format"] = PLAIN_FORMAT
        for name in _ADDED:
            del document[name]
    document["sha256"] = _checksum(document)
    return json.dumps(document, indent=1).encode() + b"\n"


def decode(data: bytes, where: str) -> TableManifest:
    """Read a manifest. Raises: TableDamaged naming `where`; UnsupportedError for a later format."""
    try:
        document = json.loads(data)
        if not isinstance(document, dict):
            raise TypeError("not an object")
        written = document.get("format")
        if isinstance(written, int) and written > FORMAT:
            raise UnsupportedError(
                f"{where}: format {written} of tables is newer than what this version of Headrace reads"
            )
        if written not in (PLAIN_FORMAT, FORMAT) or document.pop("sha256") != _checksum(document):
            raise ValueError("its checksum is not that of its content")
        del document["format"]
        if written == PLAIN_FORMAT:
            document |= {"kind": TableKind.MESSAGES, "messages": -1, "payloads": None}
        manifest = _manifest(document)
        _check(manifest)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise TableDamaged(f"{where}: not a manifest of a table: {error}") from error
    return manifest


def _checksum(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _manifest(document: dict[str, Any]) -> TableManifest:
    known = set(TableManifest.__struct_fields__)
    if set(document) != known:
        raise ValueError(f"keys {', '.join(sorted(set(document) ^ known))}")
    return TableManifest(
        **{
            **document,
            "files": tuple(DataFile(**one) for one in document["files"]),
            "retired": tuple(Retired(**one) for one in document["retired"]),
            "missed": _ranges(document["missed"]),
            "damaged": _ranges(document["damaged"]),
            "lineage": tuple(document["lineage"]),
            "kind": TableKind(document["kind"]),
            "payloads": convert(document["payloads"], SubjectSchema | None),
        }
    )


def _ranges(given: Any) -> Ranges:
    return tuple((int(low), int(high)) for low, high in given)


def _check(manifest: TableManifest) -> None:
    """Check the rules that every version keeps. Raises: ValueError."""
    for file in manifest.files:
        if not (0 < file.first <= file.last < manifest.next and 0 < file.rows <= file.last - file.first + 1):
            raise ValueError(f"file {file.path} cannot hold what it is said to hold")
    for path in [one.path for one in manifest.files] + [one.path for one in manifest.retired]:
        if "/" in path or not path or path.startswith((".", "_")):
            raise ValueError(f"file {path!r} lies outside the table")
    for one, following in pairwise(manifest.files):
        if one.last >= following.first:
            raise ValueError(f"files {one.path} and {following.path} overlap")


def add_ranges(ranges: Ranges, more: Ranges) -> Ranges:
    """Return two lists of ranges as one: sorted, those that touch merged."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted((*ranges, *more)):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return tuple(joined)


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    """Return the parts of `ranges` that are not in `removed`."""
    left: list[tuple[int, int]] = []
    for low, high in add_ranges(ranges, ()):
        at = low
        for first, last in add_ranges(removed, ()):
            if last < at or first > high:
                continue
            if first > at:
                left.append((at, first - 1))
            at = max(at, last + 1)
        if at <= high:
            left.append((at, high))
    return tuple(left)
