"""Sessions that do things within the calls the engine makes: send, doom, detach, feed, end the tick.

Whatever a session does there, nothing in use may be freed or moved, and the other links go on.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from engine_peers import QUIET, Broker, Session

from headrace.engine.client import ClientLink
from headrace.engine.link import Link
from headrace.engine.memory import live_objects
from headrace.engine.permission_cache import PermissionCache
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_peers import Peer

CALLS = (
    "connect",
    "first_ping",
    "note_reply",
    "op_before_connect",
    "parse_failed",
    "peer_error",
    "peer_info",
    "pong",
    "publish_refused",
    "reply_refused",
    "subscribe_permission",
    "subscriptions_exceeded",
    "trace",
    "trace_delivery",
)
LARGE = b"PUB a r 40000\r\n" + b"x" * 40_000 + b"\r\n"
EVERYTHING = (
    b'CONNECT {"verbose":true,"pedantic":true,"headers":true,"no_responders":true,"protocol":1}\r\n'
    b"SUB a 1\r\nSUB a q 2\r\nSUB > 3\r\nSUB a 4\r\nPUB a r 2\r\nhi\r\n" + LARGE + b"PUB  a r  2\nhi\r\n"
    b"HPUB a r 2 4\r\nhhpp\r\nPUB no r 1\r\nx\r\nPUB a _R_.x 1\r\nx\r\nPING\r\nPONG\r\nINFO {}\r\nUNSUB 1\r\n"
    b"-ERR 'x'\r\nSUB bad\r\n"
)


def restless(broker: Broker, act: Callable[[Peer], None], call: str) -> Peer:
    """A peer that is asked about everything, and does `act` whenever the engine calls `call`."""
    peer = broker.peer(b"", max_subscriptions=3)
    peer.link.traced = True
    peer.link.restrict(
        PermissionCache(lambda key: not key.startswith(b"no")), PermissionCache(lambda _key: True), True, True
    )
    answer = getattr(type(peer.session), f"_{call}", None)

    def hook(*arguments: Any) -> Any:
        act(peer)
        if call == "op_before_connect":
            peer.link.adopt()
            return None
        return None if answer is None else answer(peer.session, *arguments)

    peer.session.hooks[call] = hook
    return peer


ACTS: dict[str, Callable[[Peer], Any]] = {
    "sends": lambda peer: peer.link.send(b"-ERR 'hook'\r\n"),
    "dooms": lambda peer: peer.link.doom(CloseReason.STALE_CONNECTION),
    "detaches": lambda peer: peer.link.detach(),
    "takes": lambda peer: peer.link.take(),
    "discards": lambda peer: peer.link.discard(),
    "drops subscriptions": lambda peer: peer.link.drop_subscriptions(),
    "lists": lambda peer: peer.link.subscriptions(),
    "collects garbage": lambda _peer: gc.collect(0),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("act", ACTS)
def test_session_may_act_within_any_call(broker: Broker, act: str, call: str) -> None:
    bystander = broker.peer(QUIET + b"SUB other 1\r\n")
    peer = restless(broker, ACTS[act], call)
    peer.send(EVERYTHING)
    broker.end_tick()
    bystander.send(b"PUB other 1\r\nx\r\n")
    assert bystander.received() == b"MSG other 1 1\r\nx\r\n"


@pytest.mark.parametrize("call", ["note_reply", "trace_delivery"])
@pytest.mark.parametrize("act", ACTS)
def test_receiver_may_act_while_it_is_delivered_to(broker: Broker, act: str, call: str) -> None:
    """The subscriptions of a plan that is being followed go away under it."""
    receiver = restless(broker, ACTS[act], call)
    receiver.send(b"SUB a 1\r\nSUB a 2\r\nSUB > 3\r\n")
    last = broker.peer(QUIET + b"SUB a 9\r\n")
    publisher = broker.peer()
    publisher.send(b"PUB a r 1\r\nx\r\n" * 4)
    assert last.received() == b"MSG a 9 r 1\r\nx\r\n" * 4


@pytest.mark.parametrize("call", ["note_reply", "trace_delivery"])
def test_receiver_may_detach_everybody_while_it_is_delivered_to(broker: Broker, call: str) -> None:
    peers: list[Peer] = []

    def detach_all(_peer: Peer) -> None:
        for peer in peers:
            peer.link.detach()

    peers += [restless(broker, detach_all, call) for _ in range(5)]
    for peer in peers:
        peer.send(b"SUB a 1\r\nSUB a q 2\r\n")
    publisher = broker.peer()
    peers.append(publisher)
    publisher.send(b"PUB a r 1\r\nx\r\n" * 3 + LARGE)
    broker.end_tick()
    assert broker.interest.statistics()["subscriptions"] == 0


def test_link_that_was_detached_within_a_call_takes_nothing_more(broker: Broker) -> None:
    peer = restless(broker, ACTS["detaches"], "pong")
    peer.send(b"SUB a 1\r\nPONG\r\nSUB b 2\r\n")
    assert peer.link.is_detached
    assert not peer.link.send(b"PING\r\n")
    broker.end_tick()
    assert peer.link.subscriptions_count == 0
    assert peer.link.session is None
    assert broker.closed == []


def test_link_that_nobody_holds_may_go_while_it_is_delivered_to(plain_broker: Broker) -> None:
    """It was never detached, and is collected after its subscriptions were found."""
    doomed = [ClientLink(plain_broker.router, Session())]
    doomed[0].interest = plain_broker.interest
    doomed[0].feed(b"SUB a 1\r\nSUB a 2\r\n")
    first = restless(plain_broker, lambda _peer: doomed.clear(), "note_reply")
    first.send(b"SUB a 5\r\n")
    before = live_objects()["links"]
    plain_broker.peer().send(b"PUB a r 1\r\nx\r\n" * 3)
    assert live_objects()["links"] == before
    assert first.received().count(b"MSG a 5 r 1\r\nx\r\n") == 3


# ---- what must be refused -----------------------------------------------------------------------


def within_a_parse(broker: Broker, act: Callable[[], object]) -> Exception | None:
    """What `act` raises when the engine's call is `pong`."""
    peer = broker.peer()
    failure: list[Exception] = []

    def pong() -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
            failure.append(error)

    peer.session.hooks["pong"] = pong
    peer.send(b"PONG\r\nPING\r\n")
    assert peer.received() == b"PONG\r\n"
    return failure[0] if failure else None


