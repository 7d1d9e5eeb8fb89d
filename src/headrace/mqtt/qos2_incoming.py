"""Messages of QoS 2 from a client: staged in a stream until the client releases them, then published once.

Most are staged, published and removed in compiled code (`engine.mqtt_incoming`). Here is what that leaves:
messages that an earlier connection has staged, those that a mapping may change, what is kept, and errors.

A message that was stored for subscribers, and not deleted here before the server died, is not stored a second
time: its message id is made of session, identifier and sequence of the staged message.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.engine.mqtt_topics import subject_of_topic, topic_of_subject
from headrace.mqtt.message_headers import RETAIN, RETAIN_LINE, block, hex_digit, lines_of, published
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
from headrace.mqtt.requests import SUBJECT_IS_FULL, RequestFailed, RequestUnanswered, failure_of, no_answer
from headrace.mqtt.sparkplug import kept_topic
from headrace.mqtt.steps import Awaited, begin, watch
from headrace.protocol.jetstream.headers import value
from headrace.protocol.mqtt.packets import VERSION_5, ack
from headrace.protocol.mqtt.properties import PacketKind
from headrace.protocol.mqtt.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.engine.mqtt import MqttPublication
    from headrace.mqtt.ports import HubPort, Publications, SessionClient
    from headrace.mqtt.requests import StoredMessage
    from headrace.mqtt.retained import RetainedMessages


class IncomingQos2:
    """The messages of QoS 2 that one connection sends.

    `lost`: called with the identifier of a message, and with an error that ends the connection.
    """

    __slots__ = ("_account", "_busy", "_client", "_has_ended", "_hash", "_lost", "_retained")

    def __init__(
        self,
        account: HubPort,
        client: SessionClient,
        client_hash: str,
        retained: RetainedMessages,
        lost: Callable[[int, Exception], None],
    ) -> None:
        self._account = account
        self._client = client
        self._hash = client_hash
        self._retained = retained
        self._lost = lost
        self._busy: dict[int, Awaited[None]] = {}
        self._has_ended = False

    def end(self) -> None:
        """The connection is gone: what is not published yet waits for the next one."""
        self._has_ended = True

    @property
    def _publications(self) -> Publications:
        return self._client.link.publications

    def _subject(self, identifier: int) -> bytes:
        return INCOMING_SUBJECT + f"{self._client.client_id}.{identifier}".encode()

    # -- PUBLISH ---------------------------------------------------------------------------------------

    def publication(self, publication: MqttPublication, more: bytes) -> None:
        """Take a PUBLISH that compiled code leaves. `more`: whole header lines."""
        watch(begin(self._stage(publication, more)), partial(self._lost, publication.identifier))

    async def _stage(self, publication: MqttPublication, more: bytes) -> None:
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

    def pubrel(self, identifier: int) -> None:
        """Take a PUBREL."""
        if not self._publications.release(identifier):
            self.released(identifier)

    def released(self, identifier: int) -> None:
        """Take a PUBREL that compiled code leaves, as all behind it until this one is done."""
        watch(begin(self._release_behind(identifier)), partial(self._lost, identifier))

    async def _release_behind(self, identifier: int) -> None:
        try:
            await self._release(identifier)
        finally:
            self._publications.released()

    async def _release(self, identifier: int) -> None:
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
        more = more.replace(RETAIN_LINE, b"")
        if kept != topic:
            subject, flags = subject_of_topic(kept, is_filter=False), flags | RETAIN
            if not self._has_ended:
                self._client.link.route(subject, published(0, more), payload)
        await self._retained.store(subject, kept, flags, payload, user=self._client.user or "", more=more)

    # -- what compiled code leaves -----------------------------------------------------------------------

    def keep(  # noqa: PLR0917 - as the engine calls it
        self, identifier: int, subject: bytes, flags: int, payload: bytes, lines: bytes, reply: bytes
    ) -> None:
        """Keep a message that was published, if it is to be kept, and have it removed where it is staged."""
        more = lines + (b"%b:%b\r\n" % (REPLY, reply) if reply else b"")
        steps = self._keep_and_remove(identifier, subject, flags, payload, more)
        watch(begin(steps), partial(self._lost, identifier))

    async def _keep_and_remove(
        self, identifier: int, subject: bytes, flags: int, payload: bytes, more: bytes
    ) -> None:
        await self._keep(subject, flags, payload, more)
        if not self._has_ended:
            self._publications.remove(identifier)

    def stage_failed(self, identifier: int, answer: bytes) -> None:
        """Say that a message is not staged: in 3.1.1 there is no other way than the end."""
        error = failure_of(answer, "a message of QoS 2 is not stored")
        if self._client.version != VERSION_5:
            self._lost(identifier, error)
            return
        self._account.log.error("MQTT: %s", str(error))
        self._client.link.end_publication(identifier)
        self._client.send(ack(PacketKind.PUBREC, VERSION_5, identifier, Reason.UNSPECIFIED_ERROR))

    def release_failed(self, identifier: int, answer: bytes) -> None:
        """Go on with a message that was gone when it was to be deleted; else the connection ends."""
        error = failure_of(answer, "a message of QoS 2 is not published")
        if error.is_message_gone:
            self._publications.complete(identifier)
        else:
            self._lost(identifier, error)

    def watch(self) -> None:
        """Look after answers of JetStream that do not come: from now on until none is waited for."""
        self._look(0)

    def _look(self, asked: int) -> None:
        if self._has_ended:
            return
        seconds = self._account.requests.timeout
        overdue, asked = self._publications.overdue(asked)
        for identifier in overdue:
            why = no_answer(seconds)
            self._lost(identifier, RequestUnanswered(f"a message of QoS 2: {why}", why=why))
        if asked:
            self._account.after(seconds, partial(self._look, asked))


def staged_headers(publication: MqttPublication, subject: bytes, more: bytes) -> bytes:
    """Return the header block of a staged message that goes to `subject`."""
    lines = [(QOS, b"2%x" % (publication.flags & 0xF)), (SUBJECT, subject)]
    if subject != publication.subject:
        lines.append((MAPPED, publication.subject))
    if publication.reply:
        lines.append((REPLY, publication.reply))
    return block(*lines, more=more)
