"""Sees that a directory has a store of nats-streaming-server, so that a start does not pass over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

SERVER_FILE: Final = "server.dat"
SUBSCRIPTIONS_FILE: Final = "subs.dat"
_FIRST_MESSAGES: Final = "msgs.1.dat"


def is_foreign_store(directory: Path) -> bool:
    """True if a directory has files of nats-streaming-server; False if there is no such directory.

    Raises: OSError.
    """
    if (directory / SERVER_FILE).is_file():
        return True
    try:
        places = [place for place in directory.iterdir() if place.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any((place / name).is_file() for place in places for name in (SUBSCRIPTIONS_FILE, _FIRST_MESSAGES))
