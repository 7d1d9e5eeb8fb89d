"""The session of one connection: what its client asks for, and what is left when the connection ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.engine.mqtt_topics import subject_of_topic
from headrace.mqtt.kept_windows import KeptWindow
from headrace.mqtt.message_headers import RETAIN, RETAIN_LINE, client_line, published
from headrace.mqtt.names import REPLY, SHARED_CONSUMER
from headrace.mqtt.qos2_incoming import IncomingQos2
from headrace.mqtt.qos2_outgoing import QOS_2, OutgoingQos2
from headrace.mqtt.requests import RequestFailed, RequestUnanswered, operation_failed
from headrace.mqtt.sparkplug import is_death, kept_topic, stamped
from headrace.mqtt.steps import InOrder, begin, watch
from headrace.mqtt.subscriptions import SessionFilters
from headrace.protocol.mqtt.packets import NO_LOCAL, VERSION_5
from headrace.protocol.mqtt.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from headrace.engine.mqtt import MqttPublication
    from headrace.mqtt.ports import HubPort, SessionClient
    from headrace.mqtt.requests import ConsumerAnswer
    from headrace.mqtt.retained import RetainedMessage, RetainedMessages
    from headrace.mqtt.session_store import SessionStore, StoredSession
    from headrace.mqtt.sharing import Sharing
    from headrace.mqtt.subscriptions import Filter
    from headrace.protocol.mqtt.packets import Acknowledgement, Subscribe, Unsubscribe, Will

    class SessionOwner(HubPort, Protocol):
        """The hub, as the session of a connection sees it."""

        @property
        def retained(self) -> RetainedMessages: ...
        @property
        def store(self) -> SessionStore: ...
        @property
        def sharing(self) -> Sharing: ...

        def left(self, session: LiveSession, will: Will | None, expiry: int | None) -> None: ...


_SHARED_CONSUMER: Final = SHARED_CONSUMER.encode()
_MS: Final = 1_000_000


class LiveSession:
    """The session of one connection.

    `will`: that of its CONNECT. `kept`: deliveries that an earlier connection to this server had under way.
    """

    __slots__ = (
        "_goes_on",
        "_is_present",
        "_kept",
        "_outgoing_made",
        "_owner",
        "_retained_for",
        "_steps",
        "_subscriptions",
        "client",
        "incoming",
        "is_over",
        "stored",
        "will",
    )

    def __init__(
        self,
        owner: SessionOwner,
        client: SessionClient,
        stored: StoredSession,
        *,
        will: Will | None,
        is_present: bool,
        kept: KeptWindow | None,
    ) -> None:
        self._owner = owner
        self.client = client
        self.stored = stored
        self.will = will
        self._is_present = is_present
        self._kept = kept
        self._goes_on = not is_present
        """True once deliveries that were under way before the connection are known."""
        self.is_over = False
        self._steps = InOrder(self._lost)
        self.incoming = IncomingQos2(owner, client, stored.hash, owner.retained, self._operation_lost)
        self._outgoing_made: OutgoingQos2 | None = None
        self._subscriptions = SessionFilters(
            owner, client, stored, self._outgoing, owner.sharing, take_part=self._take_part
        )
        self._retained_for: list[Filter] = []

    def _outgoing(self) -> OutgoingQos2:
        """Return what is known of messages of QoS 2 to the client; made when needed: most get none."""
        made = self._outgoing_made
        if made is None:
            owner, stored = self._owner, self.stored
            made = self._outgoing_made = OutgoingQos2(
                *(owner, self.client, stored.hash, owner.store.window_subject(stored.hash), self._lost),
                is_compiled=self.is_passing,
            )
            if self.is_over:
                made.end()
        return made

    @property
    def stages_qos2(self) -> bool:
        """True if identifiers of QoS 2 are stored before they are used: the session may be resumed."""
        return not self.stored.record.clean

    @property
    def is_passing(self) -> bool:
        """True if the session began with its connection, and ends with it."""
        return self.stored.record.clean and not self._is_present

    # -- SUBSCRIBE and UNSUBSCRIBE ---------------------------------------------------------------------

    def subscribe(self, packet: Subscribe, done: Callable[[list[int]], None]) -> None:
        """Take a SUBSCRIBE; `done` gets its codes once all is stored, and calls `send_retained`."""

        async def steps() -> None:
            codes, self._retained_for = await self._subscriptions.add(packet)
            await self._write()
            if not self.is_over:
                done(codes)

        self._steps.add(steps)

    def unsubscribe(self, packet: Unsubscribe, done: Callable[[list[int]], None]) -> None:
        """Take an UNSUBSCRIBE; `done` gets its codes once all is stored."""

        async def steps() -> None:
            codes = await self._subscriptions.remove(packet)
            await self._write()
            if not self.is_over:
                done(codes)

        self._steps.add(steps)

    def _take_part(self, found: Filter) -> None:
        """The group of a shared filter with QoS 0 has a consumer now: the session takes part in it."""

        async def steps() -> None:
            if not self.is_over and await self._subscriptions.take_part(found):
                await self._write()

        self._steps.add(steps)

    async def _write(self) -> None:
        if not self.is_over:
            await self._owner.store.write(self.stored)

    # -- a connection that goes on with a session ------------------------------------------------------

    def resume(self) -> None:
        """Go on, after CONNACK: subscriptions are made anew, and what waits is sent."""
        if self._is_present:
            self._subscriptions.restore()
            self._steps.add(self._resume)

    async def _resume(self) -> None:
        consumers = await self._subscriptions.restore_consumers()
        if await self._subscriptions.restore_sharing():
            await self._write()
        released = []
        if self._subscriptions.has_releases(consumers):
            released = await self._outgoing().occupy_released()
        kept = self._kept if self._kept is not None else await self._stored_window()
        if self.is_over:
            return
        self._outgoing().settle_released(released, consumers)
        if kept is not None:
            entries = _still_pending(kept.entries, consumers)
            if self._kept is None:
                entries = self._outgoing().without_received(entries, released)
            self.client.link.expect(entries, kept.next_identifier)
            self._outgoing().expect(
                [(identifier, name, sequence) for identifier, qos, name, sequence in entries if qos == QOS_2]
            )
        if self._kept is None:
            self._subscriptions.ask_again(consumers)
        self._kept, self._goes_on = None, True
        self._subscriptions.follow_again()

    async def _stored_window(self) -> KeptWindow | None:
        if self.stored.record.pubrel is None:
            return None
        found = await self._outgoing().load()
        if found is None:
            return None
        entries = [
            (identifier, QOS_2, name.encode(), sequence) for identifier, name, sequence in found.entries
        ]
        return KeptWindow(self.stored.sequence, found.next_identifier, entries)

    # -- retained messages -----------------------------------------------------------------------------

    def send_retained(self) -> None:
        """Send the retained messages of the filters of the last SUBSCRIBE, after its SUBACK."""
        filters, self._retained_for = self._retained_for, []
        for found in filters:
            for _, subject in found.subjects:
                messages = [
                    (literal, message)
                    for literal, message in self._owner.retained.matching(subject)
                    if self.client.may_receive(literal) and not (found.hides_dollar and literal[:1] == b"$")
                ]
                if messages:
                    watch(begin(self._send_retained(found, messages)), self._not_sent)

    async def _send_retained(self, found: Filter, messages: list[tuple[bytes, RetainedMessage]]) -> None:
        for subject, message in messages:
            body = await self._owner.retained.body(subject, message)
            if self.is_over:
                return
            if body is None:
                continue
            lowest = min(found.qos, message.qos)
            identifier = self.client.link.deliver(
                message.topic,
                body[1],
                qos=lowest,
                retain=True,
                headers=body[0],
                subscription=found.identifier,
            )
            if lowest == QOS_2 and identifier:
                self._outgoing().delivered(identifier)

    def _not_sent(self, error: Exception) -> None:
        if isinstance(error, RequestFailed):
            self._owner.log.error("MQTT: unable to load retained messages: %s", str(error))
        else:
            self._owner.failed(error)

    def _not_kept(self, subject: bytes, error: Exception) -> None:
        if isinstance(error, RequestFailed):
            self.client.not_kept(subject, error.why)
        else:
            self._owner.failed(error)

    def retain(self, publication: MqttPublication) -> None:
        """Keep a message that was routed, or forget the one that is kept."""
        more = self._lines(publication)
        if publication.reply:
            more += b"%b:%b\r\n" % (REPLY, publication.reply)
        steps = self._owner.retained.store(
            publication.subject,
            publication.topic,
            publication.flags & 7,
            publication.payload,
            user=self.client.user or "",
            more=more,
        )
        watch(begin(steps), partial(self._not_kept, publication.subject))

    # -- Sparkplug -------------------------------------------------------------------------------------

    def spark(self, publication: MqttPublication) -> None:
        """Take a message of Sparkplug that was routed: the certificate of a birth is published and kept."""
        kept = kept_topic(publication.topic, is_retained=bool(publication.flags & RETAIN))
        if kept is None:
            return
        if kept != publication.topic:
            subject = subject_of_topic(kept, is_filter=False)
            self.client.link.route(subject, published(0, self._lines(publication)), publication.payload)
            flags = publication.flags | RETAIN
            publication = publication._replace(topic=kept, subject=subject, flags=flags)
        self.retain(publication)

    def stamped(self, topic: bytes, payload: bytes) -> bytes:
        """Return the payload of a message as it is delivered now: a death of Sparkplug says the time."""
        if not is_death(topic):
            return payload
        return stamped(payload, self._owner.host.now_ns() // _MS)

    # -- QoS 2 -----------------------------------------------------------------------------------------

    def publication(self, publication: MqttPublication) -> None:
        """Take a PUBLISH of QoS 2."""
        lines = self._lines(publication)
        if publication.flags & RETAIN and self.client.version == VERSION_5:
            lines += RETAIN_LINE
        self.incoming.publication(publication, lines)

    def pubrel(self, packet: Acknowledgement) -> None:
        """Take a PUBREL."""
        self.incoming.pubrel(packet.identifier)

    def pubrec(self, packet: Acknowledgement) -> None:
        """Take a PUBREC."""
        self._outgoing().received(packet)

    def pubcomp(self, packet: Acknowledgement) -> None:
        """Take a PUBCOMP."""
        self._outgoing().completed(packet)

    def heard(self, sid: bytes, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Take a message that the link hears for the session: a PUBREL that is stored."""
        if self._outgoing_made is not None and sid == self._outgoing_made.sid:
            self._outgoing().heard(reply, headers)

    def staged(  # noqa: PLR0917 - as the engine calls it
        self,
        sid: bytes,
        identifier: int,
        name: bytes,
        sequence: int,
        subject: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Take a message of QoS 2 whose identifier is to be stored before it is sent."""
        self._outgoing().staged(sid, identifier, name, sequence, subject, headers, payload)

    def _lines(self, publication: MqttPublication) -> bytes:
        """Return the header lines of a message's properties, with that which no local asks for."""
        record = self.stored.record
        if any(options & NO_LOCAL for options in record.opts.values()):
            return publication.headers + client_line(self.stored.hash)
        return publication.headers

    # -- the end ---------------------------------------------------------------------------------------

    def ended(self, *, will: Will | None, expiry: int | None) -> None:
        """The connection is gone; its link is there still. `will`: is to be published.

        `expiry`: seconds that the session stays, for a client of 5.0.
        """
        if not self.is_over:
            self._owner.left(self, will, expiry)

    def leave(self) -> KeptWindow | None:
        """Stop deliveries to the link; return what is under way, unless the session ends now."""
        self.is_over = True
        self._steps.clear()
        self.incoming.end()
        link, record, outgoing = self.client.link, self.stored.record, self._outgoing_made
        self._subscriptions.stop()
        if outgoing is not None and outgoing.sid:
            link.unsubscribe(outgoing.sid)
        next_identifier = link.next_identifier
        kept = [
            entry
            for entry in link.give_back()
            if not entry[2].startswith(_SHARED_CONSUMER)
            and (outgoing is None or outgoing.may_keep(entry[0], entry[1]))
        ]
        for ack_subject in outgoing.end() if outgoing is not None else ():
            self._owner.host.publish(ack_subject, b"-NAK")
        self._owner.host.announce()
        if record.clean:
            return None
        if not self._goes_on:  # what was kept is as it was
            return self._kept
        if outgoing is not None:
            if outgoing.is_uncertain:  # the stream knows more
                return None
            known = {identifier for identifier, _, _, _ in kept}
            kept += [
                (identifier, QOS_2, name, sequence)
                for identifier, (name, sequence) in outgoing.expected.items()
                if identifier not in known
            ]
        return KeptWindow(self.stored.sequence, next_identifier, kept)

    async def idle(self) -> None:
        """Return when the packets that are worked on are done with."""
        await self._steps.idle()

    def _lost(self, error: Exception) -> None:
        """End the connection: a step has failed that its client relies on."""
        self._end_by(error, str(error))

    def _operation_lost(self, identifier: int, error: Exception) -> None:
        """End the connection: a PUBLISH of QoS 2, or a PUBREL, cannot be answered."""
        why = error.why if isinstance(error, RequestFailed) else str(error)
        self._end_by(error, operation_failed(identifier, why))

    def _end_by(self, error: Exception, line: str) -> None:
        if not isinstance(error, RequestFailed):
            self._owner.failed(error)
        if not self.is_over:
            is_late = isinstance(error, RequestUnanswered)
            self.client.closed_by(Reason.SERVER_BUSY if is_late else Reason.UNSPECIFIED_ERROR, line)


def _still_pending(
    entries: list[tuple[int, int, bytes, int]], consumers: list[ConsumerAnswer]
) -> list[tuple[int, int, bytes, int]]:
    """Leave out deliveries that were acknowledged, or whose consumer is gone."""
    floors = {found.name.encode(): found.ack_floor.stream_seq for found in consumers}
    return [entry for entry in entries if entry[3] > floors.get(entry[2], entry[3])]
