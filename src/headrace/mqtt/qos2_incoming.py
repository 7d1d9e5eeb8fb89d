"""Messages of QoS 2 from a client: staged in a stream until the client releases them, then published once.

A message that was stored for subscribers, and not deleted here before the server died, is not stored a second
time: its message id is made of session, identifier and sequence of the staged message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.mqtt_topics import subject_of_topic, topic_of_subject
from headrace.mqtt.message_headers import RETAIN, block, hex_digit, lines_of, published
from headrace.mqtt.names import (
    INCOMING,
    INCOMING_SUBJECT,
    MAPPED,
    MESSAGE_ID,
    MESSAGE_SUBJECT,
    QOS,
    REPLY,
    SUBJECT,
)
from headrace.mqtt.requests import SUBJECT_IS_FULL, RequestFailed, RequestUnanswered
from headrace.mqtt.sparkplug import kept_topic
from headrace.mqtt.steps import Awaited
from headrace.protocol.jetstream.headers import value
from headrace.protocol.mqtt.packets import VERSION_5, ack
from headrace.protocol.mqtt.properties import PacketKind
from headrace.protocol.mqtt.reasons import Reason

if TYPE_CHECKING:
    from headrace.engine.mqtt import MqttPublication
    from headrace.mqtt.ports import HubPort, SessionClient
    from headrace.mqtt.requests import StoredMessage
    from headrace.mqtt.retained import RetainedMessages


class IncomingQos2:
    """The messages of QoS 2 that one connection sends."""

    __slots__ = ("_account", "_busy", "_client", "_has_ended", "_hash", "_retained")

    def __init__(
        self, account: HubPort, client: SessionClient, client_hash: str, retained: RetainedMessages
    ) -> None:
        self._account = account
        self._client = client
        self._hash = client_hash
        self._retained = retained
        self._busy: dict[int, Awaited[None]] = {}
        self._has_ended = False

    def end(self) -> None:
        """The connection is gone: what is not published yet waits for the next one."""
        self._has_ended = True

    def _subject(self, identifier: int) -> bytes:
        return INCOMING_SUBJECT + f"{self._client.client_id}.{identifier}".encode()

    # -- PUBLISH ---------------------------------------------------------------------------------------

    async def stage(self, publication: MqttPublication, more: bytes) -> None:
        """Stage a message and answer PUBREC. `more`: whole header lines.

        Raises: RequestFailed, for 5.0 only where it is unknown what became of the message.
        """
        identifier = publication.identifier
        reason = Reason.SUCCESS
        subject = self._client.mapped(publication.subject)
        if subject is None:
            reason = Reason.NOT_AUTHORIZED
        else:
            headers = staged_headers(publication, subject, more)
            try:
                await self._account.requests.store(self._subject(identifier), headers, publication.payload)
            except RequestFailed as error:
                if error.code != SUBJECT_IS_FULL:  # else the first message with the identifier wins
                    if self._client.version != VERSION_5 or isinstance(error, RequestUnanswered):
                        raise  # what may be stored later must not be taken for the next one of the identifier
                    self._account.log.error("MQTT: a message of QoS 2 is not stored: %s", str(error))
                    reason = Reason.UNSPECIFIED_ERROR
        if reason.is_failure:  # no PUBREL follows
            self._client.link.end_publication(identifier)
        self._client.send(ack(PacketKind.PUBREC, self._client.version, identifier, reason))

    # -- PUBREL ----------------------------------------------------------------------------------------

    async def release(self, identifier: int) -> None:
        """Publish a staged message and answer PUBCOMP. Raises: RequestFailed."""
        before = self._busy.get(identifier)
        if before is not None:
            await before
        mine = self._busy[identifier] = Awaited()
        try:
            found = await self._account.requests.load_last(INCOMING, self._subject(identifier))
            if self._has_ended:
                return
            if found is not None:
                await self._publish(identifier, found)
                await self._account.requests.remove(INCOMING, found.sequence)
        finally:
            if self._busy.get(identifier) is mine:
                del self._busy[identifier]
            mine.give(None)
        reason = Reason.SUCCESS if found is not None else Reason.PACKET_IDENTIFIER_NOT_FOUND
        self._client.send(ack(PacketKind.PUBCOMP, self._client.version, identifier, reason))

    async def _publish(self, identifier: int, staged: StoredMessage) -> None:
        headers = staged.headers
        flags = hex_digit(value(headers, QOS)[1:2])
        reply, more = value(headers, REPLY), lines_of(headers)
        original = value(headers, MAPPED) or value(headers, SUBJECT)
        subject = self._client.link.route(original, published(2, more), staged.payload, reply=reply)
        if subject is None:  # what was allowed is not any more
            return
        name = b"%b-%d-%d" % (self._hash.encode(), identifier, staged.sequence)
        lines = more + (b"%b:%b\r\n" % (REPLY, reply) if reply else b"") + b"%b:%b\r\n" % (MESSAGE_ID, name)
        await self._account.requests.store(MESSAGE_SUBJECT + subject, published(2, lines), staged.payload)
        if reply:
            more += b"%b:%b\r\n" % (REPLY, reply)
        await self._keep(subject, flags, staged.payload, more)

    async def _keep(self, subject: bytes, flags: int, payload: bytes, more: bytes) -> None:
        """Keep a message that was published, if it is retained; of a birth of Sparkplug its certificate."""
        topic = topic_of_subject(subject)
        kept = kept_topic(topic, is_retained=bool(flags & RETAIN))
        if kept is None:
            return
        if kept != topic:
            subject, flags = subject_of_topic(kept, is_filter=False), flags | RETAIN
            if not self._has_ended:
                self._client.link.route(subject, published(0, more), payload)
        await self._retained.store(subject, kept, flags, payload, user=self._client.user or "", more=more)


def staged_headers(publication: MqttPublication, subject: bytes, more: bytes) -> bytes:
    """Return the header block of a staged message that goes to `subject`."""
    lines = [(QOS, b"2%x" % (publication.flags & 0xF)), (SUBJECT, subject)]
    if subject != publication.subject:
        lines.append((MAPPED, publication.subject))
    if publication.reply:
        lines.append((REPLY, publication.reply))
    return block(*lines, more=more)
