"""Sees that a directory has streams of nats-server, so that a start does not pass over them.

Cheap, since every start asks: a directory for each account, and in those with streams one for each stream
until the first that counts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOME: Final = "jetstream"
"""The folder of both servers' files, below the configured directory."""
UNFINISHED: Final = "jetstream.importing"
"""The folder beside that one while an import goes on, and after one that was cut off."""
STREAMS: Final = "streams"
META: Final = "meta.inf"
MESSAGES: Final = "msgs"


class FoundStream(Struct, frozen=True):
    """A stream's directory, and whose it is by its place."""

    account: str
    name: str
    directory: Path


def find_streams(directory: Path) -> Iterator[FoundStream]:
    """The streams of nats-server below its directory `jetstream`, sorted; also damaged ones.

    Streams that it was removing (a dot in front) are gone. A directory that is not there has none.
    Raises: OSError.
    """
    for account in _entries(directory):
        for stream in _entries(directory / account / STREAMS):
            place = directory / account / STREAMS / stream
            if not stream.startswith(".") and ((place / META).is_file() or (place / MESSAGES).is_dir()):
                yield FoundStream(account, stream, place)


def _entries(directory: Path) -> list[str]:
    """Directories in a directory, sorted."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
