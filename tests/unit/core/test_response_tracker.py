"""Response permissions: how many, how long, how many at once."""

from __future__ import annotations

import pytest

from headrace.conf.account_options import Permissions, ResponsePermission
from headrace.core.permissions import PermissionSet, ResponseTracker


class ManualClock:
    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def tracker(
    clock: ManualClock, max_messages: int = 1, expires: float = 5.0, entries: int = 10
) -> ResponseTracker:
    return ResponseTracker(ResponsePermission(max_messages, expires), clock, entries)


def test_may_publish_reply_not_seen_is_refused(clock: ManualClock) -> None:
    assert not tracker(clock).may_publish(b"r")


@pytest.mark.parametrize("permitted", [1, 3])
def test_may_publish_as_often_as_permitted(clock: ManualClock, permitted: int) -> None:
    replies = tracker(clock, max_messages=permitted)
    replies.track(b"r")
    assert [replies.may_publish(b"r") for _ in range(permitted + 2)] == [True] * permitted + [False] * 2
    assert len(replies) == 0


def test_may_publish_without_limit_is_permitted_forever(clock: ManualClock) -> None:
    replies = tracker(clock, max_messages=-1, expires=0)
    replies.track(b"r")
    clock.advance(10**6)
    assert all(replies.may_publish(b"r") for _ in range(100))


def test_may_publish_after_expiry_is_refused(clock: ManualClock) -> None:
    replies = tracker(clock)
    replies.track(b"r")
    clock.advance(5)
    replies.track(b"s")
    clock.advance(0.001)
    assert not replies.may_publish(b"r")
    assert replies.may_publish(b"s")


def test_track_again_grants_anew(clock: ManualClock) -> None:
    replies = tracker(clock)
    replies.track(b"r")
    clock.advance(4)
    replies.track(b"r")
    clock.advance(4)
    assert replies.may_publish(b"r")
    assert not replies.may_publish(b"r")


def test_track_forgets_what_has_expired(clock: ManualClock) -> None:
    replies = tracker(clock)
    for number in range(5):
        replies.track(b"r%d" % number)
    clock.advance(6)
    replies.track(b"x")
    assert len(replies) == 1


def test_track_at_the_limit_forgets_the_oldest(clock: ManualClock) -> None:
    replies = tracker(clock, entries=3)
    for reply in (b"1", b"2", b"1", b"3", b"4"):
        replies.track(reply)
    assert len(replies) == 3
    assert not replies.may_publish(b"2")
    assert [replies.may_publish(reply) for reply in (b"1", b"3", b"4")] == [True, True, True]


def test_response_tracker_of_a_permission_set_uses_its_limits(clock: ManualClock) -> None:
    permissions = PermissionSet(Permissions(allow_responses=ResponsePermission(2, 1.0)))
    replies = permissions.response_tracker(clock)
    assert replies is not None
    replies.track(b"r")
    assert [replies.may_publish(b"r") for _ in range(3)] == [True, True, False]
