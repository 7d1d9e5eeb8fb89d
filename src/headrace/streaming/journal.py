"""The writing side of the durable state: what of a tick is worth an entry.

How a log of changes is written is `headrace.change_log`'; what the entries look like and how they are read
back is `state.py`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.change_log import ChangeWriter
from headrace.log.port import SyncPolicy
from headrace.streaming import state as entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.port import MessageLog
    from headrace.protocol.stan import ClientInfo, ServerInfo
    from headrace.streaming.context import Context
    from headrace.streaming.state import ServiceState, SubscriptionRecord


class Tracked(Protocol):
    """A live subscription as far as its deltas go."""

    id: int
    unsaved_sent: list[int]
    unsaved_acked: list[int]


class StreamingJournal(ChangeWriter):
    """The writing side of the service's durable state."""

    def __init__(self, log: MessageLog, context: Context, gather: Callable[[], ServiceState]) -> None:
        super().__init__(
            lambda: log,
            context,
            context.note,
            lambda: entries.all_entries(gather()),
            subject=entries.SUBJECT,
            syncs_at_once=SyncPolicy(context.options.sync) is SyncPolicy.GROUP,
            is_in_memory=context.options.store_type == "MEMORY",
        )
        self.touched: dict[int, Tracked] = {}
        """Subscriptions, by id, with deliveries or acknowledgements that are not written yet."""

    def server(self, info: ServerInfo) -> None:
        self.add(entries.server(info))

    def client(self, info: ClientInfo) -> None:
        self.add(entries.client(info))

    def client_gone(self, client_id: bytes) -> None:
        self.add(entries.client_gone(client_id))

    def channel(self, name: bytes, created_ns: int) -> None:
        self.add(entries.channel(name, created_ns))

    def channel_gone(self, name: bytes) -> None:
        self.add(entries.channel_gone(name))

    def subscribed(self, record: SubscriptionRecord) -> None:
        self.add(entries.subscribed(record))

    def unsubscribed(self, identity: int) -> None:
        self.touched.pop(identity, None)
        self.add(entries.unsubscribed(identity))

    def last_sent(self, identity: int, sequence: int) -> None:
        self.add(entries.last_sent(identity, sequence))

    @property
    def idle(self) -> bool:
        return not self.touched and super().idle

    def gather(self) -> None:
        for tracked in self.touched.values():
            if tracked.unsaved_sent:
                self.add(entries.sent(tracked.id, tracked.unsaved_sent))
                tracked.unsaved_sent.clear()
            if tracked.unsaved_acked:
                self.add(entries.acked(tracked.id, tracked.unsaved_acked))
                tracked.unsaved_acked.clear()
        self.touched.clear()
