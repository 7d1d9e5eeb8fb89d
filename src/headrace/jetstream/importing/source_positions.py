"""`sources.db`: how far the sources of a stream were, also where what came of them is gone.

nats-server writes it since 2.15. Without it, and for messages after it was written, headers of the messages
say which sequence of which source each one was. Source: nats-server 2.15 (filestore.go: writeSourcesState).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.importing.findings import Finding, Severity
from headrace.jetstream.importing.block_files import read_file
from headrace.jetstream.importing.stream_index import Varints

if TYPE_CHECKING:
    from pathlib import Path

_FILE: Final = "sources.db"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<BQQ")
"""Version, how many, and the sequence after the last one when it was written."""


class SourcePosition(NamedTuple):
    """The last sequence of a source to come, as sequence `here` or before; `name` is that in headers."""

    name: str
    sequence: int
    here: int
    identity: str


def read_positions(directory: Path, shown: str, findings: list[Finding]) -> tuple[SourcePosition, ...]:
    """Read the positions of a stream's sources from its directory; none when the file is missing or damaged.

    Raises: SourceUnusable.
    """
    path = directory / _FILE
    if not path.is_file():
        return ()
    data = read_file(path)
    try:
        return _positions(data)
    except (ValueError, struct.error) as error:
        text = f"{error}; sources go on behind what messages say"
        findings.append(Finding(Severity.DAMAGED, f"{shown}/{_FILE}", text, 0, len(data)))
        return ()


def _positions(data: bytes) -> tuple[SourcePosition, ...]:
    """Decode the positions of sources. Raises: ValueError, struct.error."""
    version, count, after = _HEAD.unpack_from(data)
    if version != _VERSION or not after:
        raise ValueError("it is of an unknown version")
    reader = Varints(data, _HEAD.size)
    found = []
    for _ in range(count):
        name = reader.bytes(reader.unsigned()).decode()
        sequence = reader.unsigned()
        identity = reader.bytes(reader.unsigned()).decode()
        found.append(SourcePosition(name, sequence, after - 1, identity))
    return tuple(found)
