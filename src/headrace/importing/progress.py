"""Progress of an import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY: Final = 1 << 16
"""Bytes of the source between two reports."""


class ImportProgress(Struct, frozen=True):
    """Bytes of message files read (each once), messages seen, and the channel or stream that is read."""

    bytes_read: int
    messages: int
    place: str


class ImportMeter:
    """Adds up the progress of all channels or streams, and reports it now and then."""

    def __init__(self, progress: Callable[[ImportProgress], None]) -> None:
        self._progress = progress
        self._bytes = 0
        self._messages = 0
        self._told = 0

    def moved(self, place: str, read_bytes: int, messages: int) -> None:
        """Count bytes and messages that were read of a channel or stream; report them now and then."""
        self._bytes += read_bytes
        self._messages += messages
        if self._bytes - self._told >= _EVERY:
            self.tell(place)

    def tell(self, place: str) -> None:
        """Report how far the import is."""
        self._told = self._bytes
        self._progress(ImportProgress(self._bytes, self._messages, place))
