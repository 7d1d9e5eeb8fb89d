"""Duplicate detection: messages stored lately, by `Nats-Msg-Id`. A duplicate within the window is not stored.

Here lives the table, bounded by time and by number; who asks it and what is answered is `ingest`'s. After a
start it is filled from the end of the log, before anything is asked or goes from there. Source: JetStream
specification, 3.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from headrace.protocol.jetstream import headers as hdr

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.port import MessageLog

MSG_ID: Final = b"Nats-Msg-Id"
MOST_IDS: Final = 1 << 20
"""Ids that one stream remembers, about 200 bytes each; beyond, the oldest is forgotten before its time."""


class Dedupe:
    """Ids of stored messages. `window_ns`: for how long; 0: nothing is a duplicate. `log`: of the stream."""

    def __init__(self, window_ns: int, log: MessageLog, now_ns: Callable[[], int]) -> None:
        self.window_ns = window_ns
        self._log = log
        self._now_ns = now_ns
        self._is_filled = False
        self._last_id = b""
        self._sequences: dict[bytes, tuple[int, int]] = {}
        self._order: deque[tuple[int, bytes]] = deque()

    def __len__(self) -> int:
        return len(self._sequences)

    @property
    def last_id(self) -> bytes:
        """Of the newest message; empty when it had none. Raises: StorageError."""
        if not self._is_filled:
            self.fill()
        return self._last_id

    @last_id.setter
    def last_id(self, msg_id: bytes) -> None:
        self._last_id = msg_id

    def find(self, msg_id: bytes, now_ns: int) -> int:
        """The sequence under which a message with this id was stored in the window; 0: there is none.

        Raises: StorageError.
        """
        if not self._is_filled:
            self.fill()
        self._forget(now_ns)
        found = self._sequences.get(msg_id)
        return found[0] if found else 0

    def note(self, msg_id: bytes, sequence: int, time_ns: int) -> None:
        """A message with this id was stored."""
        if self.window_ns <= 0:
            return
        self._sequences[msg_id] = sequence, time_ns
        self._order.append((time_ns, msg_id))
        while len(self._order) > MOST_IDS:
            self._drop()

    def _forget(self, now_ns: int) -> None:
        while self._order and now_ns - self._order[0][0] >= self.window_ns:
            self._drop()

    def _drop(self) -> None:
        time_ns, msg_id = self._order.popleft()
        known = self._sequences.get(msg_id)
        if known is not None and known[1] == time_ns:
            del self._sequences[msg_id]

    def fill(self) -> None:
        """Notes what the log has of the window, once. Raises: StorageError; then it may be tried again."""
        newest = self._log.last()  # which may open the log, and come here
        if self._is_filled:
            return
        since = max(self._now_ns() - self.window_ns, 0)
        if newest is not None and self.window_ns > 0 and newest.time_ns >= since:
            self._note_from(max(self._log.sequence_at(since), newest.sequence - MOST_IDS), newest.sequence)
        self._last_id = hdr.value(newest.headers, MSG_ID) if newest else b""
        self._is_filled = True

    def _note_from(self, sequence: int, last: int) -> None:
        while sequence <= last:
            page = self._log.read_from(sequence, max_messages=1024)
            for message in page.messages:
                if message.headers and (msg_id := hdr.value(message.headers, MSG_ID)):
                    self.note(msg_id, message.sequence, message.time_ns)
            sequence = page.next_sequence
