"""The text of one configuration file and the way from an offset in it to a line and column.

Here lives reading and decoding of files. Never lives here: anything about what the text means.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from codecs import BOM_UTF8
from typing import Final

from headrace.errors import ConfigError, ConfigProblem, Position

MAX_FILE_BYTES: Final = 16 << 20
"""A longer file is refused: it is not a configuration, perhaps a device."""


class SourceText:
    """A configuration text under the name that messages show for it.

    `directory` is where relative includes start. Cost: the table of lines is made at the first look-up.
    """

    __slots__ = ("_line_starts", "directory", "name", "text")

    def __init__(self, name: str, text: str, directory: str = "") -> None:
        self.name: Final = name
        self.text: Final = text
        self.directory: Final = directory
        self._line_starts: list[int] | None = None

    def position(self, offset: int) -> Position:
        """Return the position of an offset, counted in lines and characters from 1."""
        starts = self._line_starts
        if starts is None:
            starts = self._line_starts = _line_starts(self.text)
        line = bisect_right(starts, offset)
        return Position(self.name, line, offset - starts[line - 1] + 1)


def read_file(path: str) -> SourceText:
    """The text of a file, without a byte order mark.

    Raises: ConfigError if the file cannot be read, is too long, or is not UTF-8 text.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError([ConfigProblem(f"open {path}: {reason[:1].lower()}{reason[1:]}")]) from None
    except ValueError as error:
        # A path with a NUL in it.
        raise ConfigError([ConfigProblem(f"open {path!r}: {error}")]) from None
    if len(data) > MAX_FILE_BYTES:
        message = f"{path}: longer than {MAX_FILE_BYTES >> 20} MB, not a configuration"
        raise ConfigError([ConfigProblem(message)])
    return decode(path, data, os.path.dirname(path))


def decode(name: str, data: bytes, directory: str = "") -> SourceText:
    """The source that these bytes are.

    Raises: ConfigError if they are not UTF-8 text.
    """
    data = data.removeprefix(BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        position = SourceText(name, before).position(len(before))
        raise ConfigError(
            [ConfigProblem(f"not UTF-8 text: byte 0x{data[error.start]:02x}", position)]
        ) from None
    return checked(SourceText(name, text, directory))


def checked(source: SourceText) -> SourceText:
    """Return the source once it is known to hold text only.

    Raises: ConfigError at the first NUL or lone surrogate.
    """
    nul = source.text.find("\0")
    if nul >= 0:
        raise ConfigError([ConfigProblem("a NUL character: this is no text file", source.position(nul))])
    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        position = source.position(error.start)
        raise ConfigError([ConfigProblem("not a Unicode character", position)]) from None
    return source


def _line_starts(text: str) -> list[int]:
    starts = [0]
    find = text.find
    newline = find("\n")
    while newline >= 0:
        starts.append(newline + 1)
        newline = find("\n", newline + 1)
    return starts
