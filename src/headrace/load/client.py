"""The contract of a load's client, and what all of them have. Never here: a scenario."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from headrace.load.histogram import taken_histogram
from headrace.load.result import LoadFigures

if TYPE_CHECKING:
    from headrace.load.board import LoadShare
    from headrace.load.connection import LoadConnection

PATIENCE_S: Final = 0.05
"""Seconds that a client waits for its socket before it looks whether it is to stop."""

_MOST_ERRORS: Final = 20
"""Different texts of errors that a client keeps; more are counted together."""


class LoadClient(ABC):
    """One client: it is made connected and subscribed, then runs once.

    `figures` are right at any time, also after `run` has raised something.
    """

    def __init__(self, connection: LoadConnection, share: LoadShare) -> None:
        self.connection = connection
        self.share = share
        self.errors: dict[str, int] = {}
        self.begun_ns = 0
        self.ended_ns = 0

    @abstractmethod
    def run(self) -> None:
        """Do the share. Raises: ClientError."""

    @property
    @abstractmethod
    def done(self) -> int:
        """The messages that are done."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The bytes of these messages."""

    def begin(self) -> None:
        """Start the time."""
        self.share.begin()
        self.begun_ns = self.ended_ns = self.share.begun_ns

    def note_error(self, text: str) -> None:
        """Count what a server refused."""
        if text not in self.errors and len(self.errors) >= _MOST_ERRORS:
            text = "others"
        self.errors[text] = self.errors.get(text, 0) + 1

    def figures(self) -> LoadFigures:
        """Return what was measured so far."""
        ended = self.ended_ns or self.begun_ns
        latencies = taken_histogram(self.connection.reader.latencies)
        return LoadFigures(self.done, self.size, self.begun_ns, ended, latencies, dict(self.errors))
