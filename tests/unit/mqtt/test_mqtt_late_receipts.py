"""A message of QoS 2 that JetStream delivers again although its client has it: it is not sent again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.mqtt import qos2_outgoing
from headrace.mqtt.message_headers import block
from headrace.mqtt.names import MESSAGES, RELEASE, RELEASED_PLACE
from headrace.mqtt.qos2_outgoing import OutgoingQos2, StoredRelease
from headrace.mqtt.requests import ConsumerAnswer, RequestFailed
from headrace.mqtt.steps import Awaited
from headrace.protocol.mqtt.packets import Acknowledgement

PLACE = (b"consumer", 41)


class _Parts:
    """The link, the requests and the host of one connection, as far as messages of QoS 2 see them."""

    version = 4
    next_identifier = 9
    acks = b"ack %d"

    def __init__(self) -> None:
        self.link = self.requests = self.host = self
        self.stores: list[Awaited[Any]] = []
        self.forwarded: list[int] = []
        self.dropped: list[int] = []
        self.published: list[bytes] = []
        self.asked: list[tuple[bytes, Awaited[bytes]]] = []
        self.consumers: set[str] = set()
        """Names of consumers that are there."""

    def settle(self, identifier: int) -> bytes:
        return self.acks % identifier

    def drop(self, identifier: int) -> bytes:
        self.dropped.append(identifier)
        return b"ack %d" % identifier

    def occupy(self, identifier: int) -> None:
        pass

    def forward(self, sid: bytes, identifier: int, *rest: bytes) -> None:
        self.forwarded.append(identifier)

    async def ask(self, _kind: bytes, subject: bytes, _payload: bytes) -> bytes:
        confirmed: Awaited[bytes] = Awaited()
        self.asked.append((subject, confirmed))
        return await confirmed

    async def consumer(self, stream: str, name: str) -> object:
        assert stream == MESSAGES
        return self if name in self.consumers else None

    async def store(self, *_: bytes) -> None:
        stored: Awaited[Any] = Awaited()
        self.stores.append(stored)
        await stored

    def publish(self, subject: bytes, payload: bytes) -> None:
        self.published.append(subject)

    def announce(self) -> None:
        pass

    def send(self, data: bytes) -> None:
        pass


def made() -> tuple[_Parts, OutgoingQos2]:
    parts = _Parts()

    def lost(error: Exception) -> None:
        raise error

    return parts, OutgoingQos2(parts, parts, "hash", b"window", lost)  # type: ignore[arg-type]


def stage(outgoing: OutgoingQos2, identifier: int, place: tuple[bytes, int] = PLACE) -> None:
    outgoing.staged(b"sid", identifier, *place, b"t", b"", b"x")


def test_a_message_that_comes_again_while_its_release_is_stored_is_dropped() -> None:
    parts, outgoing = made()
    stage(outgoing, 1)
    parts.stores.pop().give(None)
    outgoing.received(Acknowledgement(1))

    stage(outgoing, 2)

    assert (parts.forwarded, parts.dropped) == ([1], [2])
    assert parts.published == [], "its release would be lost with the server"
    parts.stores.pop().give(None)
    assert parts.published == [b"ack 1"]


def test_a_message_that_comes_again_behind_its_acknowledgement_is_acknowledged_again() -> None:
    parts, outgoing = made()
    stage(outgoing, 1)
    parts.stores.pop().give(None)
    outgoing.received(Acknowledgement(1))
    parts.stores.pop().give(None)

    stage(outgoing, 2)

    assert (parts.forwarded, parts.dropped) == ([1], [2])
    assert parts.published == [b"ack 1", b"ack 2"]


def answer(*, delivered: int, floor: int) -> ConsumerAnswer:
    """What a consumer says that has sent and settled messages up to these sequences."""
    fields = {"delivered": {"stream_seq": delivered}, "ack_floor": {"stream_seq": floor}}
    return msgspec.convert({"name": "consumer", **fields}, ConsumerAnswer)


@pytest.mark.parametrize(("delivered", "floor", "told"), [(50, 40, 1), (50, 41, 0)])
def test_a_message_whose_release_is_stored_is_acknowledged_if_it_may_be_pending(
    delivered: int, floor: int, told: int
) -> None:
    parts, outgoing = made()
    release = StoredRelease(7, PLACE)
    outgoing.settle_released([release], [answer(delivered=delivered, floor=floor)])
    assert parts.published == [b"$JS.ACK.$MQTT_msgs.consumer.1.41.0.1.0"] * told
    assert not outgoing.is_uncertain

    entries = [(7, 2, *PLACE), (8, 2, b"consumer", 42)]
    assert outgoing.without_received(entries, [release]) == entries[1:]
    outgoing.completed(Acknowledgement(7))


def test_a_message_whose_release_is_stored_is_acknowledged_when_it_comes_as_a_new_one() -> None:
    parts, outgoing = made()
    outgoing.settle_released([StoredRelease(7, PLACE)], [answer(delivered=40, floor=40)])
    assert parts.published == []
    assert outgoing.is_uncertain

    stage(outgoing, 9)

    assert (parts.forwarded, parts.dropped, parts.published) == ([], [9], [b"ack 9"])
    assert not outgoing.is_uncertain


@pytest.mark.parametrize("is_answered_before", [True, False])
def test_a_message_that_was_removed_before_the_kill_is_not_waited_for(is_answered_before: bool) -> None:
    parts, outgoing = made()
    outgoing.settle_released([StoredRelease(7, PLACE)], [answer(delivered=40, floor=40)])
    outgoing.heard(b"release 7", block((RELEASE, b"7")))
    if is_answered_before:
        outgoing.completed(Acknowledgement(7))
        assert parts.published == []

    stage(outgoing, 8, (b"another", 99))
    assert outgoing.is_uncertain
    stage(outgoing, 9, (b"consumer", 42))
    parts.stores.pop().give(None)

    assert not outgoing.is_uncertain
    outgoing.completed(Acknowledgement(7))
    assert parts.published == [b"release 7"]


def test_a_release_without_a_place_or_of_a_consumer_that_is_gone_settles_nothing() -> None:
    parts, outgoing = made()
    released = [StoredRelease(7, None), StoredRelease(8, (b"gone", 1))]
    outgoing.settle_released(released, [answer(delivered=50, floor=1)])
    assert parts.published == []

    assert outgoing.without_received([(7, 2, *PLACE)], released) == []
    stage(outgoing, 9)
    assert (parts.forwarded, parts.dropped, parts.published) == ([], [9], [b"ack 9"])


@pytest.mark.parametrize("text", [b"", b"consumer", b"consumer x", b"consumer -1", b"consumer " + b"1" * 21])
def test_a_place_that_is_none_is_not_read(text: bytes) -> None:
    headers = block((RELEASE, b"7"), (RELEASED_PLACE, text))
    assert qos2_outgoing._place_of(headers) is None
    assert qos2_outgoing._place_of(block((RELEASED_PLACE, b"consumer 41"))) == PLACE


def received(parts: _Parts, outgoing: OutgoingQos2, identifier: int) -> None:
    """A message that the client has, and whose PUBREL it has answered."""
    stage(outgoing, identifier, (b"consumer", identifier))
    parts.stores.pop().give(None)
    outgoing.received(Acknowledgement(identifier))
    parts.stores.pop().give(None)
    outgoing.heard(b"release %d" % identifier, block((RELEASE, b"%d" % identifier)))
    outgoing.completed(Acknowledgement(identifier))


def test_a_release_stays_until_the_acknowledgement_of_its_message_is_confirmed() -> None:
    """A kill takes acknowledgements of the last moment: without its PUBREL the message would come again."""
    parts, outgoing = made()
    parts.acks = b"$JS.ACK.stream.consumer.1.%d.1.0.0"
    for identifier in (1, 2, 3):
        received(parts, outgoing, identifier)
    assert parts.published == [parts.acks % identifier for identifier in (1, 2, 3)]

    ((subject, confirmed),) = parts.asked
    assert subject == parts.acks % 1
    confirmed.give(b"")
    assert parts.published[3:] == [b"release 1"]

    (subject, confirmed) = parts.asked[-1]
    assert (subject, len(parts.asked)) == (parts.acks % 3, 2), "one answer for all that waited"
    assert set(outgoing.end()) == {b"release 2", b"release 3"}, "they come again with the next connection"
    confirmed.give(b"")
    assert parts.published[4:] == []


def test_a_consumer_that_is_gone_confirms_nothing_and_releases_go() -> None:
    parts, outgoing = made()
    received(parts, outgoing, 1)
    parts.asked.pop()[1].fail(RequestFailed("timeout"))
    assert parts.published == [b"ack 1", b"release 1"]
    assert outgoing.end() == []


def test_a_release_stays_where_its_consumer_is_there_and_does_not_confirm() -> None:
    """It may send the message again after a kill; the connection ends, and the next one asks again."""
    parts, outgoing = made()
    parts.acks = b"$JS.ACK.stream.consumer.1.%d.1.0.0"
    parts.consumers.add("consumer")
    received(parts, outgoing, 1)
    with pytest.raises(RequestFailed, match="timeout"):
        parts.asked.pop()[1].fail(RequestFailed("timeout"))
    assert parts.published == [parts.acks % 1]
    assert outgoing.end() == [b"release 1"]


def test_an_identifier_is_kept_for_the_next_connection_once_it_is_stored() -> None:
    parts, outgoing = made()
    assert outgoing.may_keep(1, qos=1)
    assert not outgoing.may_keep(1, qos=2), "the session has not heard of it yet"
    stage(outgoing, 1)
    assert not outgoing.may_keep(1, qos=2)
    parts.stores.pop().give(None)
    assert outgoing.may_keep(1, qos=2)


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qos2_outgoing, "MOST_SETTLED", 3)
    parts, outgoing = made()
    for number in range(1, 6):
        stage(outgoing, number, (b"consumer", number))
        parts.stores.pop().give(None)
        outgoing.received(Acknowledgement(number))
        parts.stores.pop().give(None)

    stage(outgoing, 6, (b"consumer", 1))
    parts.stores.pop().give(None)
    stage(outgoing, 7, (b"consumer", 5))

    assert (parts.forwarded[-1], parts.dropped) == (6, [7])
