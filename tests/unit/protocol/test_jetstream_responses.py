"""Configurations as the Go server writes them, and the names and levels in them."""

from __future__ import annotations

import json

import pytest

from headrace.protocol.jetstream.configs import (
    AckPolicy,
    ConsumerConfig,
    External,
    PersistMode,
    PriorityPolicy,
    Republish,
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
)
from headrace.protocol.jetstream.levels import with_consumer_level, with_stream_level, without_versions
from headrace.protocol.jetstream.names import (
    is_asset_name,
    is_group_name,
)
from headrace.protocol.jetstream.responses import consumer_config, encode, stream_config


def test_stream_without_anything_has_the_fields_that_are_always_there() -> None:
    assert encode(stream_config(StreamConfig(name="A"))) == (
        b'{"name":"A","retention":"limits","max_consumers":0,"max_msgs":0,"max_bytes":0,"max_age":0,'
        b'"max_msgs_per_subject":0,"discard":"old","storage":"file","num_replicas":0,"compression":"none",'
        b'"allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,'
        b'"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false}'
    )


def test_consumer_without_anything_has_the_fields_that_are_always_there() -> None:
    assert encode(consumer_config(ConsumerConfig())) == (
        b'{"deliver_policy":"all","ack_policy":"none","replay_policy":"instant","num_replicas":0}'
    )


def test_parts_of_a_stream_are_written_as_the_go_server_writes_them() -> None:
    config = StreamConfig(
        mirror=StreamSource(
            subject_transforms=[SubjectTransformConfig()], external=External(), opt_start_seq=2
        ),
        republish=Republish(),
        persist_mode=PersistMode.ASYNC,
        metadata={"z": "1", "a": "2"},
    )

    shown = json.loads(encode(stream_config(config, with_version="9.9")))

    assert shown["mirror"] == {
        "name": "",
        "opt_start_seq": 2,
        "subject_transforms": [{"src": "", "dest": ""}],
        "external": {"api": "", "deliver": ""},
    }
    assert shown["republish"] == {"dest": ""}
    assert shown["persist_mode"] == "async"
    assert list(shown["metadata"].items()) == [
        ("_nats.level", "5"),
        ("_nats.ver", "9.9"),
        ("a", "2"),
        ("z", "1"),
    ]


@pytest.mark.parametrize(
    ("config", "level"),
    [
        (StreamConfig(), "0"),
        (StreamConfig(allow_msg_ttl=True), "1"),
        (StreamConfig(subject_delete_marker_ttl=1), "1"),
        (StreamConfig(allow_atomic=True, allow_msg_ttl=True), "2"),
        (StreamConfig(persist_mode=PersistMode.ASYNC), "2"),
        (StreamConfig(allow_batched=True), "4"),
    ],
)
def test_level_that_a_stream_needs(config: StreamConfig, level: str) -> None:
    assert with_stream_level(config).metadata == {"_nats.req.level": level}


@pytest.mark.parametrize(
    ("config", "level"),
    [
        (ConsumerConfig(), "0"),
        (ConsumerConfig(pause_until="0001-01-01T00:00:00Z"), "0"),
        (ConsumerConfig(pause_until="2030-01-01T00:00:00Z"), "1"),
        (ConsumerConfig(priority_policy=PriorityPolicy.OVERFLOW), "1"),
        (ConsumerConfig(ack_policy=AckPolicy.FLOW_CONTROL), "4"),
    ],
)
def test_level_that_a_consumer_needs(config: ConsumerConfig, level: str) -> None:
    assert with_consumer_level(config).metadata == {"_nats.req.level": level}


def test_versions_that_a_client_sends_do_not_count() -> None:
    sent = {"_nats.ver": "x", "_nats.level": "y", "_nats.req.level": "9", "mine": "1"}

    assert without_versions(sent) == {"mine": "1"}
    assert with_stream_level(StreamConfig(metadata=sent)).metadata == {"mine": "1", "_nats.req.level": "0"}


def test_names() -> None:
    assert all(is_asset_name(name) for name in ("a", "A-b_c", "$x", "é", "x" * 300))
    assert not any(is_asset_name(name) for name in ("", "a.b", "a b", "a\tb", "*", ">", "a/b", "a\\b"))
    assert all(is_group_name(name) for name in ("A", "a/b_c=-9", "x" * 16))
    assert not any(is_group_name(name) for name in ("", "a b", "x" * 17, "é", "a\n"))
