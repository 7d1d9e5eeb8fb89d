"""CONNECT, sessions, takeovers, wills: the hub of an account beside its JetStream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.linked_mqtt import Device, LinkedMqtt
from headrace.mqtt.hub import Accepted
from headrace.protocol.mqtt.packets import Will
from headrace.protocol.mqtt.properties import Properties
from headrace.protocol.mqtt.reasons import MqttError, Reason
from headrace.protocol.nuid import short_hash

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOK = 0.3
"""Seconds in which a push consumer of JetStream sees that somebody listens again."""


@pytest.fixture
def account(tmp_path: Path) -> Iterator[LinkedMqtt]:
    made = LinkedMqtt(tmp_path)
    yield made
    assert made.mistakes == []
    made.stop()


def connected(account: LinkedMqtt, client_id: str = "c", **options: object) -> Device:
    device = Device(account, client_id, **options)  # type: ignore[arg-type]
    account.tick()
    assert isinstance(device.result, Accepted), device.result
    return device


def streams_of(account: LinkedMqtt) -> dict[str, int]:
    """Messages of the account's streams."""
    found = json.loads(account.ask("STREAM.LIST"))["streams"]
    return {each["config"]["name"]: each["state"]["messages"] for each in found}


def consumers_of(account: LinkedMqtt, stream: str) -> list[str]:
    return json.loads(account.ask(f"CONSUMER.NAMES.{stream}"))["consumers"] or []


def record_of(account: LinkedMqtt, client_id: str) -> dict[str, object] | None:
    import base64

    subject = f"$MQTT.sess.{short_hash(client_id)}"
    answer = json.loads(account.ask("STREAM.MSG.GET.$MQTT_sess", {"last_by_subj": subject}))
    return json.loads(base64.b64decode(answer["message"]["data"])) if "message" in answer else None


# -- CONNECT and sessions ------------------------------------------------------------------------------


def test_streams_are_made_at_the_first_connect(account: LinkedMqtt) -> None:
    assert streams_of(account) == {}
    connected(account)
    assert set(streams_of(account)) == {
        "$MQTT_msgs",
        "$MQTT_sess",
        "$MQTT_rmsgs",
        "$MQTT_qos2in",
        "$MQTT_out",
    }


def test_a_session_is_resumed_by_its_identifier(account: LinkedMqtt) -> None:
    first = connected(account)
    assert not first.is_present
    assert first.subscribe("a/+", 1) == 1
    first.leave()
    connected(account, "other").publish("a/b", b"offline", 1, 7)
    again = connected(account)
    assert again.is_present
    account.pass_time(LOOK)
    assert again.messages() == [("a/b", b"offline", 1)]


def test_a_clean_connect_leaves_nothing_of_what_was(account: LinkedMqtt) -> None:
    first = connected(account)
    first.subscribe("a", 2)
    first.leave()
    assert consumers_of(account, "$MQTT_msgs")
    clean = connected(account, clean=True)
    assert not clean.is_present
    assert consumers_of(account, "$MQTT_msgs") == consumers_of(account, "$MQTT_out") == []
    clean.leave()
    assert record_of(account, "c") is None


def test_the_record_has_nats_servers_members(account: LinkedMqtt) -> None:
    device = connected(account)
    device.subscribe("b/#", 1)
    device.subscribe("a/+", 0)
    record = record_of(account, "c")
    assert record is not None
    assert {"origin": short_hash("S1"), "id": "c"}.items() <= record.items()
    assert record["subs"] == {"a.*": 0, "b.>": 1}
    assert sorted(record["cons"]) == ["b fwc", "b.>"]  # type: ignore[call-overload]


def test_unsubscribing_ends_both_subscriptions_and_their_consumers(account: LinkedMqtt) -> None:
    device = connected(account)
    device.subscribe("b/#", 1)
    assert len(consumers_of(account, "$MQTT_msgs")) == 2
    device.unsubscribe("b/#")
    assert consumers_of(account, "$MQTT_msgs") == []
    other = connected(account, "other")
    other.publish("b", b"0")
    other.publish("b/c", b"0")
    assert device.messages() == []


def test_filters_over_the_limit_of_pending_messages_are_refused(tmp_path: Path) -> None:
    account = LinkedMqtt(tmp_path, max_ack_pending=40_000)
    device = connected(account)
    assert device.subscribe("a/#", 1) == 0x80
    assert device.subscribe("a", 1) == 1
    assert device.subscribe("b", 1) == 0x80
    assert device.subscribe("b", 0) == 0
    assert len(consumers_of(account, "$MQTT_msgs")) == 1
    account.stop()


@pytest.mark.parametrize("topic_filter", ["a b", "$MQTT/sub/x", "a/#/b"])
def test_filters_that_may_not_be(account: LinkedMqtt, topic_filter: str) -> None:
    assert connected(account).subscribe(topic_filter, 1) == 0x80
    assert connected(account, "v5", version=5).subscribe(topic_filter, 1) == Reason.TOPIC_FILTER_INVALID


def test_another_identifier_with_the_same_hash_is_refused(account: LinkedMqtt) -> None:
    connected(account)
    subject = f"$MQTT.sess.{short_hash('victim')}"
    account.put(subject, b'{"origin":"x","id":"other"}')
    account.tick()
    refused = Device(account, "victim")
    account.tick()
    assert isinstance(refused.result, MqttError)
    assert refused.result.return_code == 2


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"subs":7}', b"\xff\xfe"])
def test_a_record_that_cannot_be_read_refuses_its_client_only(account: LinkedMqtt, data: bytes) -> None:
    connected(account)
    account.put(f"$MQTT.sess.{short_hash('victim')}", data)
    account.tick()
    refused = Device(account, "victim")
    account.tick()
    assert isinstance(refused.result, MqttError)
    connected(account, "someone")


