"""Sparkplug B: what is a birth and a death, the time of a death, and certificates that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.linked_mqtt import Device, LinkedMqtt
from headrace.mqtt.hub import Accepted
from headrace.mqtt.sparkplug import certificate_of, is_death, stamped
from headrace.protocol.mqtt.properties import PacketKind

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000_000
STAMP = b"\x08\x80\xa0\xf1\xc2\xb14"


@pytest.mark.parametrize("topic", [b"spBv1.0/G/NBIRTH/E", b"spBv1.0/G/DBIRTH/E/D"])
def test_births(topic: bytes) -> None:
    assert certificate_of(topic) == b"$sparkplug/certificates/" + topic
    assert not is_death(topic)


@pytest.mark.parametrize(
    "topic",
    [
        b"spBv1.0/G/NBIRTH",
        b"spBv1.0/G/NBIRTH/E/D",
        b"spBv1.0/G/DBIRTH/E",
        b"spBv1.0/G/DBIRTH/E/D/x",
        b"spBv1.0//NBIRTH/E",
        b"spBv1.0/G/NBIRTH/",
        b"spBv1.1/G/NBIRTH/E",
        b"spBv1.0/G/NDATA/E",
        b"$sparkplug/certificates/spBv1.0/G/NBIRTH/E",
        b"spBv1.0",
        b"",
    ],
)
def test_topics_that_are_no_births(topic: bytes) -> None:
    assert certificate_of(topic) is None
    assert not is_death(topic)


def test_deaths() -> None:
    assert is_death(b"spBv1.0/G/NDEATH/E")
    assert is_death(b"spBv1.0/G/DDEATH/E/D")
    assert not is_death(b"spBv1.0/G/DDEATH/E")


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"", STAMP),
        (b"\x18\x05", b"\x18\x05" + STAMP),
        (b"\x08\x01\x18\x05", STAMP + b"\x18\x05"),
        (b"\x12\x02\x08\x01\x08\x05", b"\x12\x02\x08\x01" + STAMP),
        (b"xx", b"xx" + STAMP),
        (b"\x12\x7f", b"\x12\x7f" + STAMP),
        (b"\x08" + b"\xff" * 20, b"\x08" + b"\xff" * 20 + STAMP),
        (b"\x09" + b"1" * 8 + b"\x0d" + b"2" * 4, b"\x09" + b"1" * 8 + b"\x0d" + b"2" * 4 + STAMP),
    ],
)
def test_the_time_of_a_death_is_replaced_or_added(payload: bytes, expected: bytes) -> None:
    assert stamped(payload, NOW) == expected


@given(st.binary(max_size=60))
def test_any_payload_of_a_death_has_the_time(payload: bytes) -> None:
    once = stamped(payload, NOW)
    assert STAMP in once
    assert len(once) <= len(payload) + len(STAMP)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_birth_is_kept_as_a_certificate(tmp_path: Path, qos: int) -> None:
    account = LinkedMqtt(tmp_path)
    node = Device(account, "node")
    account.tick()
    assert isinstance(node.result, Accepted)
    node.publish("spBv1.0/G/NBIRTH/E", b"birth", qos, 1)
    if qos == 2:
        node.take()
        node.acknowledge(PacketKind.PUBREL, 1)
    account.tick()
    late = Device(account, "late")
    account.tick()
    late.subscribe("$sparkplug/certificates/#", 2)
    (kept,) = [one for one in late.take() if one.kind == PacketKind.PUBLISH]
    assert (kept.topic, kept.payload, kept.qos, kept.is_retained) == (
        "$sparkplug/certificates/spBv1.0/G/NBIRTH/E",
        b"birth",
        qos,
        True,
    )
    node.publish("spBv1.0/G/NBIRTH/F", b"x", retain=True)
    node.publish("spBv1.0/G/NDATA/F", b"x", retain=True)
    account.tick()
    late.subscribe("#", 0)
    assert [one.topic for one in late.take() if one.kind == PacketKind.PUBLISH] == ["spBv1.0/G/NDATA/F"]
    account.stop()
