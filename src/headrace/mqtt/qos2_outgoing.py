"""Messages of QoS 2 to a client: what PUBREC, PUBREL and PUBCOMP do, so that the client takes each once.

For a session that ends with its connection this is done in compiled code (`engine.mqtt_releases`). Here it is
done for one that may be resumed. The identifier of a message is stored before the message is sent, and its
PUBREL before the message is acknowledged to JetStream: whatever moment the server dies, the client gets the
same identifier again. The PUBREL says which message it is for, and stays until JetStream confirms that it
knows of the message's acknowledgement for good: it writes acknowledgements a moment later, and a kill takes
some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from headrace.mqtt.consumers import ack_subject
from headrace.mqtt.message_headers import block
from headrace.mqtt.names import (
    MESSAGES,
    OUTGOING,
    RELEASE,
    RELEASE_DELIVER_SUBJECT,
    RELEASE_SUBJECT,
    RELEASED_PLACE,
    SESSIONS,
)
from headrace.mqtt.records import WindowRecord, read_window
from headrace.mqtt.requests import RequestFailed
from headrace.mqtt.steps import begin, watch
from headrace.protocol.jetstream.headers import value
from headrace.protocol.mqtt.packets import VERSION_5, ack
from headrace.protocol.mqtt.properties import PacketKind
from headrace.protocol.mqtt.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.mqtt.ports import HubPort, Releases, SessionClient
    from headrace.mqtt.requests import ConsumerAnswer
    from headrace.protocol.mqtt.packets import Acknowledgement

QOS_2: Final = 2
_MOST_DIGITS: Final = 5
_MOST_SEQUENCE_DIGITS: Final = 20
_BEHIND_CONSUMER: Final = 5
"""Tokens of an ack subject behind the name of its consumer."""
MOST_SETTLED: Final = 4096
"""Messages that a client has received lately: one of them that comes again is not sent again."""


class _Staged(NamedTuple):
    """A message whose identifier is not durable yet."""

    sid: bytes
    identifier: int
    subject: bytes
    headers: bytes
    payload: bytes


class StoredRelease(NamedTuple):
    """A PUBREL that waits in the stream: its client has the message.

    `place`: the consumer and the stream sequence of the message; None where a nats-server has stored it.
    """

    identifier: int
    place: tuple[bytes, int] | None


class OutgoingQos2:
    """The messages of QoS 2 that one connection gets.

    `window_subject`: the subject of the record of identifiers. `lost`: called with an error that ends the
    connection. `is_compiled`: the link does it all, but for what it leaves.
    """

    __slots__ = (
        "_account",
        "_beyond",
        "_client",
        "_completed",
        "_direct",
        "_finishing",
        "_has_ended",
        "_hash",
        "_is_compiled",
        "_is_storing",
        "_lost",
        "_message_acks",
        "_received",
        "_released",
        "_releasing",
        "_sent",
        "_settled",
        "_staged",
        "_unfinished",
        "_unstored",
        "_window_subject",
        "expected",
        "sid",
    )

    def __init__(
        self,
        account: HubPort,
        client: SessionClient,
        client_hash: str,
        window_subject: bytes,
        lost: Callable[[Exception], None],
        *,
        is_compiled: bool = False,
    ) -> None:
        self._account = account
        self._client = client
        self._hash = client_hash
        self._window_subject = window_subject
        self._lost = lost
        self._is_compiled = is_compiled
        self._released: dict[int, bytes] = {}
        self._releasing: set[int] = set()
        self._direct: set[int] = set()
        self._sent: dict[int, tuple[bytes, int]] = {}
        self.expected: dict[int, tuple[bytes, int]] = {}
        self._staged: list[_Staged] = []
        self._unstored: set[int] = set()
        """Identifiers that are not durable yet: their messages were not sent."""
        self._received: dict[tuple[bytes, int], int] = {}
        """Identifiers of messages that the client has received, and that JetStream may not know of."""
        self._beyond: set[tuple[bytes, int]] = set()
        """Received messages that their consumer will send as new ones, if they are there still."""
        self._completed: dict[int, bytes] = {}
        """Ack subjects of PUBRELs that the client has answered, while their messages may come again."""
        self._settled: dict[tuple[bytes, int], bool] = {}
        """Messages that were received on this connection, the oldest first; True: JetStream was told."""
        self._message_acks: dict[int, bytes] = {}
        """Ack subjects of messages whose PUBREL is stored, by the identifier."""
        self._finishing: dict[bytes, list[tuple[bytes, bytes]]] = {}
        """Ack subjects of messages and PUBRELs that wait while their consumer confirms what came before."""
        self._unfinished: set[bytes] = set()
        """Ack subjects of PUBRELs that the client has answered, and that are not acknowledged yet."""
        self._is_storing = False
        self._has_ended = False
        self.sid = b""

    @property
    def _releases(self) -> Releases:
        return self._client.link.releases

    def listen(self) -> None:
        """Listen to the PUBRELs that the session's consumer delivers."""
        if not self.sid:
            subject = RELEASE_DELIVER_SUBJECT + self._hash.encode()
            self.sid = self._client.link.hear(subject, releases=self._is_compiled)

    def end(self) -> list[bytes]:
        """The connection is gone; return the JetStream ack subjects of PUBRELs that nobody has answered."""
        self._has_ended = True
        self._staged.clear()
        return [*self._released.values(), *self._completed.values(), *self._unfinished]

    def may_keep(self, identifier: int, qos: int) -> bool:
        """True if the next connection may use the identifier of a delivery: one of QoS 2 is to be durable."""
        return qos != QOS_2 or (identifier in self._sent and identifier not in self._unstored)

    @property
    def is_uncertain(self) -> bool:
        """True if the stream knows more of the session than this connection can hand on."""
        return bool(self._received)

    def delivered(self, identifier: int) -> None:
        """Note a message of QoS 2 that no consumer stands behind."""
        if not self._is_compiled:
            self._direct.add(identifier)

    # -- identifiers -----------------------------------------------------------------------------------

    async def occupy_released(self) -> list[StoredRelease]:
        """Occupy the identifiers whose PUBRELs wait in the stream: their client holds them still.

        Raises: RequestFailed.
        """
        released: list[StoredRelease] = []
        sequence = 0
        subject = RELEASE_SUBJECT + self._hash.encode()
        while (found := await self._account.requests.load_next(OUTGOING, sequence + 1, subject)) is not None:
            sequence = found.sequence
            identifier = _identifier_of(found.headers)
            if identifier and not self._has_ended:
                released.append(StoredRelease(identifier, _place_of(found.headers)))
                self._client.link.occupy(identifier)
        return released

    def settle_released(self, released: list[StoredRelease], consumers: list[ConsumerAnswer]) -> None:
        """Acknowledge messages whose PUBREL is stored to consumers that may not know of it.

        One that its consumer has not sent, as far as that knows, is acknowledged when it comes.
        """
        by_name = {found.name.encode(): found for found in consumers}
        for identifier, place in released:
            found = by_name.get(place[0]) if place is not None else None
            if place is None or found is None:
                continue
            if place[1] > found.delivered.stream_seq:
                self._received[place] = identifier
                self._beyond.add(place)
                continue
            self._settled[place] = True
            self._message_acks[identifier] = subject = ack_subject(MESSAGES, found, place[1])
            if place[1] > found.ack_floor.stream_seq:
                self._acknowledge(subject)

    def without_received(
        self, entries: list[tuple[int, int, bytes, int]], released: list[StoredRelease]
    ) -> list[tuple[int, int, bytes, int]]:
        """Leave out deliveries whose PUBREL is stored: their messages are not sent when they come again.

        The server died between storing the one and acknowledging the other.
        """
        places = {release.place for release in released}
        unplaced = {release.identifier for release in released if release.place is None}
        self._received |= {
            (name, sequence): identifier
            for identifier, _, name, sequence in entries
            if identifier in unplaced
        }
        return [entry for entry in entries if entry[0] not in unplaced and entry[2:] not in places]

    async def load(self) -> WindowRecord | None:
        """Return the stored identifiers of the session. Raises: RequestFailed."""
        found = await self._account.requests.load_last(SESSIONS, self._window_subject)
        return None if found is None else read_window(found.payload)

    def expect(self, entries: list[tuple[int, bytes, int]]) -> None:
        """Know identifiers used before the connection: each with its consumer and stream sequence."""
        for identifier, name, sequence in entries:
            self.expected[identifier] = self._sent[identifier] = (name, sequence)

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
        """Send a message once its identifier is stored."""
        if self._beyond:
            self._pass_over(name, sequence)
        received_as = self._received.pop((name, sequence), None)
        if received_as is not None:
            self._swallow(identifier, received_as)
            return
        was_told = self._settled.get((name, sequence))
        if (
            was_told is not None
        ):  # ack_wait was over while the PUBREL was stored, or its acknowledgement under way
            ack_subject = self._client.link.drop(identifier)
            if was_told:
                self._acknowledge(ack_subject)
            return
        self._sent[identifier] = (name, sequence)
        self._staged.append(_Staged(sid, identifier, subject, headers, payload))
        self._unstored.add(identifier)
        if not self._is_storing:
            self._is_storing = True
            watch(begin(self._store_identifiers()), self._lost)

    def _pass_over(self, name: bytes, sequence: int) -> None:
        """Expect nothing more of a consumer below a sequence that it sends now.

        Its new messages come in order: what has not come was removed before the server died.
        """
        for place in [one for one in self._beyond if one[0] == name and one[1] <= sequence]:
            self._beyond.discard(place)
            if place[1] < sequence:
                self._acknowledge(self._completed.pop(self._received.pop(place), b""))

    def _swallow(self, identifier: int, received_as: int) -> None:
        """Acknowledge a message that its client has received, under another identifier, already."""
        message_ack = self._client.link.drop(identifier)
        self._acknowledge(message_ack)
        release_ack = self._completed.pop(received_as, b"")
        if release_ack:
            self._finish(message_ack, release_ack)
        else:
            self._message_acks[received_as] = message_ack

    async def _store_identifiers(self) -> None:
        try:
            while self._staged and not self._has_ended:
                batch, self._staged = self._staged, []
                known = [(identifier, *place) for identifier, place in self._sent.items()]
                known += [(identifier, *place) for place, identifier in self._received.items()]
                record = WindowRecord(
                    self._client.link.next_identifier,
                    [(identifier, name.decode(), sequence) for identifier, name, sequence in known],
                )
                await self._account.requests.store(self._window_subject, b"", msgspec.json.encode(record))
                if self._has_ended:
                    return
                for message in batch:
                    self._unstored.discard(message.identifier)
                    self._client.link.forward(
                        message.sid, message.identifier, message.subject, message.headers, message.payload
                    )
        finally:
            self._is_storing = False

    # -- PUBREC ----------------------------------------------------------------------------------------

    def received(self, packet: Acknowledgement) -> None:
        """Take a PUBREC."""
        identifier = packet.identifier
        if self._is_compiled and not packet.reason.is_failure and self._releases.receive(identifier):
            return
        ack_subject = self._client.link.settle(identifier)
        if packet.reason.is_failure:
            self._forget(identifier)
            self._acknowledge(ack_subject)
            return
        if identifier in self._released:
            self._acknowledge(ack_subject)
            self._client.link.occupy(identifier)
            self._send_release(identifier)
        elif ack_subject:
            self._client.link.occupy(identifier)
            self._releasing.add(identifier)
            self._settle(identifier, was_told=False)
            watch(begin(self._store_release(identifier, ack_subject)), self._lost)
        elif identifier in self._direct:
            self._client.link.occupy(identifier)
            self._send_release(identifier)
        elif identifier not in self._releasing:
            self._send_release(identifier, Reason.PACKET_IDENTIFIER_NOT_FOUND)

    def _settle(self, identifier: int, *, was_told: bool) -> None:
        """Note a message that the client has received."""
        place = self._sent.get(identifier)
        if place is None:
            return
        self._settled[place] = was_told
        if len(self._settled) > MOST_SETTLED:
            del self._settled[next(iter(self._settled))]

    async def _store_release(self, identifier: int, ack_subject: bytes) -> None:
        lines = [(RELEASE, b"%d" % identifier)]
        place = self._sent.get(identifier)
        if place is not None:
            lines.append((RELEASED_PLACE, b"%b %d" % place))
        await self._account.requests.store(RELEASE_SUBJECT + self._hash.encode(), block(*lines), b"")
        self._releasing.discard(identifier)
        self._settle(identifier, was_told=True)
        self._sent.pop(identifier, None)
        self.expected.pop(identifier, None)
        self._message_acks[identifier] = ack_subject
        self._acknowledge(ack_subject)

    # -- PUBREL and PUBCOMP ----------------------------------------------------------------------------

    def heard(self, reply: bytes, headers: bytes) -> None:
        """Send a PUBREL that the session's consumer delivers."""
        identifier = _identifier_of(headers)
        if not identifier:
            self._account.log.warning("MQTT: a stored PUBREL names no packet identifier: %r", headers)
            self._acknowledge(reply)
            return
        is_known = identifier in self._released
        self._released[identifier] = reply
        self._client.link.occupy(identifier)
        if not is_known or self._client.version != VERSION_5:
            self._send_release(identifier)

    def completed(self, packet: Acknowledgement) -> None:
        """Take a PUBCOMP."""
        if self._is_compiled and self._releases.finish(packet.identifier):
            return
        self._forget(packet.identifier)
        self._client.link.settle(packet.identifier)
        ack_subject = self._released.pop(packet.identifier, b"")
        message_ack = self._message_acks.pop(packet.identifier, b"")
        if packet.identifier in self._received.values():  # until the message comes only the PUBREL says so
            self._completed[packet.identifier] = ack_subject
        elif message_ack and ack_subject:
            self._finish(message_ack, ack_subject)
        else:
            self._acknowledge(ack_subject)

    def _finish(self, message_ack: bytes, release_ack: bytes) -> None:
        """Acknowledge a PUBREL once JetStream has confirmed that its message is acknowledged."""
        self._unfinished.add(release_ack)
        consumer = message_ack.rsplit(b".", _BEHIND_CONSUMER)[0]
        waiting = self._finishing.get(consumer)
        if waiting is not None:
            waiting.append((message_ack, release_ack))
            return
        self._finishing[consumer] = [(message_ack, release_ack)]
        watch(begin(self._confirm(consumer)), self._lost)

    async def _confirm(self, consumer: bytes) -> None:
        """Acknowledge PUBRELs of one consumer's messages: one answer for all that wait at a time.

        Raises: RequestFailed where JetStream does not answer: they stay, for their messages may come again.
        """
        while batch := self._finishing[consumer]:
            self._finishing[consumer] = []
            try:
                await self._account.requests.ask(b"AK", batch[-1][0], b"")
            except RequestFailed:
                name = consumer.rpartition(b".")[2].decode()
                if await self._account.requests.consumer(MESSAGES, name) is not None:
                    raise  # else nothing of it comes again
            if self._has_ended:
                return
            for _, release_ack in batch:
                self._unfinished.discard(release_ack)
                self._account.host.publish(release_ack, b"")
            self._account.host.announce()
        del self._finishing[consumer]

    def _forget(self, identifier: int) -> None:
        self._direct.discard(identifier)
        self._sent.pop(identifier, None)
        self.expected.pop(identifier, None)

    def _send_release(self, identifier: int, reason: Reason = Reason.SUCCESS) -> None:
        self._client.send(ack(PacketKind.PUBREL, self._client.version, identifier, reason))

    def _acknowledge(self, ack_subject: bytes) -> None:
        if ack_subject:
            self._account.host.publish(ack_subject, b"")
            self._account.host.announce()


def _identifier_of(headers: bytes) -> int:
    """Return the packet identifier of a stored PUBREL; 0 for what is none."""
    text = value(headers, RELEASE)
    identifier = int(text) if text.isdigit() and len(text) <= _MOST_DIGITS else 0
    return identifier if identifier < 1 << 16 else 0


def _place_of(headers: bytes) -> tuple[bytes, int] | None:
    """Return the consumer and the stream sequence of the message that a stored PUBREL is for."""
    name, _, sequence = value(headers, RELEASED_PLACE).partition(b" ")
    return (name, int(sequence)) if sequence.isdigit() and len(sequence) <= _MOST_SEQUENCE_DIGITS else None
