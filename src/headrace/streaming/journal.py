"""The writing side of the durable state: gathers a tick's changes, appends them once, answers who waits.

What the entries look like and how they are read back is `state.py`'s. A failed write loses no change: the
next write is then a snapshot of everything, and whoever waited is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import LogError, StorageError
from headrace.log.port import SyncPolicy
from headrace.streaming import state as entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.port import MessageLog
    from headrace.protocol.stan import ClientInfo, ServerInfo
    from headrace.streaming.context import Context
    from headrace.streaming.state import ServiceState, SubscriptionRecord

    Waiter = Callable[[LogError | None], None]

_MIN_GROWTH: Final = 4 << 20
"""Bytes of changes before a snapshot is thought of; at 100 bytes a tick that is 40,000 ticks."""
_GROWTH_FACTOR: Final = 4
"""Changes may outweigh the last snapshot this many times."""
_RETRY_S: Final = 1.0
"""Between two tries to write after the storage failed."""


class Tracked(Protocol):
    """A live subscription as far as its deltas go."""

    id: int
    unsaved_sent: list[int]
    unsaved_acked: list[int]


class Journal:
    def __init__(self, log: MessageLog, context: Context, gather: Callable[[], ServiceState]) -> None:
        self._log = log
        self._context = context
        self._gather = gather
        self._entries: list[bytes] = []
        self._waiters: list[Waiter] = []
        self._grown = 0
        self._snapshot_size = 0
        self._retrying = False
        self.snapshot_due = False
        self.touched: dict[int, Tracked] = {}
        """Subscriptions, by id, with deliveries or acknowledgements that are not written yet."""

    def server(self, info: ServerInfo) -> None:
        self._entries.append(entries.server(info))

    def client(self, info: ClientInfo) -> None:
        self._entries.append(entries.client(info))

    def client_gone(self, client_id: bytes) -> None:
        self._entries.append(entries.client_gone(client_id))

    def channel(self, name: bytes, created_ns: int) -> None:
        self._entries.append(entries.channel(name, created_ns))

    def channel_gone(self, name: bytes) -> None:
        self._entries.append(entries.channel_gone(name))

    def subscribed(self, record: SubscriptionRecord) -> None:
        self._entries.append(entries.subscribed(record))

    def unsubscribed(self, identity: int) -> None:
        self.touched.pop(identity, None)
        self._entries.append(entries.unsubscribed(identity))

    def last_sent(self, identity: int, sequence: int) -> None:
        self._entries.append(entries.last_sent(identity, sequence))

    def after_commit(self, waiter: Waiter) -> None:
        """Calls `waiter` when everything said so far is durable under the store's policy, or cannot be."""
        self._waiters.append(waiter)

    @property
    def idle(self) -> bool:
        return not (self._entries or self.touched or self._waiters)

    def flush(self) -> None:
        """Appends what was gathered, as one record; does not wait for a sync."""
        if self.idle:
            return
        self._gather_deltas()
        waiters, self._waiters = self._waiters, []
        gathered, self._entries = self._entries, []
        if self.snapshot_due and self._retrying and not waiters:
            return  # everything is in the snapshot that will be tried
        try:
            if self.snapshot_due:
                self._write_snapshot()
            elif gathered:
                message = entries.record(gathered)
                self._log.append([message])
                self._grown += len(message.payload)
        except LogError as error:
            self._failed(error, waiters)
            return
        if waiters:
            self._context.commit(self._log, lambda error: self._answer(waiters, error))
        if self._grown > max(_MIN_GROWTH, _GROWTH_FACTOR * self._snapshot_size):
            self.snapshot_due = True
            self._try_snapshot()

    def _gather_deltas(self) -> None:
        for tracked in self.touched.values():
            if tracked.unsaved_sent:
                self._entries.append(entries.sent(tracked.id, tracked.unsaved_sent))
                tracked.unsaved_sent.clear()
            if tracked.unsaved_acked:
                self._entries.append(entries.acked(tracked.id, tracked.unsaved_acked))
                tracked.unsaved_acked.clear()
        self.touched.clear()

    def _answer(self, waiters: list[Waiter], error: StorageError | None) -> None:
        if error is not None:
            self._context.note.error("state could not be synced: %s", error)
        for waiter in waiters:
            waiter(error)

    def _failed(self, error: LogError, waiters: list[Waiter]) -> None:
        self.snapshot_due = True
        if not self._retrying:
            self._retrying = True
            self._context.note.error("state could not be written: %s", error)
            self._context.later(_RETRY_S, self._retry)
        for waiter in waiters:
            waiter(error)

    def _retry(self) -> None:
        self._retrying = False
        self._try_snapshot()

    def _try_snapshot(self) -> None:
        if not self.snapshot_due:
            return
        try:
            self._write_snapshot()
        except LogError as error:
            self._failed(error, [])

    def _write_snapshot(self) -> None:
        batch = entries.snapshot(self._gather())
        first = self._log.append(batch)
        self.snapshot_due = False
        self._grown = 0
        self._snapshot_size = sum(len(message.payload) for message in batch)
        self._context.commit(self._log, lambda error: self._synced(first, error))

    def _synced(self, first: int, error: StorageError | None) -> None:
        if error is not None:
            self._context.note.error("state could not be synced: %s", error)
            return
        try:
            if self._context.options.sync is not SyncPolicy.GROUP:
                self._log.sync()  # rare; else a power failure could find neither the old state nor the new
            self._log.purge(up_to=first)
        except LogError as purge_error:
            self._context.note.error("old state could not be purged: %s", purge_error)
