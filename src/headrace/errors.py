"""Every exception Headrace raises on purpose, as one tree.

Here live exception classes and nothing else. An error about a configuration file carries the position. Peers'
mistakes never print tracebacks: the edge that catches one of these logs its text as one line.
"""

from __future__ import annotations

from typing import NamedTuple


class HeadraceError(Exception):
    """Root of all errors raised on purpose by this package."""


class Position(NamedTuple):
    """A place in a configuration file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ConfigProblem(NamedTuple):
    """One thing wrong with a configuration, with an optional hint at what was meant.

    `is_syntax`: the text itself cannot be read there.
    """

    message: str
    position: Position | None = None
    hint: str | None = None
    is_syntax: bool = False

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        hint = f" ({self.hint})" if self.hint else ""
        return on_one_line(f"{where}{self.message}{hint}")  # the name of a file may hold a line break


class ConfigError(HeadraceError):
    """A configuration that cannot be used; `problems` holds everything wrong with it, not just the first."""

    def __init__(self, problems: list[ConfigProblem]) -> None:
        if not problems:
            raise ValueError("a ConfigError needs at least one problem")
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))


class StartError(HeadraceError):
    """The server could not start: port in use, unreadable certificate, missing directory."""


class ProtocolError(HeadraceError):
    """A peer broke the wire protocol."""


class UnsupportedError(HeadraceError):
    """The request is for something that the Go server offers and this version does not have; never ignored
    silently.
    """


class LogError(HeadraceError):
    """A message log could not do what was asked; nothing of the call has happened."""


class MessageTooLarge(LogError):
    """A message is over the log's `max_message_size`."""


class LogFull(LogError):
    """A limit is reached and the log discards new messages; `index` is the refused one's in its batch."""

    def __init__(self, message: str, index: int = 0) -> None:
        super().__init__(message)
        self.index = index


class StorageError(LogError):
    """The storage failed: disk full, I/O error, permission denied."""


class LogGone(StorageError):
    """A part of a log that was there is not: its segment was removed, or the log made again."""


class LogClosed(LogError):
    """The log was closed."""


class MessageDamaged(LogError):
    """A record is there but cannot be read."""

    def __init__(self, sequence: int, reason: str) -> None:
        super().__init__(f"message {sequence} is damaged: {reason}")
        self.sequence = sequence


class StoreLocked(LogError):
    """The store is held by another process."""


class StoreTaken(LogError):
    """A store is there where one would be made; nothing was changed."""


def on_one_line(text: str) -> str:
    """The text with what cannot be printed escaped as Python does."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
