"""SUB and UNSUB: subjects, sids, limits, queue groups.

Source: client protocol specification, sections 5 and 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_peers import FILTERED, QUIET, REFUSED

if TYPE_CHECKING:
    from engine_peers import Broker

VALID = [
    b"a",
    b"a.b",
    b"*",
    b">",
    b"a.*",
    b"*.b",
    b"a.>",
    b"*.>",
    b"*.*",
    b"foo*",
    b"f>",
    b">x.a",
    b"a.*b",
    b"*>",
]
INVALID = [b"a..b", b".a", b"a.", b".", b"..", b">.a", b"a.>.b", b">.>", b"*..", b".>"]


@pytest.mark.parametrize("subject", VALID)
def test_sub_with_a_valid_subject_is_kept(broker: Broker, subject: bytes) -> None:
    peer = broker.peer(b"CONNECT {}\r\n")
    peer.send(b"SUB " + subject + b" 1\r\n")
    assert peer.received() == b"+OK\r\n+OK\r\n"
    assert peer.link.subscriptions() == [(subject, None, b"1", 0, 0)]


@pytest.mark.parametrize("subject", INVALID)
@pytest.mark.parametrize("queue", [b"", b" q"])
def test_sub_with_an_invalid_subject_is_refused_and_the_link_stays(
    broker: Broker, subject: bytes, queue: bytes
) -> None:
    peer = broker.peer(b"CONNECT {}\r\n")
    peer.send(b"SUB " + subject + queue + b" 1\r\nPING\r\n")
    assert peer.received() == b"+OK\r\n-ERR 'Invalid Subject'\r\nPONG\r\n"
    assert peer.link.subscriptions_count == 0


MATCHES = [
    (b"a", b"a", True),
    (b"a", b"A", False),
    (b"a", b"a.b", False),
    (b"a.b", b"a", False),
    (b"*", b"a", True),
    (b"*", b"a.b", False),
    (b"a.*", b"a.b", True),
    (b"a.*", b"a", False),
    (b"a.*", b"a.b.c", False),
    (b"*.b", b"a.b", True),
    (b"*.b", b"a.c", False),
    (b"*.*", b"a.b", True),
    (b">", b"a", True),
    (b">", b"a.b.c", True),
    (b"a.>", b"a", False),
    (b"a.>", b"a.b", True),
    (b"a.>", b"a.b.c", True),
    (b"*.>", b"a.b.c", True),
    (b"*.>", b"a", False),
    (b"a.*.c", b"a.b.c", True),
    (b"a.*.c", b"a.b.d", False),
    (b"foo*", b"foo*", True),
    (b"foo*", b"foobar", False),
    (b"f>", b"f>", True),
    (b"f>", b"f.x", False),
    (b"a.*", b"a.*", True),
    (b"a.>", b"a.*", True),
    (b"a.b", b"a.*", False),
    (b">", b">", True),
    (b"*", b">", True),
    (b"a", b">", False),
    (b">", b"a..b", False),
    (b"a.*.b", b"a..b", False),
    (b">", b".", False),
    (b"a.>", b"a.", False),
]


@pytest.mark.parametrize(("pattern", "subject", "matches"), MATCHES)
def test_subscription_matches_as_specified(
    broker: Broker, pattern: bytes, subject: bytes, matches: bool
) -> None:
    peer = broker.peer()
    peer.send(b"SUB " + pattern + b" 1\r\n" + (b"PUB " + subject + b" 1\r\nx\r\n") * 4)
    assert peer.received() == (b"MSG " + subject + b" 1 1\r\nx\r\n") * 4 * matches


def test_two_sids_on_one_subject_both_get_the_message(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB a 1\r\nSUB a 2\r\n")
    peer.send(b"PUB a 0\r\n\r\n")
    assert sorted(peer.received().split(b"MSG ")) == [b"", b"a 1 0\r\n\r\n", b"a 2 0\r\n\r\n"]


def test_sid_in_use_is_acknowledged_and_ignored(broker: Broker) -> None:
    peer = broker.peer(b"CONNECT {}\r\nSUB a 1\r\nSUB b 1\r\nSUB a..b 1\r\n")
    assert peer.received() == b"+OK\r\n" * 4
    peer.send(b"PUB b 0\r\n\r\nPUB a 0\r\n\r\n")
    assert peer.received() == b"+OK\r\n+OK\r\nMSG a 1 0\r\n\r\n"


def test_sids_of_two_clients_do_not_meet(broker: Broker) -> None:
    one, two = broker.peer(QUIET + b"SUB a 1\r\n"), broker.peer(QUIET + b"SUB b 1\r\n")
    one.send(b"PUB b 0\r\n\r\nUNSUB 1\r\nPUB b 0\r\n\r\n")
    assert (one.received(), two.received()) == (b"", b"MSG b 1 0\r\n\r\n" * 2)


def test_unsub_removes_and_frees_the_sid(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB a 1\r\nUNSUB 1\r\nPUB a 0\r\n\r\nSUB b 1\r\nPUB b 0\r\n\r\n")
    assert peer.received() == b"MSG b 1 0\r\n\r\n"


def test_unsub_of_an_unknown_sid_is_acknowledged(broker: Broker) -> None:
    peer = broker.peer(b"CONNECT {}\r\nUNSUB 9\r\nUNSUB 9 1\r\n")
    assert peer.received() == b"+OK\r\n" * 3


LIMITED = {
    "after two": (b"UNSUB 1 2\r\n", 0, 2),
    "counted from SUB": (b"UNSUB 1 3\r\n", 2, 3),
    "already reached": (b"UNSUB 1 2\r\n", 2, 2),
    "already passed": (b"UNSUB 1 1\r\n", 2, 2),
    "zero": (b"UNSUB 1 0\r\n", 0, 0),
    "not a number": (b"UNSUB 1 x\r\n", 0, 0),
    "negative": (b"UNSUB 1 -1\r\n", 0, 0),
    "too many digits": (b"UNSUB 1 1234567890\r\n", 0, 0),
    "raised": (b"UNSUB 1 2\r\nUNSUB 1 4\r\n", 0, 4),
    "lowered": (b"UNSUB 1 4\r\nUNSUB 1 2\r\n", 0, 2),
    "replaced by none": (b"UNSUB 1 5\r\nUNSUB 1\r\n", 1, 1),
}


@pytest.mark.parametrize("case", LIMITED)
def test_auto_unsubscribe_delivers_up_to_the_limit(broker: Broker, case: str) -> None:
    unsub, before, expected = LIMITED[case]
    publish = b"PUB a 0\r\n\r\n"
    peer = broker.peer(QUIET + b"SUB a 1\r\n" + publish * before + unsub + publish * 9)
    assert peer.received() == b"MSG a 1 0\r\n\r\n" * expected
    assert peer.link.subscriptions_count == 0
    peer.send(b"SUB a 1\r\n" + publish)
    assert peer.received() == b"MSG a 1 0\r\n\r\n"


def test_auto_unsubscribe_shows_in_the_list(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB a q 1\r\nUNSUB 1 5\r\nPUB a 0\r\n\r\n")
    assert peer.link.subscriptions() == [(b"a", b"q", b"1", 1, 5)]


def test_auto_unsubscribe_of_one_of_two_on_a_subject_keeps_the_other(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB a 1\r\nSUB a 2\r\nUNSUB 1 1\r\n" + b"PUB a 0\r\n\r\n" * 3)
    assert sorted(peer.received().split(b"MSG ")[1:]) == [b"a 1 0\r\n\r\n"] + [b"a 2 0\r\n\r\n"] * 3


def test_queue_group_gives_each_message_to_one_member(broker: Broker) -> None:
    members = [broker.peer(QUIET + b"SUB a q %d\r\n" % n) for n in range(3)]
    broker.peer().send(b"PUB a 0\r\n\r\n" * 300)
    counts = [member.received().count(b"MSG a") for member in members]
    assert sum(counts) == 300
    assert min(counts) > 50


def test_queue_groups_of_different_names_each_get_one(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB a q 1\r\nSUB a w 2\r\nSUB a w 2x\r\nSUB a 3\r\nPUB a 0\r\n\r\n")
    sids = sorted(frame.split()[1][:1] for frame in peer.received().split(b"MSG ")[1:])
    assert sids == [b"1", b"2", b"3"]


def test_queue_groups_of_one_name_on_several_patterns_are_one_group(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB a.b q 1\r\nSUB a.* q 2\r\nSUB > q 3\r\nSUB *.b w 4\r\n")
    peer.send(b"PUB a.b 0\r\n\r\n" * 100)
    sids = [frame.split()[1] for frame in peer.received().split(b"MSG ")[1:]]
    assert len(sids) == 200
    assert sids.count(b"4") == 100
    assert set(sids) == {b"1", b"2", b"3", b"4"}
    assert broker.interest.receivers(b"a.b") == (0, 2)


def test_queue_member_that_cannot_take_it_is_skipped(broker: Broker) -> None:
    silent = broker.peer(b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\nSUB a q 1\r\n')
    other = broker.peer(QUIET + b"SUB a q 2\r\n")
    silent.send(b"PUB a 0\r\n\r\n" * 20)
    assert silent.received() == b""
    assert other.received() == b"MSG a 2 0\r\n\r\n" * 20


def test_queue_group_of_nobody_who_can_take_it_gets_nothing(broker: Broker) -> None:
    peer = broker.peer(
        b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\nSUB a q 1\r\nSUB a q 2\r\n'
    )
    peer.send(b"PUB a 0\r\n\r\n")
    assert peer.received() == b""


def test_queue_member_with_a_limit_leaves_the_group(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB a q 1\r\nUNSUB 1 2\r\nSUB a q 2\r\n" + b"PUB a 0\r\n\r\n" * 50)
    sids = [frame.split()[1] for frame in peer.received().split(b"MSG ")[1:]]
    assert sids.count(b"1") == 2
    assert sids.count(b"2") == 48


@pytest.mark.parametrize("subject", [b"a", b"a.*"])
def test_subscriptions_left_on_a_subject_are_just_those_not_removed(broker: Broker, subject: bytes) -> None:
    peer = broker.peer(b"".join([QUIET, *(b"SUB %b %d\r\n" % (subject, n) for n in range(40))]))
    for gone in (7, 39, 0, 38, 20, 1, 37):
        peer.send(b"UNSUB %d\r\n" % gone)
    peer.send(b"PUB " + subject.replace(b"*", b"x") + b" 0\r\n\r\n")
    got = sorted(int(frame.split()[1]) for frame in peer.received().split(b"MSG ")[1:])
    assert got == [n for n in range(40) if n not in (7, 39, 0, 38, 20, 1, 37)]


def test_members_left_in_a_queue_group_are_just_those_not_removed(broker: Broker) -> None:
    peer = broker.peer(b"".join([QUIET, *(b"SUB a q %d\r\n" % n for n in range(9))]))
    for gone in (2, 8, 0, 7):
        peer.send(b"UNSUB %d\r\n" % gone)
    peer.send(b"PUB a 0\r\n\r\n" * 300)
    got = [int(frame.split()[1]) for frame in peer.received().split(b"MSG ")[1:]]
    assert (len(got), set(got)) == (300, {1, 3, 4, 5, 6})


def test_session_is_asked_about_subscriptions_when_restricted(broker: Broker) -> None:
    peer = broker.peer()
    permissions = {b"no": REFUSED, b"some.>": FILTERED}
    peer.session.hooks["subscribe_permission"] = lambda subject, queue: permissions.get(subject, 1)
    peer.link.restrict(None, None, True, False)
    peer.send(b"SUB no 1\r\nSUB yes q 2\r\nSUB some.> 3\r\n")
    assert peer.session.called("subscribe_permission") == [(b"no", None), (b"yes", b"q"), (b"some.>", None)]
    assert sorted(row[0] for row in peer.link.subscriptions()) == [b"some.>", b"yes"]


def test_subscriptions_count_and_order_survive_many_sids(broker: Broker) -> None:
    peer = broker.peer()
    peer.send(b"".join(b"SUB s.%d sid%d\r\n" % (n, n) for n in range(300)))
    peer.send(b"".join(b"UNSUB sid%d\r\n" % n for n in range(0, 300, 3)))
    assert peer.link.subscriptions_count == 200
    assert {row[2] for row in peer.link.subscriptions()} == {b"sid%d" % n for n in range(300) if n % 3}
    peer.send(b"PUB s.3 0\r\n\r\nPUB s.4 0\r\n\r\n")
    assert peer.received() == b"MSG s.4 sid4 0\r\n\r\n"
