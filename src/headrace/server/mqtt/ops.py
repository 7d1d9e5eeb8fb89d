"""The packets of one client that the engine hands over: CONNECT, SUBSCRIBE, QoS 2, DISCONNECT, and errors.

Here live reading them, their order, and their answers; what they mean for the account is the hub's
(`headrace.mqtt`). While the hub works for CONNECT, SUBSCRIBE or UNSUBSCRIBE nothing more is parsed, so that
packets are answered in order. The list of calls is at the head of `engine/mqtt.pyx`.
Source: OASIS MQTT 3.1.1 and 5.0; texts and closes of 3.1.1 are nats-server's 2.15.1.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.engine.reasons import CloseReason
from headrace.mqtt.requests import failure_of, operation_failed
from headrace.protocol.info import ClientConnect
from headrace.protocol.mqtt.packets import (
    VERSION_5,
    ack,
    read_ack,
    read_auth,
    read_connect,
    read_disconnect,
    read_subscribe,
    read_unsubscribe,
    refusing_connack,
    suback,
    unsuback,
)
from headrace.protocol.mqtt.properties import PacketKind
from headrace.protocol.mqtt.reasons import MqttError, Reason
from headrace.server.client_ops import ClientOps
from headrace.server.mqtt.greeting import (
    connack_of,
    keep_alive_of,
    limited_expiry,
    session_expiry_of,
)
from headrace.server.mqtt.store_deadline import StoreDeadline
from headrace.server.mqtt.traces import (
    acknowledgement_text,
    connack_text,
    connect_text,
    subscribe_text,
    unsubscribe_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.engine.mqtt import MqttPublication
    from headrace.mqtt.hub import Accepted
    from headrace.mqtt.session import LiveSession
    from headrace.protocol.mqtt.packets import Connect, Subscribe, Unsubscribe
    from headrace.server.auth import Identity
    from headrace.server.mqtt.session import MqttSession

_QOS_2: Final = 2


class MqttOps(ClientOps):
    """The session of a link over MQTT, as the engine calls it."""

    __slots__ = ()

    connection: MqttSession

    def packet(self, kind: int, flags: int, body: bytes) -> None:
        """Take a packet that is not PUBLISH, PUBACK or PINGREQ, and whose framing is right."""
        try:
            _TAKE[kind](self, body)
        except MqttError as error:
            self.violation(error.text, error.reason)

    # -- CONNECT ----------------------------------------------------------------------------------

    def _connect(self, body: bytes) -> None:
        session = self.connection
        if session.connect is not None:
            raise MqttError("received a second CONNECT packet", Reason.PROTOCOL_ERROR)
        options = session.access.options
        try:
            connect = read_connect(
                body, max_version=options.max_level, rejects_qos2=options.reject_qos2_publish
            )
        except MqttError as error:
            self._refuse_connect(error)
            return
        session.began(connect)
        if session.link.traced:
            self._trace_line("<<-", connect_text(connect, session.client_id))
        self._judge(self._credentials(connect).completed(session.stand_ins))

    def _credentials(self, connect: Connect) -> ClientConnect:
        """The CONNECT of NATS that has the same user; a token, or a JWT, is in the password."""
        user, password = _text(connect.user), _text(connect.password)
        server_options = self._server.options
        return ClientConnect(
            verbose=False,
            pedantic=False,
            headers=True,
            protocol=0,
            user=user,
            password=password,
            auth_token=password,
            jwt=password if server_options.operator is not None else "",
            version=str(VERSION_5) if connect.version == VERSION_5 else "",
        )

    def _begin(self, identity: Identity) -> None:
        """Ask the hub of the account for the session of this client."""
        session = self.connection
        connect, account = session.connect, session.account
        assert connect is not None, "it was read"
        assert account is not None, "it has a place"
        session.let_in(identity)
        session.wait()
        session.access.hubs.of(account).connect(session, connect, self._connected)

    def _connected(self, result: Accepted | MqttError) -> None:
        """Go on with a CONNECT that the hub has worked for."""
        session = self.connection
        session.is_waiting = False
        is_over = session.is_closed or session.link.is_closing
        if isinstance(result, MqttError):
            if not is_over:
                self._refuse_connect(result)
            return
        if is_over:
            result.session.ended(will=session.will, expiry=None)
            return
        connect, options = session.connect, session.access.options
        assert connect is not None, "the hub has worked for it"
        session.expiry = session_expiry_of(connect, options)
        session.link.accept_connect(
            version=connect.version,
            client_hash=result.client_hash,
            store_reply=result.store_reply,
            stages_qos2=result.stages_qos2,
            staging_subject=result.staging_subject,
            removal_subject=result.removal_subject,
            release_subject=result.release_subject,
            receive_maximum=connect.properties.receive_maximum or 65535,
            maximum_packet=connect.properties.maximum_packet_size or 0,
            topic_alias_maximum=options.topic_alias_maximum,
            topic_alias_maximum_out=connect.properties.topic_alias_maximum or 0,
            receive_maximum_in=options.receive_maximum,
            rejects_qos2=options.reject_qos2_publish,
        )
        session.send(
            connack_of(
                connect,
                options,
                client_id=session.client_id,
                is_present=result.session_present,
                max_payload=session.link.max_payload,
            )
        )
        if session.link.traced:
            self._trace_line("->>", connack_text(0, is_present=result.session_present))
        session.accepted(result.session, keep_alive_of(connect, options))
        self._server.events.connected(session)
        result.session.resume()
        session.go_on()

    def _refuse_connect(self, error: MqttError) -> None:
        session = self.connection
        if error.client_id and not session.client_id:
            session.named(error.client_id)
        if session.connect is not None:
            error.version = session.connect.version
        self.error(f"unable to connect: {error.text}" if session.connect is not None else error.text)
        session.link.send(refusing_connack(error))
        session.link.doom(CloseReason.PROTOCOL_VIOLATION)
        self._server.ticks.wake()

    # -- SUBSCRIBE and UNSUBSCRIBE ----------------------------------------------------------------

    def _subscribe(self, body: bytes) -> None:
        session = self.connection
        packet = read_subscribe(body, session.version)
        if session.link.traced:
            self._trace_line("<<-", subscribe_text(packet))
        session.wait()
        self._stored.subscribe(packet, partial(self._subscribed, packet))

    def _subscribed(self, packet: Subscribe, codes: list[int]) -> None:
        if not self._has_answer:
            return
        session = self.connection
        if session.link.traced:
            self._trace_line("->>", f"SUBACK pi={packet.identifier} rc={codes}")
        session.send(suback(session.version, packet.identifier, codes))
        self._stored.send_retained()
        session.go_on()

    def _unsubscribe(self, body: bytes) -> None:
        session = self.connection
        packet = read_unsubscribe(body, session.version)
        if session.link.traced:
            self._trace_line("<<-", unsubscribe_text(packet))
        session.wait()
        self._stored.unsubscribe(packet, partial(self._unsubscribed, packet))

    def _unsubscribed(self, packet: Unsubscribe, codes: list[int]) -> None:
        if not self._has_answer:
            return
        session = self.connection
        if session.link.traced:
            self._trace_line("->>", f"UNSUBACK pi={packet.identifier}")
        session.send(unsuback(session.version, packet.identifier, codes))
        session.go_on()

    @property
    def _has_answer(self) -> bool:
        """Note that the hub has done its work; True if the client is still there to hear of it."""
        self.connection.is_waiting = False
        return self.connection.stored is not None and not self.connection.link.is_closing

    @property
    def _stored(self) -> LiveSession:
        stored = self.connection.stored
        assert stored is not None, "the engine takes nothing before CONNACK"
        return stored

    # -- acknowledgements, DISCONNECT, AUTH -------------------------------------------------------

    def _acknowledged(self, kind: PacketKind, body: bytes) -> None:
        found = read_ack(kind, body, self.connection.version)
        if self.connection.link.traced:
            self._trace_line("<<-", acknowledgement_text(kind, found))
        stored = self._stored
        if kind is PacketKind.PUBREC:
            stored.pubrec(found)
        elif kind is PacketKind.PUBREL:
            stored.pubrel(found)
        else:
            stored.pubcomp(found)

    def _disconnect(self, body: bytes) -> None:
        session = self.connection
        connect = session.connect
        assert connect is not None, "the engine takes nothing before CONNACK"
        packet = read_disconnect(body, session.version)
        if session.link.traced:
            self._trace_line("<<-", f"DISCONNECT rc={packet.reason}" if packet.reason else "DISCONNECT")
        expiry = packet.properties.session_expiry
        if expiry is not None:
            if expiry and not connect.properties.session_expiry:
                raise MqttError("session expiry cannot be set by DISCONNECT", Reason.PROTOCOL_ERROR)
            session.expiry = limited_expiry(expiry, session.access.options)
        session.has_left = True
        if packet.reason != Reason.DISCONNECT_WITH_WILL:
            session.will = None
        session.link.doom(CloseReason.CLIENT_CLOSED)

    def _auth(self, body: bytes) -> None:
        read_auth(body)
        raise MqttError("AUTH without an authentication method", Reason.PROTOCOL_ERROR)

    # -- publications -----------------------------------------------------------------------------

    def publication(self, publication: MqttPublication) -> None:
        """Take a message of QoS 2."""
        self._stored.publication(publication)

    def retain(self, publication: MqttPublication) -> None:
        """Keep a message that was routed already, or forget the one that is kept."""
        self._stored.retain(publication)

    def spark(self, publication: MqttPublication) -> None:
        """Hand over a message of Sparkplug that was routed already."""
        self._stored.spark(publication)

    def stamped(self, topic: bytes, payload: bytes) -> bytes:
        """Return the payload of a death of Sparkplug as it is delivered now."""
        return self._stored.stamped(topic, payload)

    def heard(self, sid: bytes, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Hand a message that the session listens for to it."""
        self._stored.heard(sid, subject, reply, headers, payload)

    def caught_up(self) -> None:
        """Read on: what was published before is stored now, so what stands behind it may be taken."""
        self.connection.go_on()

    def staged(self, sid: bytes, identifier: int, *delivery: Any) -> None:
        """Hand over a message of QoS 2 that waits until its identifier is stored.

        `delivery`: name of the consumer, sequence, subject, headers, payload.
        """
        self._stored.staged(sid, identifier, *delivery)

    # What compiled code says of messages of QoS 2 from the client.

    def keep(self, identifier: int, *published: Any) -> None:
        """Keep a message of QoS 2 that was published: subject, flags, payload, header lines, reply."""
        self._stored.incoming.keep(identifier, *published)

    def released(self, identifier: int) -> None:
        """Hand over a PUBREL of a message that compiled code does not have."""
        self._stored.incoming.released(identifier)

    def stage_failed(self, identifier: int, answer: bytes) -> None:
        """Hand over what JetStream says of a message of QoS 2 that is not staged."""
        self._stored.incoming.stage_failed(identifier, answer)

    def release_failed(self, identifier: int, answer: bytes) -> None:
        """Hand over what JetStream says of a message of QoS 2 that is not published, or not deleted."""
        self._stored.incoming.release_failed(identifier, answer)

    def watch(self) -> None:
        """Look after answers of JetStream that do not come."""
        self._stored.incoming.watch()

    def refused(self, identifier: int, qos: int) -> None:
        """Tell a client of 5.0 that it may not publish there."""
        kind = PacketKind.PUBREC if qos == _QOS_2 else PacketKind.PUBACK
        session = self.connection
        session.link.send(ack(kind, session.version, identifier, Reason.NOT_AUTHORIZED))

    def stores(self) -> None:
        """Look after a message of QoS 1, which JetStream is to acknowledge in time."""
        session = self.connection
        if session.store_deadline is None:
            session.store_deadline = StoreDeadline(session, self._server.deadlines)
        session.store_deadline.begin()

    def store_failed(self, identifier: int, payload: bytes) -> None:
        """Say that a message of QoS 1 was not stored: in 3.1.1 there is no other way than the end."""
        session, why = self.connection, failure_of(payload, "").why
        if session.version == VERSION_5:
            self.error(f"unable to store a message of QoS 1 (pi={identifier}): {why}")
            session.link.send(ack(PacketKind.PUBACK, VERSION_5, identifier, Reason.UNSPECIFIED_ERROR))
        else:
            self.error(operation_failed(identifier, why))
            session.end_with(Reason.UNSPECIFIED_ERROR, CloseReason.PROTOCOL_VIOLATION)

    # -- errors -----------------------------------------------------------------------------------

    def violation(self, text: str, reason: int) -> None:
        """End a connection that broke the protocol."""
        self.error(text)
        code = Reason(reason)
        too_large = code == Reason.PACKET_TOO_LARGE
        why = CloseReason.MAX_PAYLOAD_EXCEEDED if too_large else CloseReason.PROTOCOL_VIOLATION
        self.connection.end_with(code, why, text)

    def subscribe_permission(self, subject: bytes, queue: bytes | None) -> int:
        """0 refused, 1 allowed, 2 allowed but each delivery is checked."""
        return self.connection.permissions.subscribe_permission(subject, queue)


_TAKE: Final[dict[int, Callable[[MqttOps, bytes], None]]] = {
    PacketKind.CONNECT: MqttOps._connect,
    PacketKind.PUBREC: lambda ops, body: ops._acknowledged(PacketKind.PUBREC, body),
    PacketKind.PUBREL: lambda ops, body: ops._acknowledged(PacketKind.PUBREL, body),
    PacketKind.PUBCOMP: lambda ops, body: ops._acknowledged(PacketKind.PUBCOMP, body),
    PacketKind.SUBSCRIBE: MqttOps._subscribe,
    PacketKind.UNSUBSCRIBE: MqttOps._unsubscribe,
    PacketKind.DISCONNECT: MqttOps._disconnect,
    PacketKind.AUTH: MqttOps._auth,
}
"""The takers of packets, by their type."""


def _text(given: bytes | None) -> str:
    """A user name or a password; bytes that are no text match no configured one."""
    return "" if given is None else given.decode("utf-8", "surrogateescape")
