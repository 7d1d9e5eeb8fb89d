"""A mapper on an account's interest: the subject a message is delivered as, lasting or drawn each time."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import pytest
from engine_peers import NO_RESPONDERS, QUIET

from headrace.engine.permission_cache import PermissionCache

if TYPE_CHECKING:
    from engine_peers import Broker

PUBLISH = b"PUB old.x 1\r\nx\r\n"


class Mapper:
    def __init__(self, **targets: tuple[bytes, bool]) -> None:
        self.targets = {name.encode().replace(b"_", b"."): target for name, target in targets.items()}
        self.asked: list[bytes] = []

    def __call__(self, subject: bytes) -> tuple[bytes, bool] | None:
        self.asked.append(subject)
        return self.targets.get(subject)


def test_mapped_message_is_delivered_under_its_new_subject_only(broker: Broker) -> None:
    broker.interest.mapper = Mapper(old_x=(b"new.x", True))
    peer = broker.peer(QUIET + b"SUB old.x 1\r\nSUB new.* 2\r\nSUB new.x q 3\r\n")
    peer.send(PUBLISH)
    assert sorted(peer.received().split(b"MSG ")[1:]) == [b"new.x 2 1\r\nx\r\n", b"new.x 3 1\r\nx\r\n"]


def test_lasting_answer_is_asked_for_until_the_plan_is_kept(broker: Broker) -> None:
    mapper = broker.interest.mapper = Mapper(old_x=(b"new.x", True))
    peer = broker.peer(QUIET + b"SUB new.x 1\r\n" + PUBLISH * 10)
    assert peer.received() == b"MSG new.x 1 1\r\nx\r\n" * 10
    assert mapper.asked == [b"old.x"] * 2


def test_answer_that_does_not_last_is_asked_for_each_time(broker: Broker) -> None:
    draws = cycle([b"new.a", b"new.b"])
    broker.interest.mapper = lambda _subject: (next(draws), False)
    peer = broker.peer(QUIET + b"SUB new.> 1\r\n" + PUBLISH * 6)
    assert peer.received() == b"MSG new.a 1 1\r\nx\r\nMSG new.b 1 1\r\nx\r\n" * 3


def test_subject_without_a_mapping_keeps_its_name(broker: Broker) -> None:
    broker.interest.mapper = Mapper()
    peer = broker.peer(QUIET + b"SUB old.x 1\r\n" + PUBLISH * 3)
    assert peer.received() == b"MSG old.x 1 1\r\nx\r\n" * 3


def test_subscription_after_the_plan_was_kept_is_found_under_the_new_subject(broker: Broker) -> None:
    broker.interest.mapper = Mapper(old_x=(b"new.x", True))
    peer = broker.peer(QUIET + PUBLISH * 5 + b"SUB new.x 1\r\n" + PUBLISH + b"UNSUB 1\r\n" + PUBLISH)
    assert peer.received() == b"MSG new.x 1 1\r\nx\r\n"


def test_message_mapped_to_nothing_reaches_nobody(broker: Broker) -> None:
    broker.interest.mapper = Mapper(old_x=(b"", True))
    peer = broker.peer(QUIET + b"SUB > 1\r\n" + PUBLISH * 3)
    assert peer.received() == b""


def test_mapper_that_is_set_later_and_taken_away_counts_at_once(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB > 1\r\n" + PUBLISH * 3)
    mapper = Mapper(old_x=(b"new.x", True))
    broker.interest.mapper = mapper
    assert broker.interest.mapper is mapper
    peer.send(PUBLISH * 3)
    broker.interest.mapper = None
    peer.send(PUBLISH * 3)
    expected = [b"old.x"] * 3 + [b"new.x"] * 3 + [b"old.x"] * 3
    assert [frame.split()[0] for frame in peer.received().split(b"MSG ")[1:]] == expected


def test_request_mapped_to_nobody_is_answered_with_the_subject_it_was_mapped_to(broker: Broker) -> None:
    broker.interest.mapper = Mapper(old_x=(b"new.x", True))
    peer = broker.peer(NO_RESPONDERS + b"SUB r 1\r\nPUB old.x r 0\r\n\r\n")
    assert b"Nats-Subject: new.x\r\n" in peer.received()


def test_publish_is_judged_by_the_subject_it_was_mapped_to(broker: Broker) -> None:
    broker.interest.mapper = Mapper(old_x=(b"new.x", True), old_y=(b"no", True), old_z=(b"", True))
    peer = broker.peer(QUIET + b"SUB > 1\r\n")
    peer.link.restrict(PermissionCache(lambda subject: subject.startswith(b"new")), None, False, False)
    peer.send(PUBLISH + b"PUB old.y 0\r\n\r\nPUB old.z 0\r\n\r\nPUB new.y 0\r\n\r\n")
    refused = b"-ERR 'Permissions Violation for Publish to \"%b\"'\r\n"
    lost = refused % b""  # what is lost has no subject, which no list allows
    assert peer.received() == b"MSG new.x 1 1\r\nx\r\n" + refused % b"no" + lost + b"MSG new.y 1 0\r\n\r\n"


@pytest.mark.parametrize("answer", [b"new.x", (b"new.x",), (None, True), ("new.x", True), 7])
def test_mapper_with_an_answer_of_the_wrong_shape_fails(plain_broker: Broker, answer: object) -> None:
    plain_broker.interest.mapper = lambda _subject: answer
    peer = plain_broker.peer()
    with pytest.raises((TypeError, ValueError)):
        peer.link.feed(PUBLISH)
