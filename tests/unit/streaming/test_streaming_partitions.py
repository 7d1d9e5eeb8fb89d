"""Partitions: several servers with one cluster ID on one wire. Source: streaming specification, 11."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stan_harness import DISCOVER, ManualHost, World

from headrace.conf.streaming_options import ChannelLimits, StoreLimits, StreamingOptions
from headrace.errors import ProtocolError, StartError
from headrace.protocol.stan import (
    CloseRequest,
    CloseResponse,
    ConnectRequest,
    ConnectResponse,
    CtrlMsg,
    CtrlType,
    PubAck,
    PubMsg,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)
from headrace.streaming.partitions import ANSWER_S, RECHECK_S, decode_channels, encode_channels

PART = b"_STAN.part.test-cluster"
PUBLISH = b"_STAN.pub.test-cluster."


class SharedHost(ManualHost):
    """What one service publishes, the others on the wire receive too."""

    def __init__(self, wire: list[SharedHost]) -> None:
        super().__init__()
        self._wire = wire
        wire.append(self)

    def spread(self, subject: bytes, payload: bytes, reply: bytes) -> None:
        for host in self._wire:
            host.receive(subject, payload, reply)


class Cluster:
    """Servers by the channels they have."""

    def __init__(self, *channels: str) -> None:
        self.wire: list[SharedHost] = []
        self.servers = [self._server(names) for names in channels]

    def _server(self, names: str) -> World:
        limits = StoreLimits(channels={name: ChannelLimits() for name in names.split()})
        options = StreamingOptions(partitioning=True, limits=limits)
        return World(options, host=SharedHost(self.wire))

    def join(self, names: str) -> World:
        self.servers.append(self._server(names))
        return self.servers[-1]

    def settle(self) -> None:
        while any(server.host.incoming for server in self.servers):
            for server in self.servers:
                server.settle()

    def advance(self, seconds: float) -> Cluster:
        self.settle()
        for server in self.servers:
            server.advance(seconds)
            self.settle()
        return self

    def ask(self, subject: bytes, payload: bytes) -> list[tuple[int, bytes]]:
        """Every answer, with the number of the server that gave it."""
        reply = self.servers[0].name("reply")
        for host in self.wire:
            host.receive(subject, payload, reply)
        self.settle()
        return [(n, payload) for n, server in enumerate(self.servers) for payload in server.take(reply)]

    def connect(self) -> None:
        request = ConnectRequest(b"me", b"_HB.me", 1, b"c", 5, 3).encode()
        assert len(self.ask(DISCOVER, request)) == len(self.servers)

    def publish(self, channel: bytes, data: bytes = b"x") -> list[tuple[int, bytes]]:
        message = PubMsg(b"me", b"g", channel, data=data)
        answers = self.ask(PUBLISH + channel, message.encode())
        return [(number, PubAck.decode(payload).error) for number, payload in answers]

    def subscribe(self, channel: bytes, ack_wait: int = 30) -> list[tuple[int, SubscriptionResponse]]:
        request = SubscriptionRequest(b"me", channel, b"", b"_IN." + channel, 10, ack_wait)
        answers = self.ask(b"_STAN.sub.test-cluster", request.encode())
        return [(number, SubscriptionResponse.decode(payload)) for number, payload in answers]


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster("foo bar.*", "other baz.>").advance(ANSWER_S)
    assert [server.conflicts for server in cluster.servers] == [[], []]
    cluster.connect()
    return cluster


def test_a_foreign_channel_is_left_to_others(cluster: Cluster) -> None:
    assert cluster.publish(b"foo") == [(0, b"")]
    assert cluster.publish(b"other") == [(1, b"")]
    assert cluster.publish(b"nobodys") == []
    assert [number for number, answer in cluster.subscribe(b"other") if not answer.error] == [1]
    assert cluster.subscribe(b"nobodys") == []
    assert [server.service.channel_names() for server in cluster.servers] == [["foo"], ["other"]]


def test_a_message_for_a_foreign_channel_under_an_own_subject_is_ignored(cluster: Cluster) -> None:
    message = PubMsg(b"me", b"g", b"other", data=b"x")

    assert cluster.ask(PUBLISH + b"foo", message.encode()) == []
    assert cluster.servers[0].service.channel_names() == []


def test_unsubscribing_from_a_foreign_channel_is_answered_by_its_server_only(cluster: Cluster) -> None:
    ((_, answer),) = cluster.subscribe(b"foo")
    request = UnsubscribeRequest(b"me", b"foo", answer.ack_inbox)

    ((number, payload),) = cluster.ask(b"_STAN.unsub.test-cluster", request.encode())

    assert (number, SubscriptionResponse.decode(payload).error) == (0, b"")


def test_errors_of_a_request_itself_are_told_by_all(cluster: Cluster) -> None:
    answers = cluster.subscribe(b"foo", ack_wait=0)

    texts = {answer.error for _, answer in answers}
    assert (len(answers), texts) == (2, {b"stan: invalid ack wait time, should be >= 1s"})


def test_wildcards_are_owned_as_a_whole(cluster: Cluster) -> None:
    assert cluster.publish(b"bar.a") == [(0, b"")]
    assert cluster.publish(b"bar.a.b") == []
    assert cluster.publish(b"bar") == []
    assert cluster.publish(b"baz.a.b") == [(1, b"")]


def test_channels_that_share_names_take_every_message_once() -> None:
    cluster = Cluster("foo.* *.bar foo.bar >").advance(ANSWER_S)
    cluster.connect()

    for channel in (b"foo.bar", b"foo.x", b"x.bar", b"x"):
        assert cluster.publish(channel) == [(0, b"")]
        assert cluster.servers[0].service.snapshot_channel(channel.decode()).msgs == 1  # type: ignore[union-attr]


def test_clients_are_everybodys(cluster: Cluster) -> None:
    ping = cluster.ask(DISCOVER + b".pings", b"\x0a\x01c")
    assert ping == [(0, b""), (1, b"")]

    closed = cluster.ask(b"_STAN.close.test-cluster", CloseRequest(b"me").encode())
    assert [CloseResponse.decode(payload).error for _, payload in closed] == [b"", b""]
    again = ConnectRequest(b"me", b"_HB.me", 1, b"d", 5, 3).encode()
    assert [ConnectResponse.decode(payload).error for _, payload in cluster.ask(DISCOVER, again)] == [
        b"",
        b"",
    ]


def test_servers_with_the_same_channel_find_each_other(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster("foo bar.*").advance(ANSWER_S)
    first = cluster.servers[0]

    second = cluster.join("new bar.x")
    cluster.settle()

    conflict = f'channel "bar.x" causes conflict with channels on server "{first.service.server_id}"'
    assert second.conflicts == [conflict]
    assert second.service.snapshot_server().state == "FAILED"
    assert first.conflicts == []
    cluster.advance(RECHECK_S)
    assert first.service.snapshot_server().state == "STANDALONE"


def test_nobody_is_served_before_the_others_had_the_time_to_object() -> None:
    cluster = Cluster("foo")
    request = ConnectRequest(b"me", b"_HB.me", 1, b"c", 5, 3).encode()

    assert cluster.ask(DISCOVER, request) == []
    assert cluster.servers[0].service.snapshot_server().state != "STANDALONE"
    cluster.advance(ANSWER_S)
    assert len(cluster.ask(DISCOVER, request)) == 1


def test_a_stop_before_that_is_the_end() -> None:
    cluster = Cluster("foo")

    cluster.servers[0].service.stop()
    cluster.advance(ANSWER_S)

    assert cluster.servers[0].service.snapshot_server().state == "SHUTDOWN"


def test_an_overlap_that_shows_later_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Two NATS servers found each other: of two that serve one channel, one goes on."""
    left, right = Cluster("foo").advance(ANSWER_S), Cluster("foo").advance(ANSWER_S)
    left.servers += right.servers
    left.wire += right.wire
    right.wire[0]._wire = left.wire

    left.advance(RECHECK_S)

    by_id = sorted(left.servers, key=lambda server: server.service.server_id)
    assert [bool(server.conflicts) for server in by_id] == [False, True]
    assert 'channel "foo" causes conflict' in caplog.text


