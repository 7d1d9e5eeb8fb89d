"""Deliveries that a session had under way when its connection was lost, kept until its client is there again.

A message that is sent again keeps its identifier. What is in memory is lost with the server; identifiers of
QoS 2 are stored, too (`qos2_outgoing`).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msgspec import Struct

MOST_KEPT: Final = 200_000
"""Deliveries of all sessions that are kept; the windows of those that left first go when there are more."""


class KeptWindow(Struct, frozen=True):
    """The deliveries of one session: identifier, QoS, consumer, stream sequence, in the order of sending.

    `sequence`: that of the session's record when the connection was lost.
    """

    sequence: int
    next_identifier: int
    entries: list[tuple[int, int, bytes, int]]


class KeptWindows:
    """The windows of sessions without a connection, by client identifier."""

    def __init__(self) -> None:
        self._windows: OrderedDict[str, KeptWindow] = OrderedDict()
        self._kept = 0

    def __len__(self) -> int:
        return len(self._windows)

    def keep(self, client_id: str, window: KeptWindow) -> None:
        """Keep a window."""
        self.take(client_id)
        self._windows[client_id] = window
        self._kept += _weight(window)
        while self._kept > MOST_KEPT:
            _, oldest = self._windows.popitem(last=False)
            self._kept -= _weight(oldest)

    def take(self, client_id: str) -> KeptWindow | None:
        """Take a window out; None if there is none."""
        window = self._windows.pop(client_id, None)
        if window is not None:
            self._kept -= _weight(window)
        return window


def _weight(window: KeptWindow) -> int:
    return 1 + len(window.entries)
