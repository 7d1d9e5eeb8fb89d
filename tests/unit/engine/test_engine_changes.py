"""What may change about a link while it is used: its limits, its subscriptions, whether a CONNECT is due."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from account_spaces import Spaces
from engine_peers import QUIET, Broker

from headrace.engine.permission_cache import PermissionCache
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSED, ALLOWED, FILTERED = 0, 1, 2


@pytest.fixture
def spaces(broker: Broker) -> Iterator[Spaces]:
    spaces = Spaces(broker)
    yield spaces
    spaces.stop()


def test_subscriptions_are_judged_again(broker: Broker) -> None:
    peer = broker.peer().send(b"SUB a 1\r\nSUB a q 2\r\nSUB b 33\r\n")
    asked: list[tuple[bytes, bytes | None]] = []

    def judge(subject: bytes, queue: bytes | None) -> int:
        asked.append((subject, queue))
        return REFUSED if queue else ALLOWED

    assert peer.link.judge_subscriptions(judge) == [(b"a", b"q", b"2")]

    assert sorted(asked, key=str) == [(b"a", None), (b"a", b"q"), (b"b", None)]
    peer.send(b"PUB a 1\r\n.\r\nPUB b 1\r\n.\r\n")
    assert peer.received() == b"MSG a 1 1\r\n.\r\nMSG b 33 1\r\n.\r\n"
    peer.send(b"SUB a q 2\r\nUNSUB 1\r\nPUB a 1\r\n.\r\n")  # the sid is free again
    assert peer.received() == b"MSG a 2 1\r\n.\r\n"


def test_judge_that_raises_has_removed_nothing(plain_broker: Broker) -> None:
    peer = plain_broker.peer().send(b"SUB a 1\r\nSUB b 2\r\n")

    def judge(subject: bytes, queue: bytes | None) -> int:
        raise ValueError(subject)

    with pytest.raises(ValueError, match=r"[ab]"):
        peer.link.judge_subscriptions(judge)
    assert peer.link.subscriptions_count == 2


def test_filter_comes_and_goes_with_the_judgement(spaces: Spaces) -> None:
    """For what comes from the account itself, and for what another one exports."""
    spaces.b.import_stream(spaces.a, b"x.>")
    b = spaces.b.peer().send(b"SUB x.> 1\r\n")
    a, own = spaces.a.peer(), spaces.b.peer()
    b.link.restrict(None, PermissionCache(lambda key: key != b"x.no"), True, False)

    def published() -> bytes:
        for peer in (a, own):
            peer.send(b"PUB x.no 1\r\n1\r\nPUB x.yes 1\r\n2\r\n")
        return b.received()

    both = b"MSG x.no 1 1\r\n1\r\nMSG x.yes 1 1\r\n2\r\n"
    assert published() == both * 2
    assert b.link.judge_subscriptions(lambda subject, queue: FILTERED) == []
    assert published() == b"MSG x.yes 1 1\r\n2\r\n" * 2
    assert b.link.judge_subscriptions(lambda subject, queue: ALLOWED) == []
    assert published() == both * 2
    assert len(b.link.judge_subscriptions(lambda subject, queue: REFUSED)) == 1
    assert published() == b""
    assert spaces.a.interest.statistics()["subscriptions"] == 0


@pytest.mark.parametrize("seed", range(10))
def test_many_subscriptions_are_judged(plain_broker: Broker, seed: int) -> None:
    draw = random.Random(seed)
    peer = plain_broker.peer()
    sids = draw.sample(range(10_000), draw.randint(1, 200))
    peer.send(b"".join(b"SUB s.%d %d\r\n" % (sid, sid) for sid in sids))
    kept = {sid for sid in sids if draw.random() < 0.5}

    removed = peer.link.judge_subscriptions(lambda subject, queue: int(subject[2:]) in kept)

    assert {int(sid) for _, _, sid in removed} == set(sids) - kept
    assert {int(sid) for _, _, sid, _, _ in peer.link.subscriptions()} == kept
    peer.send(b"".join(b"PUB s.%d 1\r\n.\r\n" % sid for sid in sids))
    assert peer.received().count(b"MSG") == len(kept)


def test_limits_of_ops_hold_from_the_next_one_on(broker: Broker) -> None:
    peer = broker.peer(max_control_line=60, max_subscription_tokens=2)
    peer.link.limit_ops(max_control_line=200, max_subscription_tokens=3)
    peer.send(b"SUB " + b"x" * 90 + b" 1\r\nSUB a.b.c 2\r\n")
    assert peer.received() == b""

    peer.link.limit_ops(max_control_line=60, max_subscription_tokens=0)
    peer.send(b"SUB a.b.c.d.e 3\r\n")
    assert peer.received() == b""
    peer.send(b"SUB " + b"x" * 90 + b" 4\r\n")
    assert peer.reason is CloseReason.MAX_CONTROL_LINE_EXCEEDED


def test_next_op_may_have_to_be_a_connect(broker: Broker) -> None:
    peer = broker.peer(b"").send(b"PING\r\n")
    peer.link.demand_connect()

    peer.send(QUIET + b"PING\r\n")
    assert peer.received() == b"PONG\r\n" * 2
    peer.link.demand_connect()
    peer.send(b"PING\r\n")
    assert peer.reason is CloseReason.AUTHENTICATION_VIOLATION


def test_bound_of_what_waits_may_change(plain_broker: Broker) -> None:
    slow = plain_broker.peer().send(b"SUB a 1\r\n")
    other = plain_broker.peer()
    other.send(b"PUB a 3000\r\n" + b"x" * 3000 + b"\r\n")
    plain_broker.router.limit(max_pending=2000)
    assert slow.reason is CloseReason.NONE  # what waits may stay

    other.send(b"PUB a 1\r\n.\r\n")
    assert slow.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
