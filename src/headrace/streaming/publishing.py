"""Publications: checks each, appends a turn's worth per channel at once, answers after the commit.

The bytes of publications and answers are `engine.stan`'s; a channel is created by its first publication
(`channels`); delivery is `delivery`'s. Source: streaming specification, 4.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.engine.stan import Publications, sort_publications
from headrace.errors import LogError, LogFull, MessageTooLarge
from headrace.log.port import NewMessage
from headrace.protocol.stan import PubAck
from headrace.refusals import Refusals
from headrace.streaming import error_texts
from headrace.streaming.channels import ChannelRefused
from headrace.streaming.naming import is_channel_name, shown
from headrace.turns import LateCommit

if TYPE_CHECKING:
    from headrace.core.service import Delivery
    from headrace.engine.batches import Gathered
    from headrace.errors import StorageError
    from headrace.streaming.channels import Channel, Channels
    from headrace.streaming.clients import ClientRegistry
    from headrace.streaming.context import Context, Counters
    from headrace.streaming.delivery import Deliverer
    from headrace.streaming.partitions import Owns


MOST_UNANSWERED: Final = 128 << 20
"""Bytes of publications that may wait for a disk. Beyond, the service waits for it too, and so does everybody
who publishes: what is in memory stays bounded however slow a disk becomes."""
_BESIDES: Final = 256
"""Bytes that a publication takes besides its payload, about."""


class Publisher:
    """The way of publications into the logs of channels."""

    def __init__(
        self,
        context: Context,
        channels: Channels,
        clients: ClientRegistry,
        deliverer: Deliverer,
        counters: Counters,
    ) -> None:
        self._context = context
        self._channels = channels
        self._clients = clients
        self._deliverer = deliverer
        self._counters = counters
        self._batches: dict[bytes, Publications] = {}
        """Publications of this turn, by channel."""
        self._refusals: Final = Refusals(context.later, context.note.error)
        self._unanswered = 0
        self.owns: Owns | None = None
        """Tells whether a channel is this server's, if there are partitions; other servers answer for the
        rest.
        """

    def receive(self, run: Gathered[Delivery]) -> None:
        """Check publications; what is good waits for `flush`, the rest is refused at once."""
        sort_publications(
            run,
            self._batches,
            self._clients.may_publish,
            self._batch_for,
            self._refuse,
            self._trace if self._context.note.tracing else None,
        )

    def _batch_for(self, name: bytes) -> Publications | bytes | None:
        """An empty batch; None for what cannot be a channel's name, a text for one that cannot be had."""
        channel = self._channels.get(name)
        if channel is None and not is_channel_name(name):
            return None
        if self.owns and not self.owns(name):
            return None
        if channel is None or channel.deleting:
            try:
                channel = self._channels.get_or_create(name)
            except ChannelRefused as refusal:
                return refusal.text
        return Publications(NewMessage, channel.name)

    def _trace(self, client_id: bytes, channel: bytes, guid: bytes) -> None:
        self._context.note.trace(
            "[Client:%s] Received message from publisher subj=%s guid=%s",
            shown(client_id), shown(channel), shown(guid),
        )  # fmt: skip

    def _refuse(
        self, reply: bytes, text: bytes | None, client_id: bytes | None, guid: bytes, channel: bytes
    ) -> None:
        """Refuse a publication.

        `text` None: the publication is not valid; `client_id` None: not even its bytes are.
        """
        if self.owns and is_channel_name(channel) and not self.owns(channel):
            return
        if text is None and client_id is not None:
            self._context.note.error(
                "Received invalid client publish message: clientID=%s guid=%s subject=%s",
                shown(client_id), shown(guid), shown(channel),
            )  # fmt: skip
        if reply:
            error = error_texts.INVALID_PUBLISH if text is None else text
            self._context.host.publish(reply, PubAck(guid, error).encode())

    @property
    def is_idle(self) -> bool:
        """True if nothing waits to be appended."""
        return not self._batches

    def flush(self) -> None:
        """Append what was received, one write per channel."""
        if not self._batches:
            return
        batches, self._batches = self._batches, {}
        for name, batch in batches.items():
            channel = self._channels.get(name)
            if channel is None:  # deleted in this very turn
                self._answer(batch, error_texts.UNKNOWN_CHANNEL)
            else:
                self._store(channel, batch)
        if self._unanswered > MOST_UNANSWERED:
            self._context.finish_commits()

    def _store(self, channel: Channel, batch: Publications) -> None:
        time_ns = max(self._context.now_ns(), channel.last_time_ns)
        batch.at(time_ns)
        try:
            first = channel.log.append(batch)
        except (MessageTooLarge, LogFull) as error:
            if len(batch) == 1:
                self._answer(batch, str(error).encode())
                return
            for place in range(len(batch)):  # only the bad one is to be refused
                self._store(channel, batch.alone(place))
            return
        except LogError as error:
            self._refusals.refused(f"channel {shown(channel.name)}", error, len(batch))
            self._answer(batch, str(error).encode())
            return
        batch.stored(first)
        channel.last_time_ns = time_ns
        if channel.shared_stream is not None:
            channel.shared_stream.appended(first, len(batch))
        channel.waiting += 1
        self._unanswered += batch.size + _BESIDES * len(batch)
        self._counters.received(len(batch), batch.size)
        self._channels.touch(channel)
        self._channels.watch_expiry(channel)
        self._context.commit(channel.log, lambda error: self._committed(channel, first, batch, error))

    def _committed(
        self, channel: Channel, first: int, batch: Publications, error: StorageError | None
    ) -> None:
        channel.waiting -= 1
        self._unanswered -= batch.size + _BESIDES * len(batch)
        if error is not None:
            self._refusals.refused(f"channel {shown(channel.name)}", error, len(batch))
            self._answer(batch, str(error).encode())
            self._ask_again(channel)
            return
        self._answer(batch)
        if not self._channels.is_open(channel):
            return
        channel.visible = max(channel.visible, first + len(batch) - 1)
        if channel.shared_stream is not None:
            channel.shared_stream.committed(first, batch)
        if not channel.subscriptions:
            return
        channel.fresh = first, batch
        try:
            self._deliverer.serve_channel(channel)
        finally:
            channel.fresh = None

    def _ask_again(self, channel: Channel) -> None:
        """Have what was refused be delivered if it is durable all the same."""
        if channel.late is None:
            channel.late = LateCommit(
                self._context,
                channel.log,
                partial(self._late, channel),
                lambda: not self._channels.is_open(channel),
            )
        channel.late.ask()

    def _late(self, channel: Channel, last: int) -> None:
        """Deliver what is durable, up to a sequence."""
        if last <= channel.visible:
            return
        channel.visible = last
        if channel.shared_stream is not None:
            channel.shared_stream.passed(last)
        self._deliverer.serve_channel(channel)

    def _answer(self, batch: Publications, error: bytes = b"") -> None:
        host = self._context.host
        batch.acknowledge(host.outgoing, error)
        host.announce()
