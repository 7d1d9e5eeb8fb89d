"""Duplicate detection: messages stored lately, by `Nats-Msg-Id`. A duplicate within the window is not stored.

Here lives the table, bounded by time and by number; who asks it and what is answered is `ingest`'s. After a
start it is filled from the end of the log, before anything is asked or goes from there: at once where that is
little, else piece by piece (`id_filling`), while messages without ids are taken. Source: JetStream
specification, 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.engine.ids import MOST_IDS, IdWindow
from headrace.protocol.jetstream import headers as hdr

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.port import MessageLog

MSG_ID: Final = b"Nats-Msg-Id"
AT_ONCE: Final = 4096
"""Messages of the window that are read when the log is opened, at most: some milliseconds."""


class _Rest(NamedTuple):
    """The messages that the table lacks, from one to another, noted as if stored so much later."""

    next: int
    last: int
    later_ns: int


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
        self._rest: _Rest | None = None
        """The rest that is still to be read; None before it is known."""

    @property
    def last_id(self) -> bytes:
        """Return the id of the newest message; empty when it had none. Raises: StorageError."""
        if not self.is_filled and self._rest is None:
            self.begin()
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
        if self.begin():
            return
        while not self.fill_more():
            pass

    def begin(self) -> bool:
        """Find out what is to be read, and note it if it is little; True if nothing is left.

        Raises: StorageError.
        """
        newest = self._log.last()  # which may open the log, and come here
        if self.is_filled or self._rest is not None:
            return self.is_filled
        now_ns = self._now_ns()
        first, last, later_ns = 1, 0, 0
        if newest is not None and self.window_ns > 0:
            reference_ns = newest.time_ns if self._is_shared else now_ns
            since = max(reference_ns - self.window_ns, 0)
            if newest.time_ns >= since:
                last = newest.sequence
                first = max(self._log.sequence_at(since), last - MOST_IDS)
                later_ns = max(now_ns - reference_ns, 0)
        self.newest_id = hdr.value(newest.headers, MSG_ID) if newest else b""
        self._rest = _Rest(first, last, later_ns)
        while last - first < AT_ONCE and not self.is_filled:
            self.fill_more()
        return self.is_filled

    def fill_more(self) -> bool:
        """Note a page of messages; True if that was the last one. `begin` comes first. Raises: LogError."""
        rest = self._rest
        if self.is_filled or rest is None:
            return True
        if rest.next <= rest.last:
            page = self._log.read_from(rest.next, max_messages=1024, up_to=rest.last + 1)
            for message in page.messages:
                if message.headers and (msg_id := hdr.value(message.headers, MSG_ID)):
                    self.note(msg_id, message.sequence, message.time_ns + rest.later_ns)
            rest = self._rest = rest._replace(next=page.next_sequence)
        self.is_filled = rest.next > rest.last
        return self.is_filled