def test_a_connect_fails_in_time_when_jetstream_does_not_answer(account: LinkedMqtt) -> None:
    account.host.link.detach()
    device = Device(account, "c")
    account.tick()
    assert device.result is None
    account.pass_time(5.1)
    assert isinstance(device.result, MqttError)
    assert device.result.return_code is None
    assert device.result.reason == Reason.SERVER_UNAVAILABLE
    assert len(account.hub.requests) == 0


# -- takeover ------------------------------------------------------------------------------------------


def test_the_later_connection_takes_the_session_over(account: LinkedMqtt) -> None:
    first = connected(account)
    first.subscribe("a", 1)
    second = connected(account)
    assert second.is_present
    assert [reason for reason, _ in first.closed] == [Reason.SESSION_TAKEN_OVER]
    first.leave()
    connected(account, "other").publish("a", b"x", 1, 1)
    assert second.messages() == [("a", b"x", 1)]


def test_a_third_connection_within_a_second_is_held_and_refused(account: LinkedMqtt) -> None:
    connected(account)
    second = connected(account)
    third = Device(account, "c")
    account.tick()
    assert third.result is None
    account.pass_time(1.0)
    assert isinstance(third.result, MqttError)
    assert second.closed == []
    account.pass_time(0.1)
    connected(account)
    assert second.closed != []


def test_another_server_takes_the_session_over(account: LinkedMqtt) -> None:
    here = connected(account)
    here.subscribe("a", 1)
    there = account.another("S2")
    elsewhere = connected(there)
    assert elsewhere.is_present
    assert [reason for reason, _ in here.closed] == [Reason.SESSION_TAKEN_OVER]
    assert elsewhere.closed == []
    connected(account, "other").publish("a", b"x", 1, 1)
    account.pass_time(LOOK)
    assert elsewhere.messages() == [("a", b"x", 1)]
    there.die()


def test_what_is_under_way_goes_on_with_its_identifier(account: LinkedMqtt) -> None:
    first = connected(account)
    first.subscribe("a", 1)
    connected(account, "other").publish("a", b"x", 1, 1)
    (seen,) = first.take()
    first.leave()
    second = connected(account)
    account.pass_time(LOOK)
    (again,) = second.take()
    assert (again.identifier, again.is_again) == (seen.identifier, True)


# -- wills ---------------------------------------------------------------------------------------------


def test_a_will_is_published_and_retained(account: LinkedMqtt) -> None:
    watcher = connected(account, "watcher")
    watcher.subscribe("w", 1)
    device = connected(account, will=Will(b"w", b"gone", 1, True))
    device.leave(sends_will=True)
    assert watcher.messages() == [("w", b"gone", 1)]
    late = connected(account, "late")
    late.subscribe("w", 0)
    assert [(one.topic, one.is_retained) for one in late.take() if one.kind == 3] == [("w", True)]


def test_a_will_waits_for_its_delay_and_not_longer_than_the_session(account: LinkedMqtt) -> None:
    watcher = connected(account, "watcher")
    watcher.subscribe("w", 0)
    will = Will(b"w", b"gone", 0, False, Properties(will_delay=30))
    device = connected(account, version=5, will=will, properties=Properties(session_expiry=10))
    device.leave(sends_will=True, expiry=10)
    account.pass_time(9)
    assert watcher.messages() == []
    account.pass_time(1.1)
    assert watcher.messages() == [("w", b"gone", 0)]
    assert record_of(account, "c") is None


def test_a_client_that_is_back_in_time_takes_its_will_back(account: LinkedMqtt) -> None:
    watcher = connected(account, "watcher")
    watcher.subscribe("w", 0)
    will = Will(b"w", b"gone", 0, False, Properties(will_delay=5))
    device = connected(account, version=5, will=will, properties=Properties(session_expiry=60))
    device.leave(sends_will=True, expiry=60)
    account.pass_time(1)
    assert connected(account, version=5, properties=Properties(session_expiry=60)).is_present
    account.pass_time(10)
    assert watcher.messages() == []


def test_a_will_and_an_end_are_due_after_the_server_has_died(account: LinkedMqtt) -> None:
    will = Will(b"w", b"gone", 0, True, Properties(will_delay=5))
    device = connected(account, version=5, will=will, properties=Properties(session_expiry=60))
    device.subscribe("a", 1)
    device.leave(sends_will=True, expiry=60)
    account.die()
    account.begin()
    watcher = connected(account, "watcher")
    watcher.subscribe("w", 0)
    account.pass_time(6)
    assert watcher.messages() == [("w", b"gone", 0)]
    assert record_of(account, "c") is not None
    account.pass_time(60)
    assert record_of(account, "c") is None
    assert consumers_of(account, "$MQTT_msgs") == []


def test_a_session_whose_server_has_died_ends_after_its_expiry(account: LinkedMqtt) -> None:
    connected(account, version=5, properties=Properties(session_expiry=20))
    connected(account, "clean", clean=True).subscribe("a", 1)
    account.die()
    account.begin()
    connected(account, "watcher")
    assert record_of(account, "clean") is None
    assert consumers_of(account, "$MQTT_msgs") == []
    account.pass_time(15)
    assert record_of(account, "c") is not None
    account.pass_time(6)
    assert record_of(account, "c") is None