def test_bytes_fed_to_another_link_within_a_parse_are_refused(broker: Broker) -> None:
    other = broker.peer()
    for act in (lambda: other.link.feed(b"PING\r\n"), other.link.buffer):
        assert isinstance(within_a_parse(broker, act), RuntimeError)
    assert other.received() == b""
    other.send(b"PING\r\n")
    assert other.received() == b"PONG\r\n"


def test_end_of_tick_within_a_parse_is_refused(broker: Broker) -> None:
    assert isinstance(within_a_parse(broker, broker.router.end_tick), RuntimeError)


def test_interest_may_be_looked_up_within_a_parse(broker: Broker) -> None:
    broker.peer(QUIET + b"SUB a 1\r\n")
    assert within_a_parse(broker, lambda: broker.interest.receivers(b"a")) is None


@pytest.mark.parametrize("call", ["note_reply", "trace_delivery"])
def test_interest_looked_up_while_a_plan_is_followed_is_refused(broker: Broker, call: str) -> None:
    failures: list[BaseException] = []

    def look(_peer: Peer) -> None:
        with pytest.raises(RuntimeError) as caught:
            broker.interest.receivers(b"b")
        failures.append(caught.value)

    restless(broker, look, call).send(b"SUB a 1\r\n")
    broker.peer().send(b"PUB a r 1\r\nx\r\n")
    assert failures
    assert broker.interest.receivers(b"a") == (1, 0)


def test_parse_goes_on_after_a_call_raised(plain_broker: Broker) -> None:
    """An exception leaves the router fit for the next bytes."""
    peer, other = plain_broker.peer(), plain_broker.peer()

    def fail() -> None:
        raise LookupError("mistake")

    peer.session.hooks["pong"] = fail
    with pytest.raises(LookupError):
        peer.link.feed(b"PONG\r\n")
    other.send(b"PING\r\n")
    assert other.received() == b"PONG\r\n"


# ---- misuse from Python is an exception, not a crash --------------------------------------------


def test_link_without_interest_raises_at_its_first_byte(plain_broker: Broker) -> None:
    link = ClientLink(plain_broker.router, plain_broker.peer().session)
    with pytest.raises(RuntimeError, match="interest"):
        link.feed(b"SUB a 1\r\n")
    link.detach()


def test_link_without_a_parser_raises_at_its_first_byte(plain_broker: Broker) -> None:
    link = Link(plain_broker.router, None)
    link.interest = plain_broker.interest
    with pytest.raises(RuntimeError, match="parser"):
        link.feed(b"x")
    link.detach()


def test_more_bytes_reported_than_there_was_room_end_the_link(plain_broker: Broker) -> None:
    for before in (b"", b"PUB a 100000\r\n"):
        peer = plain_broker.peer()
        peer.send(before)
        peer.link.received(len(peer.link.buffer()) + 1)
        assert isinstance(peer.session.called("failed")[0][0], ValueError)
        assert peer.link.is_closing


def test_detached_link_ignores_everything(plain_broker: Broker) -> None:
    peer = plain_broker.peer(QUIET + b"SUB a 1\r\nPUB a 40000\r\nxxx")
    link = peer.link
    link.detach()
    link.detach()
    link.doom(CloseReason.STALE_CONNECTION)
    link.feed(b"PING\r\n")
    link.hold()
    link.release()
    assert not link.send(b"x")
    assert link.take() == b""
    assert link.subscriptions() == []
    assert len(link.buffer()) > 0
    link.received(0)
    link.discard()
    link.drop_subscriptions()
    assert link.release_if_drained()
    assert plain_broker.router.end_tick() == []


@pytest.mark.parametrize("before", [b"", b"PING\r\n"])
def test_link_dropped_without_detach_leaves_the_routers_lists(plain_broker: Broker, before: bytes) -> None:
    peer = plain_broker.peer(QUIET + before)
    peer.link.doom(CloseReason.STALE_CONNECTION)
    plain_broker._peers.clear()
    del peer
    gc.collect()
    assert plain_broker.router.end_tick() == []
