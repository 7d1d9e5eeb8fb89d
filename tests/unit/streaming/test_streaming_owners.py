"""A client ID is the user's who registered it: what another may not do with it, and when it is free."""

from __future__ import annotations

import pytest
from stan_harness import World

from headrace.protocol.stan import (
    CloseResponse,
    ConnectRequest,
    ConnectResponse,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)
from headrace.streaming import error_texts
from headrace.streaming.clients import DUP_CID_TIMEOUT

ALICE = b'NATS/1.0\r\nNats-Request-Info: {"acc": "A", "user": "alice"}\r\n\r\n'
MALLORY = b'NATS/1.0\r\nNats-Request-Info: {"acc": "A", "user": "mallory"}\r\n\r\n'
NOBODY = b""
"""Who comes through another server, or is on a server without users."""


@pytest.fixture
def world() -> World:
    """Alice is connected as `me`."""
    made = World()
    made.host.user = ALICE
    assert made.connect().error == b""
    return made


def is_there(world: World, client_id: str = "me") -> bool:
    return world.service.snapshot_client(client_id) is not None


def test_another_user_cannot_close_a_client(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.host.user = MALLORY
    assert world.disconnect() == CloseResponse(error_texts.CLIENT_OF_ANOTHER)
    assert is_there(world)
    assert [record.levelname for record in caplog.records if "another user" in record.getMessage()] == [
        "WARNING"
    ]
    world.host.user = ALICE
    assert world.disconnect().error == b""
    assert not is_there(world)


def test_another_user_cannot_take_the_id_of_a_client_that_does_not_answer(world: World) -> None:
    """Not until it was given up: else whoever is quick would have its durable subscriptions."""
    world.alive.clear()
    world.host.user = MALLORY
    assert world.connect(conn_id=b"other", alive=False).error == error_texts.CLIENT_REGISTERED
    world.host.user = ALICE
    request = ConnectRequest(b"me", b"_HB.me", 1, b"again", 5, 3).encode()
    world.send(world.tenure._info.discovery, request, b"in")
    world.settle()
    world.advance(DUP_CID_TIMEOUT + 1)
    assert [ConnectResponse.decode(one).error for one in world.take(b"in")] == [b""]


def test_an_id_that_was_given_up_by_heartbeats_is_free(world: World) -> None:
    options = world.options
    world.alive.clear()
    world.advance((options.hb_interval + options.hb_timeout) * (options.hb_fail_count + 2))
    assert not is_there(world)
    world.host.user = MALLORY
    assert world.connect(conn_id=b"other").error == b""
    world.host.user = ALICE
    assert world.disconnect().error == error_texts.CLIENT_OF_ANOTHER


def test_whose_it_is_outlasts_a_restart(world: World) -> None:
    world.restart()
    world.host.user = MALLORY
    assert world.disconnect().error == error_texts.CLIENT_OF_ANOTHER
    world.host.user = ALICE
    assert world.disconnect().error == b""


def test_another_user_cannot_subscribe_or_unsubscribe_for_a_client(world: World) -> None:
    server = world.tenure._info
    asked = SubscriptionRequest(b"me", b"c", b"", b"in.me", 10, 30, b"d").encode()
    told = world.request(server.subscribe, asked, SubscriptionResponse)
    assert told.error == b""
    end = UnsubscribeRequest(b"me", b"c", told.ack_inbox, b"d").encode()
    world.host.user = MALLORY
    for subject, payload in ((server.subscribe, asked), (server.unsubscribe, end), (server.sub_close, end)):
        assert world.request(subject, payload, SubscriptionResponse).error == error_texts.CLIENT_OF_ANOTHER
    world.host.user = ALICE
    assert world.request(server.unsubscribe, end, SubscriptionResponse).error == b""


@pytest.mark.parametrize(
    ("first", "second"), [(NOBODY, MALLORY), (ALICE, NOBODY), (NOBODY, NOBODY), (ALICE, ALICE)]
)
def test_who_is_not_known_is_let_through(first: bytes, second: bytes) -> None:
    world = World()
    world.host.user = first
    assert isinstance(world.connect(), ConnectResponse)
    world.host.user = second
    assert world.disconnect().error == b""
