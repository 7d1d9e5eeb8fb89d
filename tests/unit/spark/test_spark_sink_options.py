"""The sink's options: targets, promises, ids; and that nothing weaker than what was asked for is taken."""

from __future__ import annotations

import pytest

from headrace.client.address import Credentials
from headrace.spark.errors import OptionError
from headrace.spark.sink_options import (
    CONNECTION_OPTIONS,
    SINK_OPTIONS,
    Guarantee,
    MalformedRows,
    SinkTarget,
    read_sink_options,
)


def test_sink_options_defaults_per_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "nats://h:7")
    stream = read_sink_options({"stream": "ORDERS", "IDCOLUMN": "id"})
    assert (stream.target, stream.name, stream.guarantee) == (
        SinkTarget.STREAM,
        "ORDERS",
        Guarantee.EXACTLY_ONCE,
    )
    assert (stream.mode, stream.id_column, stream.server.url) == (MalformedRows.FAIL_FAST, "id", "nats://h:7")
    channel = read_sink_options({"channel": "orders", "clusterId": "mine", "checkpointLocation": "/c"})
    assert (channel.target, channel.guarantee) == (SinkTarget.CHANNEL, Guarantee.AT_LEAST_ONCE)
    assert channel.title == "channel orders of cluster mine"
    subject = read_sink_options({"subject": "a.b"})
    assert (subject.target, subject.subject, subject.guarantee) == (
        SinkTarget.SUBJECT,
        "a.b",
        Guarantee.BEST_EFFORT,
    )
    assert read_sink_options({"target": "channel"}).name is None


def test_sink_options_carry_what_the_environment_says_to_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_USER", "joe")
    monkeypatch.setenv("NATS_PASSWORD", "secret")
    options = read_sink_options({"subject": "a", "url": "nats://h", "reconnectTimeout": "7s"})
    assert options.server.connecting.credentials == Credentials("joe", "secret")
    assert options.server.reconnect_timeout == 7
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "option stream, channel or subject is missing"),
        ({"stream": "S", "channel": "c"}, "stream and channel exclude each other"),
        ({"target": "stream"}, "needs option stream"),
        ({"target": "channel", "stream": "S"}, "option target is channel, and option stream is set"),
        ({"target": "queue"}, "'queue' is not one of stream, channel, subject"),
        ({"channel": "c", "subject": "s"}, "a channel is its own subject"),
        ({"channel": "c.*"}, "option channel: 'c.\\*'"),
        ({"subject": "a b"}, "option subject: 'a b'"),
        ({"stream": "a.b", "positionalIds": "true"}, "not the name of a JetStream stream"),
        ({"stream": "S"}, "set idColumn or keyColumns; or set positionalIds"),
        ({"stream": "S", "positionalIds": "false"}, "set idColumn or keyColumns"),
        ({"stream": "S", "positionalIds": "yes"}, "neither true nor false"),
        ({"stream": "S", "idColumn": "a", "keyColumns": "b"}, "exclude each other"),
        ({"stream": "S", "deliveryGuarantee": "at-least-once", "idColumn": "a"}, "go with exactly-once"),
        ({"stream": "S", "deliveryGuarantee": "at-least-once", "writeId": "a"}, "writeId goes with exactly"),
        ({"stream": "S", "deliveryGuarantee": "best-effort"}, "best-effort is for core subjects"),
        ({"stream": "S", "deliveryGuarantee": "sometimes"}, "'sometimes' is not one of"),
        ({"channel": "c", "deliveryGuarantee": "exactly-once"}, "a channel cannot give exactly-once"),
        ({"subject": "s", "deliveryGuarantee": "at-least-once"}, "a subject cannot give at-least-once"),
        ({"channel": "c", "idColumn": "id"}, "a channel knows no message ids"),
        ({"subject": "s", "clusterId": "c"}, "clusterId goes with option channel"),
        ({"subject": "s", "maxInFlight": "0"}, "maxInFlight: '0'"),
        ({"subject": "s", "maxInFlight": "1e3"}, "maxInFlight: '1e3'"),
        ({"subject": "s", "mode": "permissive"}, "'permissive' is not one of failfast, dropmalformed"),
        ({"stream": "S", "idColumn": "a", "writeId": "a.b"}, "writeId: 'a.b' is not made of"),
        ({"subject": "s", "startingOffsets": "latest"}, "option startingOffsets is for reading"),
        ({"subject": "s", "idColum": "x"}, "did you mean idColumn"),
        ({"subject": "s", "url": "nats://h:x"}, "option url"),
    ],
)
def test_sink_options_that_cannot_be_are_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        read_sink_options(given)


def test_sink_options_no_name_means_two_things() -> None:
    assert not CONNECTION_OPTIONS & {option.name.lower() for option in SINK_OPTIONS}
