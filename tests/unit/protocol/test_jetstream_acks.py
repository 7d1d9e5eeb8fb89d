"""Acknowledgements: their subjects in both forms, and their bodies."""

from __future__ import annotations

import pytest

from headrace.protocol.jetstream.acks import (
    AckBody,
    AckKind,
    AckSubject,
    nak_delay,
    parse_ack,
    parse_body,
)

SUBJECT = AckSubject(b"S", b"C", 2, 30, 4, 5_000, 6)


def test_subject_in_its_short_form() -> None:
    assert parse_ack(b"$JS.ACK.S.C.2.30.4.5000.6") == SUBJECT


@pytest.mark.parametrize(
    "subject",
    [
        b"$JS.ACK._.hash.S.C.2.30.4.5000.6",
        b"$JS.ACK.hub.hash.S.C.2.30.4.5000.6.random",
        b"$JS.ACK.hub.hash.S.C.2.30.4.5000.6.random.more",
    ],
)
def test_long_subject_says_the_same(subject: bytes) -> None:
    assert parse_ack(subject) == SUBJECT


@pytest.mark.parametrize(
    "subject",
    [
        b"",
        b"$JS.ACK",
        b"$JS.FC.S.C.2.30.4.5000.6",
        b"$JS.ACK.S.C.2.30.4.5000",
        b"$JS.ACK.S.C.2.30.4.5000.6.7",
        b"$JS.ACK.S.C.x.30.4.5000.6",
        b"$JS.ACK.S.C.2.-3.4.5000.6",
        b"$JS.ACK.S.C.2..4.5000.6",
        b"$JS.ACK.S.C.2." + b"9" * 21 + b".4.5000.6",
    ],
)
def test_subject_that_says_nothing(subject: bytes) -> None:
    assert parse_ack(subject) is None


@pytest.mark.parametrize(
    ("body", "kind", "argument"),
    [
        (b"", AckKind.ACK, b""),
        (b"+ACK", AckKind.ACK, b""),
        (b"+OK", AckKind.ACK, b""),
        (b"+WPI", AckKind.PROGRESS, b""),
        (b"-NAK", AckKind.NEGATIVE, b""),
        (b'-NAK {"delay": 5}', AckKind.NEGATIVE, b'{"delay": 5}'),
        (b"-NAK  5s ", AckKind.NEGATIVE, b"5s"),
        (b"+NXT", AckKind.NEXT, b""),
        (b"+NXT 5", AckKind.NEXT, b"5"),
        (b"+NXT{}", AckKind.NEXT, b"{}"),
        (b"+TERM", AckKind.TERMINATE, b""),
        (b"+TERM because", AckKind.TERMINATE, b"because"),
        (b"+WPI ", AckKind.UNKNOWN, b""),
        (b"+ack", AckKind.UNKNOWN, b""),
        (b"hello", AckKind.UNKNOWN, b""),
    ],
)
def test_body(body: bytes, kind: AckKind, argument: bytes) -> None:
    assert parse_body(body) == AckBody(kind, argument)


@pytest.mark.parametrize(
    ("argument", "ns"),
    [(b'{"delay":5}', 5), (b'{"Delay":-7,"x":1}', -7), (b"{}", 0), (b"1.5s", 1_500_000_000), (b"0", 0)],
)
def test_delay_of_a_redelivery(argument: bytes, ns: int) -> None:
    assert nak_delay(argument) == ns


@pytest.mark.parametrize("argument", [b'{"delay":"5s"}', b"{", b"5", b"soon", b"\xff"])
def test_delay_that_is_none(argument: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        nak_delay(argument)
