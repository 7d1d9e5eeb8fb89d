"""Connect, IDs that are taken, heartbeats, pings and close. Source: streaming specification, 3."""

from __future__ import annotations

import pytest
from stan_harness import DISCOVER, PINGS, World

from headrace.conf.streaming_options import StreamingOptions
from headrace.protocol.stan import CloseResponse, ConnectRequest, ConnectResponse, PingResponse, StartPosition

TWIN = b"stan: clientID already registered"
REPLACED = b"client has been replaced or is no longer registered"


def _begin_connect(world: World, client_id: bytes, conn_id: bytes) -> bytes:
    reply = world.name("reply")
    world.send(DISCOVER, ConnectRequest(client_id, b"_HB.other", 1, conn_id).encode(), reply)
    world.settle()
    return reply


def test_success_names_the_subjects_and_echoes_pings_for_protocol_1() -> None:
    assert World().connect() == ConnectResponse(
        pub_prefix=b"_STAN.pub.test-cluster",
        sub_requests=b"_STAN.sub.test-cluster",
        unsub_requests=b"_STAN.unsub.test-cluster",
        close_requests=b"_STAN.close.test-cluster",
        sub_close_requests=b"_STAN.subclose.test-cluster",
        ping_requests=PINGS,
        ping_interval=5,
        ping_max_out=3,
        protocol=1,
    )


def test_protocol_0_gets_no_pings() -> None:
    answer = World().connect(protocol=0, conn_id=b"")
    assert (answer.ping_requests, answer.ping_interval, answer.ping_max_out) == (b"", 0, 0)
    assert answer.protocol == 1


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xff",
        b"\x0a\x05ab",
        *[ConnectRequest(b"me", inbox).encode() for inbox in (b"", b"a b", b"a.>", b"a..b")],
    ],
)
def test_check_1_undecodable_or_without_a_heartbeat_inbox(payload: bytes) -> None:
    world = World()
    answer = world.request(DISCOVER, payload, ConnectResponse)
    assert answer == ConnectResponse(error=b"stan: invalid connection request")
    assert world.service.snapshot_server().clients == 0


@pytest.mark.parametrize("client_id", [b"", b"a b", b"a.b", b"a:b", b"\xc3\xa9", b"a\n", b"*"])
def test_check_2_invalid_client_id(client_id: bytes) -> None:
    answer = World().request(DISCOVER, ConnectRequest(client_id, b"hb").encode(), ConnectResponse)
    assert answer.error == (b"stan: invalid clientID: only alphanumeric and `-` or `_` characters allowed")


def test_check_3_a_living_twin_keeps_its_id() -> None:
    world = World()
    world.connect(b"me", conn_id=b"one")
    reply = _begin_connect(world, b"me", b"two")
    world.advance(0.5)
    assert [ConnectResponse.decode(one).error for one in world.take(reply)] == [TWIN]
    assert world.ping(b"one") == PingResponse()


def test_check_3_a_dead_twin_is_replaced_after_the_timeout() -> None:
    world = World()
    world.connect(b"me", conn_id=b"one", alive=False)
    plain = world.subscribe(b"foo")
    durable = world.subscribe(b"foo", durable=b"d")
    reply = _begin_connect(world, b"me", b"two")
    world.advance(0.499)
    assert world.take(reply) == []
    world.advance(0.001)
    assert [ConnectResponse.decode(one).error for one in world.take(reply)] == [b""]
    assert world.ping(b"one").error == REPLACED
    assert world.ping(b"two") == PingResponse()
    channel = world.service.snapshot_channel("foo", subscriptions=True)
    assert channel is not None
    assert [(one.inbox, one.is_offline) for one in channel.subscriptions] == [(durable.inbox.decode(), True)]
    assert plain.ack_inbox not in world.host.subscriptions.values()


def test_check_3_a_second_connect_during_the_probe_is_refused_at_once() -> None:
    world = World()
    world.connect(b"me", alive=False)
    first = _begin_connect(world, b"me", b"two")
    second = _begin_connect(world, b"me", b"three")
    assert [ConnectResponse.decode(one).error for one in world.take(second)] == [TWIN]
    world.advance(0.5)
    assert [ConnectResponse.decode(one).error for one in world.take(first)] == [b""]


def test_a_twin_that_closes_during_the_probe_makes_room() -> None:
    world = World()
    world.connect(b"me", alive=False)
    reply = _begin_connect(world, b"me", b"two")
    world.disconnect(b"me")
    world.advance(0.5)
    assert [ConnectResponse.decode(one).error for one in world.take(reply)] == [b""]
    assert world.service.snapshot_server().clients == 1


def test_a_connect_request_without_a_reply_subject_registers_all_the_same() -> None:
    world = World()
    world.send(DISCOVER, ConnectRequest(b"me", b"hb").encode())
    world.settle()
    assert world.service.snapshot_server().clients == 1


@pytest.fixture
def quick() -> World:
    return World(StreamingOptions(hb_interval=30, hb_timeout=10, hb_fail_count=2))


