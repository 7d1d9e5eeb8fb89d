"""Duplicate detection: messages stored lately, by `Nats-Msg-Id`. A duplicate within the window is not stored.

Here lives the table, bounded by time and by number; who asks it and what is answered is `ingest`'s. After a
start it is filled from the end of the log, before anything is asked or goes from there. Source: JetStream
specification, 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.engine.ids import MOST_IDS, IdWindow
from headrace.protocol.jetstream import headers as hdr

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.port import MessageLog

MSG_ID: Final = b"Nats-Msg-Id"


class Dedupe(IdWindow):
    """Ids of stored messages. `window_ns`: for how long; 0: nothing is a duplicate. `log`: of the stream.

    `is_shared`: other servers wrote to the log, by clocks of their own. Then nobody knows how long ago the
    newest message was stored, and it counts as stored at the start.
    """

    def __init__(
        self, window_ns: int, log: MessageLog, now_ns: Callable[[], int], *, is_shared: bool = False
    ) -> None:
        self.window_ns = window_ns
        self._log = log
        self._now_ns = now_ns
        self._is_shared = is_shared

    @property
    def last_id(self) -> bytes:
        """Return the id of the newest message; empty when it had none. Raises: StorageError."""
        if not self.is_filled:
            self.fill()
        return self.newest_id

    def find(self, msg_id: bytes, now_ns: int) -> int:
        """The sequence under which a message with this id was stored in the window; 0: there is none.

        Raises: StorageError.
        """
        if not self.is_filled:
            self.fill()
        self.forget(now_ns)
        return self.sequence_of(msg_id)

    def fill(self) -> None:
        """Note what the log has of the window, once. Raises: StorageError; then it may be tried again."""
        newest = self._log.last()  # which may open the log, and come here
        if self.is_filled:
            return
        if newest is not None and self.window_ns > 0:
            now_ns = self._now_ns()
            reference_ns = newest.time_ns if self._is_shared else now_ns
            since = max(reference_ns - self.window_ns, 0)
            if newest.time_ns >= since:
                first = max(self._log.sequence_at(since), newest.sequence - MOST_IDS)
                self._note_from(first, newest.sequence, max(now_ns - reference_ns, 0))
        self.newest_id = hdr.value(newest.headers, MSG_ID) if newest else b""
        self.is_filled = True

    def _note_from(self, sequence: int, last: int, later_ns: int) -> None:
        """Note the ids of messages, as if each had been stored so much later."""
        while sequence <= last:
            page = self._log.read_from(sequence, max_messages=1024)
            for message in page.messages:
                if message.headers and (msg_id := hdr.value(message.headers, MSG_ID)):
                    self.note(msg_id, message.sequence, message.time_ns + later_ns)
            sequence = page.next_sequence
