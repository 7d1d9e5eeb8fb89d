"""Channels looked after over NATS: list, report, purge, delete, and durables that go over to JetStream.

Whoever may publish to these subjects may do it: permissions of the NATS server decide who that is. An answer
says what is durable. Shapes are `protocol.admin`; the commands that ask are elsewhere.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import LogError, ProtocolError
from headrace.log.port import LARGEST_TIME
from headrace.protocol import documents
from headrace.protocol.admin import (
    AdoptRequest,
    ChannelPurgeRequest,
    DeleteRequest,
    ListRequest,
    error_document,
)
from headrace.protocol.rfc3339 import format_time
from headrace.streaming.naming import shown
from headrace.streaming.shared_stream import ConversionRefused
from headrace.streaming.snapshot import subscription_snapshot
from headrace.streaming.subscription import position_of
from headrace.subjects.grammar import has_wildcard, tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery
    from headrace.streaming.channels import Channel, Channels
    from headrace.streaming.context import Context
    from headrace.streaming.journal import StreamingJournal
    from headrace.streaming.subscribing import Subscriptions

    Answer = dict[str, Any]

ANSWER_BYTES: Final = 256 << 10
"""Bytes of one answer's channels, and one channel more; whoever asked asks again for the rest."""


class AdministrationRefused(Exception):
    """The request is refused; the text is the answer's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Administration:
    """The administration of a service's channels over plain NATS."""

    def __init__(
        self,
        context: Context,
        *,
        channels: Channels,
        subscriptions: Subscriptions,
        journal: StreamingJournal,
        flush: Callable[[], object],
    ) -> None:
        """Administer the channels.

        `flush` appends publications that came before: they are part of what is listed, purged, deleted.
        """
        self._context = context
        self._channels = channels
        self._subscriptions = subscriptions
        self._journal = journal
        self._flush = flush
        self._verbs: Final[dict[bytes, Callable[[Delivery], None]]] = {
            b"channels": lambda delivery: self._list(delivery, subscriptions=False),
            b"report": lambda delivery: self._list(delivery, subscriptions=True),
            b"purge": self._purge,
            b"delete": self._delete,
            b"adopt": self._adopt,
        }

    def receive(self, delivery: Delivery) -> None:
        verb = self._verbs.get(tokens(delivery.subject)[-1])
        self._flush()
        try:
            if verb is None:
                raise AdministrationRefused(
                    404, f"there are {', '.join(name.decode() for name in self._verbs)}"
                )
            verb(delivery)
        except ProtocolError as error:
            self._answer(delivery.reply, error_document(400, str(error)))
        except AdministrationRefused as error:
            self._answer(delivery.reply, error_document(error.code, str(error)))
        except LogError as error:
            self._context.note.error("%s: %s", shown(delivery.subject), error)
            self._answer(delivery.reply, error_document(500, str(error)))

    # -- looking ---------------------------------------------------------------------------------------

    def _list(self, delivery: Delivery, *, subscriptions: bool) -> None:
        request = ListRequest.decode(delivery.payload)
        found = self._channels.matching(request.channel)
        page: list[Answer] = []
        size = 0
        for channel in found[request.offset :]:
            one = _document(channel)
            if subscriptions:
                one["subscriptions"] = _subscriptions(channel)
            page.append(one)
            size += len(json.dumps(one))
            if size >= ANSWER_BYTES:
                break
        answer = {"total": len(found), "offset": request.offset, "channels": page}
        # A channel's incarnation must not be told before it is certain to be the same after a crash.
        self._journal.after_commit(lambda error: self._done(delivery.reply, error, answer))

    # -- removing --------------------------------------------------------------------------------------

    def _purge(self, delivery: Delivery) -> None:
        request = ChannelPurgeRequest.decode(delivery.payload)
        channel = self._channel(request.channel)
        up_to = request.before_sequence
        if request.before_time_ns is not None:
            until = channel.log.sequence_at(min(max(request.before_time_ns, 0), LARGEST_TIME))
            up_to = until if up_to is None else min(up_to, until)
        purged = channel.log.purge(up_to=up_to, keep=request.keep)
        self._subscriptions.forget_below(channel, channel.log.state().first_sequence)
        if channel.shared_stream is not None:
            channel.shared_stream.removed()
        self._context.note.info('Channel "%s": %d message(s) purged', shown(channel.name), purged)

        def done(error: LogError | None) -> None:
            if error is None and not self._channels.is_open(channel):
                self._answer(delivery.reply, error_document(404, "the channel was deleted meanwhile"))
                return
            answer = {} if error is not None else {"purged": purged, "channel": _document(channel)}
            self._done(delivery.reply, error, answer)

        self._context.commit(channel.log, done)

    def _delete(self, delivery: Delivery) -> None:
        channel = self._channel(DeleteRequest.decode(delivery.payload).channel)
        if channel.name in self._context.adopted:
            raise AdministrationRefused(
                409, "the channel is a JetStream stream too: take it out of `adopt` first"
            )
        messages = channel.log.state().messages
        ended = self._subscriptions.end_all(channel)
        answer = {"deleted": True, "messages": messages, "subscriptions": ended}
        self._channels.delete(channel, lambda error: self._done(delivery.reply, error, answer))

    # -- going over to JetStream -----------------------------------------------------------------------

    def _adopt(self, delivery: Delivery) -> None:
        """A durable subscription becomes a consumer of the channel's stream, with what it had pending.

        The consumer is durable before the subscription ends: a crash in between leaves both.
        """
        request = AdoptRequest.decode(delivery.payload)
        channel = self._channel(request.channel)
        if channel.shared_stream is None:
            raise AdministrationRefused(
                409, "the channel is no JetStream stream: name it in `adopt` of the configuration"
            )
        members = self._subscriptions.durable(channel, request.client_id, request.durable)
        if not members:
            raise AdministrationRefused(404, "no such durable subscription")
        if any(member.client is not None for member in members):
            raise AdministrationRefused(409, "the durable subscription is in use: close its clients first")
        consumer = documents.name_of(request.consumer or request.durable)
        position = position_of(members)
        answer = {
            "stream": channel.shared_stream.name,
            "consumer": consumer,
            "pending": len(position.pending),
        }

        def done(error: Exception | None) -> None:
            if error is not None:
                self._answer(delivery.reply, error_document(500, str(error)))
                return
            if any(member.client is not None for member in members):
                text = "the durable subscription came into use meanwhile: it stays, beside the consumer"
                self._answer(delivery.reply, error_document(409, text))
                return
            for member in members:
                self._subscriptions.drop(member)
            self._journal.after_commit(lambda failure: self._done(delivery.reply, failure, answer))
            self._context.settle()

        try:
            channel.shared_stream.carry(consumer, position, done)
        except ConversionRefused as error:
            raise AdministrationRefused(409, str(error)) from error

    def _channel(self, name: bytes) -> Channel:
        """Return the channel of a request. Raises: AdministrationRefused."""
        channel = self._channels.get(name)
        if channel is None:
            if has_wildcard(name):
                raise AdministrationRefused(400, "channel: one name is expected, without wildcards")
            raise AdministrationRefused(404, "no such channel")
        if channel.deleting:
            raise AdministrationRefused(409, "the channel is being deleted")
        return channel

    # -- answers ---------------------------------------------------------------------------------------

    def _done(self, reply: bytes, error: LogError | None, answer: Answer) -> None:
        self._answer(reply, answer if error is None else error_document(500, str(error)))

    def _answer(self, reply: bytes, answer: Answer) -> None:
        if reply:
            self._context.host.publish(reply, json.dumps(answer, separators=(",", ":")).encode())


def _document(channel: Channel) -> Answer:
    state = channel.log.state()
    return {
        "name": documents.name_of(channel.name),
        "msgs": state.messages,
        "bytes": state.bytes,
        "first_seq": state.first_sequence,
        "last_seq": state.last_sequence,
        "last_time": format_time(state.last_time_ns) if state.last_sequence else "",
        "subs_count": channel.subscriptions,
        "created": format_time(channel.created_ns),
        "damaged": len(state.damaged),
    }


def _subscriptions(channel: Channel) -> list[Answer]:
    found = map(subscription_snapshot, channel.everyone())
    return [
        {
            "client_id": one.client_id,
            "durable_name": one.durable_name,
            "queue_name": one.queue_name,
            "is_offline": one.is_offline,
            "last_sent": one.last_sent,
            "pending_count": one.pending_count,
        }
        for one in found
    ]