def test_heartbeats_go_out_every_interval_with_an_empty_body(quick: World) -> None:
    quick.connect()
    quick.advance(29.9)
    assert quick.take(b"_HB.me") == []
    quick.advance(0.1)
    assert quick.take(b"_HB.me") == [b""]
    quick.advance(300)
    assert len(quick.take(b"_HB.me")) == 10
    assert quick.service.snapshot_server().clients == 1


def test_more_failures_than_allowed_close_the_client(quick: World) -> None:
    quick.connect(alive=False)
    quick.subscribe(b"foo")
    quick.advance(3 * 40 - 0.1)
    assert quick.service.snapshot_server().clients == 1
    quick.advance(0.1)
    server = quick.service.snapshot_server()
    assert (server.clients, server.subscriptions) == (0, 0)
    quick.take(b"_HB.me")
    quick.advance(1000)
    assert quick.take(b"_HB.me") == []


def test_one_answer_forgives_earlier_failures(quick: World) -> None:
    quick.connect(alive=False)
    quick.advance(80)
    quick.alive.add(b"_HB.me")
    quick.advance(30)
    quick.alive.clear()
    quick.advance(80)
    assert quick.service.snapshot_server().clients == 1
    quick.advance(40)
    assert quick.service.snapshot_server().clients == 0


def test_a_late_answer_does_not_count(quick: World) -> None:
    quick.connect(alive=False)
    quick.advance(30)
    (reply,) = [reply for subject, reply, _ in quick.host.published if subject == b"_HB.me"]
    quick.advance(10)
    quick.host.receive(reply, b"")
    quick.settle()
    quick.advance(80)
    assert quick.service.snapshot_server().clients == 0


def test_a_ping_of_a_failing_client_is_followed_by_a_heartbeat_at_once(quick: World) -> None:
    quick.connect(alive=False)
    quick.advance(40)
    quick.take(b"_HB.me")
    quick.alive.add(b"_HB.me")
    assert quick.ping(b"me") == PingResponse()
    assert quick.take(b"_HB.me") == [b""]
    quick.alive.clear()
    quick.advance(30 + 10 + 30 + 10)
    assert quick.service.snapshot_server().clients == 1, "the failure before the ping was forgotten"


def test_pings_of_unknown_connections_are_told_so() -> None:
    assert World().ping(b"nobody").error == REPLACED


def test_empty_and_undecodable_pings_are_ignored() -> None:
    world = World()
    for payload in (b"", b"\xff", b"\x0a\x09a"):
        world.send(PINGS, payload, b"r")
        world.settle()
    assert world.take(b"r") == []


def test_a_ping_is_answered_with_zero_bytes() -> None:
    world = World()
    world.connect(conn_id=b"\x00\x01\xff")
    world.send(PINGS, b"\x0a\x03\x00\x01\xff", b"r")
    world.settle()
    assert world.take(b"r") == [b""]


def test_close_removes_the_client_and_its_non_durable_subscriptions() -> None:
    world = World()
    world.connect()
    world.subscribe(b"foo")
    world.subscribe(b"foo", queue=b"q")
    durable = world.subscribe(b"foo", durable=b"d")
    assert world.disconnect() == CloseResponse()
    channel = world.service.snapshot_channel("foo", subscriptions=True)
    assert channel is not None
    assert [(one.inbox, one.is_offline) for one in channel.subscriptions] == [(durable.inbox.decode(), True)]
    assert world.publish(b"foo", b"x") == [b"stan: invalid publish request"]


def test_close_of_an_unknown_client_and_of_nothing() -> None:
    world = World()
    assert world.disconnect(b"who").error == b"stan: unknown clientID"
    answer = world.request(b"_STAN.close.test-cluster", b"\xff", CloseResponse)
    assert answer.error == b"stan: invalid close request"


def test_the_last_of_two_clients_with_one_connection_id_has_it() -> None:
    world = World()
    world.connect(b"a", conn_id=b"same")
    world.connect(b"b", conn_id=b"same")
    world.disconnect(b"a")
    assert world.ping(b"same") == PingResponse()
    world.disconnect(b"b")
    assert world.ping(b"same").error == REPLACED


def test_another_server_with_the_cluster_id_stops_this_one() -> None:
    world = World(start=False)
    world.service.start(world.host)
    reply = next(reply for subject, reply, _ in world.host.published if subject == DISCOVER)
    world.host.receive(reply, ConnectResponse(protocol=1).encode())
    world.settle()
    assert world.conflicts == ['discovered another streaming server with cluster ID "test-cluster"']
    assert world.service.snapshot_server().state == "FAILED"
    assert world.host.subscriptions == {}


def test_its_own_look_for_others_is_not_a_client_of_its_own() -> None:
    world = World()
    world.advance(10)
    assert world.conflicts == []
    server = world.service.snapshot_server()
    assert (server.state, server.clients) == ("STANDALONE", 0)


def test_a_new_client_receives_from_where_it_asks_after_a_twin_was_replaced() -> None:
    world = World()
    world.connect(alive=False)
    world.publish(b"foo", b"1")
    _begin_connect(world, b"me", b"two")
    world.advance(0.5)
    assert world.sequences(world.subscribe(b"foo", start=StartPosition.FIRST)) == [1]
