"""A message of QoS 2 that JetStream delivers again although its client has it: it is not sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.mqtt import qos2_outgoing
from headrace.mqtt.qos2_outgoing import OutgoingQos2
from headrace.mqtt.steps import Awaited
from headrace.protocol.mqtt.packets import Acknowledgement

if TYPE_CHECKING:
    import pytest

PLACE = (b"consumer", 41)


class _Parts:
    """The link, the requests and the host of one connection, as far as messages of QoS 2 see them."""

    version = 4
    next_identifier = 9

    def __init__(self) -> None:
        self.link = self.requests = self.host = self
        self.stores: list[Awaited[Any]] = []
        self.forwarded: list[int] = []
        self.dropped: list[int] = []
        self.published: list[bytes] = []

    def settle(self, identifier: int) -> bytes:
        return b"ack %d" % identifier

    def drop(self, identifier: int) -> bytes:
        self.dropped.append(identifier)
        return b"ack %d" % identifier

    def occupy(self, identifier: int) -> None:
        pass

    def forward(self, sid: bytes, identifier: int, *rest: bytes) -> None:
        self.forwarded.append(identifier)

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
