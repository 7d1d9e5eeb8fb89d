"""The cache of plans: what is kept, what makes it stale, what bounds it; always with the right answer.

Source: docs/adr/0005-plan-cache.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_peers import QUIET

if TYPE_CHECKING:
    from engine_peers import Broker, Peer


def statistics(broker: Broker, *names: str) -> tuple[int, ...]:
    statistics = broker.interest.statistics()
    return tuple(statistics[name] for name in names)


def subscribe(peer: Peer, *subjects: bytes, first_sid: int = 1) -> None:
    peer.link.feed(b"".join(b"SUB %b %d\r\n" % (s, n) for n, s in enumerate(subjects, first_sid)))


def test_plan_is_kept_when_a_subject_misses_twice_in_a_row(plain_broker: Broker) -> None:
    subscribe(plain_broker.peer(), b"a")
    for kept in (0, 1, 1, 1):
        assert plain_broker.interest.receivers(b"a") == (1, 0)
        assert statistics(plain_broker, "cached_plans") == (kept,)
    assert statistics(plain_broker, "matches", "hits", "misses") == (4, 2, 2)


def test_subjects_used_once_are_not_kept(plain_broker: Broker) -> None:
    for n in range(500):
        plain_broker.interest.receivers(b"_INBOX.%d" % n)
    assert statistics(plain_broker, "cached_plans", "misses") == (0, 500)


CHANGES = {
    "the literal subject": (b"a.b", True),
    "a wildcard in its first token's bucket": (b"a.*", True),
    "a wildcard at the end": (b"a.>", True),
    "a wildcard at the start": (b"*.b", True),
    "everything": (b">", True),
    "another literal": (b"a.c", False),
    "a longer literal": (b"a.b.c", False),
    "a wildcard that does not match": (b"a.*.c", False),
    "a literal that looks like a wildcard": (b"a*", False),
}


@pytest.mark.parametrize("queue", [b"", b"q "])
@pytest.mark.parametrize("case", CHANGES)
def test_kept_plan_follows_what_comes_and_goes(plain_broker: Broker, case: str, queue: bytes) -> None:
    subject, matches = CHANGES[case]
    peer, steady = plain_broker.peer(), plain_broker.peer(QUIET + b"SUB a.b s 1\r\nSUB a.b 2\r\n")
    for _ in range(4):
        assert plain_broker.interest.receivers(b"a.b") == (1, 1)
    for sid in range(5):
        peer.link.feed(b"SUB " + subject + b" " + queue + b"%d\r\n" % sid)
        added = (0, 1) if queue else (1, 0)
        for _ in range(3):
            expected = (1 + added[0], 1 + added[1]) if matches else (1, 1)
            assert plain_broker.interest.receivers(b"a.b") == expected
        peer.link.feed(b"UNSUB %d\r\n" % sid)
        for _ in range(3):
            assert plain_broker.interest.receivers(b"a.b") == (1, 1)
    steady.link.detach()
    assert plain_broker.interest.receivers(b"a.b") == (0, 0)


def test_literal_subscriptions_elsewhere_do_not_disturb_a_kept_plan(plain_broker: Broker) -> None:
    """One-time inboxes come and go beside a steady subject."""
    peer = plain_broker.peer(QUIET + b"SUB steady 1\r\n")
    plain_broker.interest.receivers(b"steady")
    plain_broker.interest.receivers(b"steady")
    before = statistics(plain_broker, "misses")
    for n in range(1000):
        peer.link.feed(b"SUB _INBOX.%d x\r\nUNSUB x\r\n" % n)
        assert plain_broker.interest.receivers(b"steady") == (1, 0)
    assert statistics(plain_broker, "misses") == before


def test_wildcards_under_another_first_token_do_not_disturb_a_kept_plan(plain_broker: Broker) -> None:
    peer = plain_broker.peer(QUIET + b"SUB steady 1\r\n")
    for _ in range(2):
        plain_broker.interest.receivers(b"steady")
    missed = 0
    for n in range(200):
        before = statistics(plain_broker, "misses")
        peer.link.feed(b"SUB other%d.* x\r\nUNSUB x\r\n" % n)
        plain_broker.interest.receivers(b"steady")
        missed += statistics(plain_broker, "misses") != before
    assert missed < 20  # two of 256 buckets may meet


def test_cache_widens_when_fresh_plans_push_each_other_out(plain_broker: Broker) -> None:
    subscribe(plain_broker.peer(), *(b"s.%d" % n for n in range(6000)), b"s.*")
    for _ in range(12):
        for n in range(6000):
            plain_broker.interest.receivers(b"s.%d" % n)
            plain_broker.interest.receivers(b"s.%d" % n)
    slots, plans = statistics(plain_broker, "cache_slots", "cached_plans")
    assert 4096 <= slots <= 65_536
    assert 2000 < plans <= 6000
    assert all(plain_broker.interest.receivers(b"s.%d" % n) == (2, 0) for n in range(6000))


def test_cache_does_not_widen_without_end(plain_broker: Broker) -> None:
    peer = plain_broker.peer(QUIET + b"SUB > 1\r\n")
    subjects = [b"s.%d" % n for n in range(90_000)]
    for _ in range(5):
        for subject in subjects:
            plain_broker.interest.receivers(subject)
            plain_broker.interest.receivers(subject)
    slots, plans = statistics(plain_broker, "cache_slots", "cached_plans")
    assert slots == 65_536
    assert plans <= slots
    peer.link.detach()
    assert all(plain_broker.interest.receivers(subject) == (0, 0) for subject in subjects[:1000])


def test_cache_is_emptied_before_its_plans_name_too_many_subscriptions(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    count = 20_000
    peer.link.feed(b"".join(b"SUB > %d\r\n" % n for n in range(count)))
    kept = []
    for n in range(300):
        for _ in range(2):
            assert plain_broker.interest.receivers(b"s.%d" % n) == (count, 0)
        kept.append(statistics(plain_broker, "cached_plans")[0])
    assert max(kept) * count <= 1 << 22
    assert min(kept[210:]) < max(kept)
    assert plain_broker.interest.receivers(b"s.299") == (count, 0)


def test_plan_of_a_very_long_subject_is_not_kept(plain_broker: Broker) -> None:
    """The text of plans is bounded too: a peer cannot fill the heap with subjects."""
    subject = b"s." * 2000 + b"s"
    plain_broker.peer(QUIET + b"SUB s.> 1\r\n")
    for _ in range(5):
        assert plain_broker.interest.receivers(subject) == (1, 0)
    assert statistics(plain_broker, "cached_plans") == (0,)


def test_statistics_follow_what_happened(plain_broker: Broker) -> None:
    peer = plain_broker.peer(QUIET + b"SUB a 1\r\nSUB a 2\r\nSUB b q 3\r\nUNSUB 2\r\n")
    peer.send(b"PUB a 0\r\n\r\nPUB a 0\r\n\r\nPUB b 0\r\n\r\n")
    assert statistics(plain_broker, "subscriptions", "inserts", "removes") == (2, 3, 1)
    assert statistics(plain_broker, "fanout_max", "fanout_total") == (1, 3)


def test_mapper_makes_every_change_count(plain_broker: Broker) -> None:
    plain_broker.interest.mapper = lambda subject: (b"to." + subject, True)
    peer = plain_broker.peer()
    for sid in range(3):
        assert plain_broker.interest.receivers(b"x") == (0, 0)
        peer.link.feed(b"SUB to.x %d\r\n" % sid)
        assert plain_broker.interest.receivers(b"x") == (1, 0)
        peer.link.feed(b"UNSUB %d\r\n" % sid)
    assert plain_broker.interest.receivers(b"x") == (0, 0)
