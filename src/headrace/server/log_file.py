"""The log as a file, and the files it was before.

Loaded by servers that are told to write one. Never lives here: lines (`logs`), when a file is rotated.
"""

from __future__ import annotations

import os
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from io import TextIOWrapper

_MODE: Final = 0o640  # the Go server's


class LogFile(RotatingFileHandler):
    """A rotated log file that its owner and group may read only: with `-V` it has payloads."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding=self.encoding, errors=self.errors, opener=_opened)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags, _MODE)
