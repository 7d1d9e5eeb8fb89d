"""Publications: checks each, appends a turn's worth per channel at once, answers after the commit.

A channel is created by its first publication (`channels`); delivery is `delivery`'s. Source: streaming
specification, 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import LogError, LogFull, MessageTooLarge, ProtocolError
from headrace.log.port import NewMessage
from headrace.protocol.stan import PubAck, PubMsg
from headrace.streaming import wording
from headrace.streaming.channels import ChannelRefused, Fresh
from headrace.streaming.naming import is_channel_name, shown

if TYPE_CHECKING:
    from headrace.core.service import Delivery
    from headrace.errors import StorageError
    from headrace.streaming.channels import Channel, Channels
    from headrace.streaming.clients import Clients
    from headrace.streaming.context import Context
    from headrace.streaming.counters import Counters
    from headrace.streaming.delivery import Deliverer
    from headrace.streaming.partitions import Owns


class _Batch:
    """Publications of one turn to one channel, and who waits for each."""

    __slots__ = ("messages", "replies")

    def __init__(self) -> None:
        self.messages: list[PubMsg] = []
        self.replies: list[bytes] = []


class Publisher:
    def __init__(
        self, context: Context, channels: Channels, clients: Clients, deliverer: Deliverer, counters: Counters
    ) -> None:
        self._context = context
        self._channels = channels
        self._clients = clients
        self._deliverer = deliverer
        self._counters = counters
        self._batches: dict[Channel, _Batch] = {}
        self.owns: Owns | None = None
        """Whether a channel is this server's, where there are partitions; others answer for the rest."""

    def receive(self, delivery: Delivery) -> None:
        """Checks one publication; what is good waits for `flush`, the rest is refused at once."""
        try:
            message = PubMsg.decode(delivery.payload)
        except ProtocolError:
            self._refuse(delivery.reply, b"", wording.INVALID_PUBLISH)
            return
        channel = self._channels.get(message.subject)
        if self.owns and is_channel_name(message.subject) and not self.owns(message.subject):
            return
        if (
            not message.guid
            or (channel is None and not is_channel_name(message.subject))
            or not self._clients.may_publish(message.client_id, message.conn_id)
        ):
            self._context.note.error(
                "Received invalid client publish message: clientID=%s guid=%s subject=%s",
                shown(message.client_id), shown(message.guid), shown(message.subject),
            )  # fmt: skip
            self._refuse(delivery.reply, message.guid, wording.INVALID_PUBLISH)
            return
        if self._context.note.tracing:
            self._context.note.trace(
                "[Client:%s] Received message from publisher subj=%s guid=%s",
                shown(message.client_id), shown(message.subject), shown(message.guid),
            )  # fmt: skip
        if channel is None:
            try:
                channel = self._channels.get_or_create(message.subject)
            except ChannelRefused as refusal:
                self._refuse(delivery.reply, message.guid, refusal.text)
                return
        batch = self._batches.get(channel)
        if batch is None:
            batch = self._batches[channel] = _Batch()
        batch.messages.append(message)
        batch.replies.append(delivery.reply)

    def flush(self) -> bool:
        """Appends what was received, one write per channel; False when there was nothing."""
        if not self._batches:
            return False
        batches, self._batches = self._batches, {}
        for channel, batch in batches.items():
            self._store(channel, batch.messages, batch.replies)
        return True

    def _store(self, channel: Channel, messages: list[PubMsg], replies: list[bytes]) -> None:
        time_ns = max(self._context.now_ns(), channel.last_time_ns)
        name = channel.name
        records = [NewMessage(name, message.data, message.reply, b"", time_ns) for message in messages]
        try:
            first = channel.log.append(records)
        except (MessageTooLarge, LogFull) as error:
            if len(messages) == 1:
                self._refuse_all(messages, replies, error)
                return
            for message, reply in zip(messages, replies, strict=True):  # only the bad one is to be refused
                self._store(channel, [message], [reply])
            return
        except LogError as error:
            self._context.note.error("channel %s: message could not be stored: %s", shown(name), error)
            self._refuse_all(messages, replies, error)
            return
        channel.last_time_ns = time_ns
        channel.waiting += 1
        self._counters.received(len(messages), sum(len(message.data) for message in messages))
        self._channels.touch(channel)
        self._channels.watch_expiry(channel)
        fresh = Fresh(first, time_ns, messages)
        self._context.commit(
            channel.log, lambda error: self._committed(channel, fresh, messages, replies, error)
        )

    def _committed(
        self,
        channel: Channel,
        fresh: Fresh,
        messages: list[PubMsg],
        replies: list[bytes],
        error: StorageError | None,
    ) -> None:
        channel.waiting -= 1
        if error is not None:
            self._context.note.error("channel %s could not be synced: %s", shown(channel.name), error)
            self._refuse_all(messages, replies, error)
            return
        publish = self._context.host.publish
        for message, reply in zip(messages, replies, strict=True):
            if reply:
                publish(reply, PubAck(message.guid).encode())
        if not self._channels.is_open(channel):
            return
        channel.visible = max(channel.visible, fresh.last)
        channel.fresh = fresh
        try:
            self._deliverer.serve_channel(channel)
        finally:
            channel.fresh = None

    def _refuse_all(self, messages: list[PubMsg], replies: list[bytes], error: LogError) -> None:
        text = str(error).encode()
        for message, reply in zip(messages, replies, strict=True):
            self._refuse(reply, message.guid, text)

    def _refuse(self, reply: bytes, guid: bytes, text: bytes) -> None:
        if reply:
            self._context.host.publish(reply, PubAck(guid, text).encode())