def test_without_channels_it_does_not_start() -> None:
    with pytest.raises(StartError, match="STREAM: Failed to start: stan: no configured channel"):
        World(StreamingOptions(partitioning=True))


def test_the_check_is_the_references(cluster: Cluster) -> None:
    request = CtrlMsg(CtrlType.PARTITIONING, b"another", b"\x01\x00a\x03\x00bar")

    assert [CtrlMsg.decode(payload).data for _, payload in cluster.ask(PART, request.encode())] == [b"", b""]
    common = CtrlMsg(CtrlType.PARTITIONING, b"another", b"\x01\x00a\x05\x00bar.*")
    answers = [CtrlMsg.decode(payload) for _, payload in cluster.ask(PART, common.encode())]
    assert [answer.data for answer in answers] == [b"bar.*", b""]
    assert [answer.msg_type for answer in answers] == [CtrlType.PARTITIONING] * 2


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff",
        b"",
        CtrlMsg(CtrlType.PARTITIONING, b"x", b"\x05\x00a").encode(),
        CtrlMsg(CtrlType.PARTITIONING, b"x", b"\x05").encode(),
        CtrlMsg(CtrlType.FT_HEARTBEAT, b"x", b"\x03\x00foo").encode(),
    ],
)
def test_what_is_no_list_is_not_answered(cluster: Cluster, payload: bytes) -> None:
    assert cluster.ask(PART, payload) == []
    assert cluster.publish(b"foo") == [(0, b"")]


def test_a_long_list_is_told_in_parts(caplog: pytest.LogCaptureFixture) -> None:
    names = [f"{'x' * 1000}.{number}" for number in range(600)]
    cluster = Cluster(" ".join(names))
    server = cluster.servers[0]

    told = [CtrlMsg.decode(body) for subject, _, body in server.host.published if subject == PART]

    assert len(told) == 3
    assert all(len(message.data) < 300_000 for message in told)
    assert [name for message in told for name in decode_channels(message.data)] == [n.encode() for n in names]


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_lists_survive_and_cut_ones_are_refused(channels: list[bytes]) -> None:
    encoded = encode_channels(channels)

    assert decode_channels(encoded) == channels
    if encoded:
        with pytest.raises(ProtocolError, match="cut off"):
            decode_channels(encoded + b"\x01")


def test_log_says_who_is_ready_when(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster("foo")
    assert "Streaming Server is ready" not in caplog.text

    cluster.advance(ANSWER_S)

    assert "STREAM: Streaming Server is ready" in caplog.text
