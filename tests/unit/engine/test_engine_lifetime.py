"""What the engine takes it gives back, in whatever order things end."""

from __future__ import annotations

import gc
import random
import weakref

import pytest
from engine_peers import QUIET, Broker, Session

from headrace.engine.client import ClientLink
from headrace.engine.interest import Interest
from headrace.engine.link import Router
from headrace.engine.memory import live_objects
from headrace.engine.permission_cache import PermissionCache


def random_subject(rng: random.Random) -> bytes:
    parts = [rng.choice((b"a", b"b", b"c%d" % rng.randrange(50), b"*")) for _ in range(rng.randrange(1, 6))]
    return b".".join([*parts, b">"] if rng.random() < 0.2 else parts)


def test_subscriptions_removed_in_random_order_leave_no_node(plain_broker: Broker) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed={seed}")
    rng = random.Random(seed)
    peers = [plain_broker.peer() for _ in range(5)]
    before = live_objects()
    for _ in range(3):
        taken = [(rng.choice(peers), b"%d" % sid) for sid in range(4000)]
        for peer, sid in taken:
            queue = rng.choice((b"", b"", b"q ", b"q%d " % rng.randrange(100)))
            peer.link.feed(b"SUB " + random_subject(rng) + b" " + queue + sid + b"\r\n")
        assert live_objects()["subs"] == before["subs"] + 4000
        rng.shuffle(taken)
        for n, (peer, sid) in enumerate(taken):
            peer.link.feed(b"UNSUB " + sid + b"\r\n")
            if n % 100 == 0:
                plain_broker.interest.receivers(random_subject(rng).replace(b"*", b"a").replace(b">", b"a"))
        plain_broker.end_tick()
        after = live_objects()
        assert (after["subs"], after["nodes"]) == (before["subs"], before["nodes"])
        assert plain_broker.interest.statistics()["subscriptions"] == 0


def test_subscriptions_are_given_back_at_the_end_of_the_tick(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    before = live_objects()["subs"]
    peer.send(b"SUB a 1\r\nSUB b 2\r\nUNSUB 1\r\n")
    assert live_objects()["subs"] == before + 2
    plain_broker.end_tick()
    assert live_objects()["subs"] == before + 1


def test_plans_are_given_back_with_their_interest(plain_broker: Broker) -> None:
    for n in range(3000):
        plain_broker.interest.receivers(b"s.%d" % n)
        plain_broker.interest.receivers(b"s.%d" % n)
    assert live_objects()["plans"] > 500


@pytest.mark.parametrize("order", ["link first", "interest first", "router first"])
def test_parts_may_be_dropped_in_any_order(order: str) -> None:
    parts = {"router": Router(), "interest": Interest()}
    link = ClientLink(parts["router"], None)
    link.interest = parts["interest"]
    link.feed(b"SUB a 1\r\nSUB a q 2\r\nSUB b.> 3\r\n")
    link.restrict(PermissionCache(lambda _key: True), PermissionCache(lambda _key: True), False, False)
    link.feed(b"PUB a 1\r\nx\r\nPUB a 100000\r\nxxx")
    if order == "link first":
        del link
    elif order == "interest first":
        parts.pop("interest")
        del link
    parts.clear()


def test_cycle_of_session_link_and_account_is_collected() -> None:
    class Account:
        def __init__(self) -> None:
            self.interest = Interest()
            self.interest.mapper = self.mapped
            self.links: list[ClientLink] = []

        def mapped(self, _subject: bytes) -> None:
            return None

    gc.collect()
    before = live_objects()["subs"]
    router, account = Router(), Account()
    for _ in range(3):
        session = Session()
        session.link = ClientLink(router, session)
        session.link.interest = account.interest
        session.link.restrict(PermissionCache(session.may_publish), None, False, False)
        account.links.append(session.link)
        session.link.feed(QUIET + b"SUB a 1\r\nSUB a.> q 2\r\n" + b"PUB a 1\r\nx\r\n" * 3)
    gone = weakref.ref(account)
    del session, account
    gc.collect()
    assert gone() is None
    router.end_tick()
    assert live_objects()["subs"] == before


def test_carry_outbox_and_table_are_given_back_by_detach(plain_broker: Broker) -> None:
    plain_broker.peer(QUIET + b"SUB a 1\r\nPUB a 0\r\n\r\nUNSUB 1\r\n")  # the interest has its scratch memory
    plain_broker.end_tick()
    before = live_objects()["blocks"]
    peer = plain_broker.peer()
    peer.send(b"SUB b 1\r\n" + b"PUB b 5000\r\n" + b"x" * 5000 + b"\r\nPUB a 90000\r\nxyz")
    assert live_objects()["blocks"] > before
    peer.link.detach()
    plain_broker.end_tick()
    assert live_objects()["blocks"] <= before


def test_cached_permissions_are_given_back() -> None:
    permissions = PermissionCache(lambda _key: True)
    for n in range(3000):
        permissions(b"key %d" % n)
    assert live_objects()["blocks"] > 500
    del permissions
    assert live_objects()["blocks"] < 500
