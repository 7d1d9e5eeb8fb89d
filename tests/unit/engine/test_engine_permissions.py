"""What a session's policy may say: permissions on publishes, subscriptions and deliveries, and replies noted.

Source: client protocol specification, section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_peers import FILTERED, QUIET, QUIET_WITH_HEADERS

from headrace.engine.memory import live_objects
from headrace.engine.permission_cache import PermissionCache

if TYPE_CHECKING:
    from engine_peers import Broker


class Policy:
    """Allows what is not listed, and counts questions."""

    def __init__(self, *denied: bytes) -> None:
        self.denied = denied
        self.asked: list[bytes] = []

    def __call__(self, key: bytes) -> bool:
        self.asked.append(key)
        return key not in self.denied


# ---- PermissionCache -----------------------------------------------------------------------------------


def test_cached_permissions_ask_once_per_key() -> None:
    policy = Policy(b"no")
    permissions = PermissionCache(policy)
    assert [permissions(key) for key in (b"yes", b"no", b"yes", b"no", b"")] == [
        True,
        False,
        True,
        False,
        True,
    ]
    assert policy.asked == [b"yes", b"no", b""]


def test_cached_permissions_keep_a_bounded_number_and_stay_right() -> None:
    policy = Policy(*(b"key.%d" % n for n in range(0, 5000, 7)))
    permissions = PermissionCache(policy)
    before = live_objects()["blocks"]
    for n in range(5000):
        assert permissions(b"key.%d" % n) is bool(n % 7)
        assert live_objects()["blocks"] - before <= 1 + 1024
    assert permissions(b"key.4999") is True
    assert len(policy.asked) == 5000
    assert permissions(b"key.0") is False
    assert len(policy.asked) == 5001


def test_cached_permissions_ask_about_long_keys_each_time() -> None:
    policy = Policy()
    permissions = PermissionCache(policy)
    for _ in range(3):
        assert permissions(b"k" * 512)
        assert permissions(b"k" * 513)
    assert len(policy.asked) == 1 + 3


def test_cached_permissions_pass_on_what_the_policy_raises() -> None:
    def fail(_key: bytes) -> bool:
        raise LookupError("no policy")

    permissions = PermissionCache(fail)
    with pytest.raises(LookupError):
        permissions(b"a")


def test_cached_permissions_may_be_asked_while_they_ask() -> None:
    def ask(key: bytes) -> bool:
        return permissions(key[1:]) if key else True

    permissions = PermissionCache(ask)
    assert permissions(b"x" * 40)
    assert permissions(b"x" * 41)


def test_restrict_refuses_what_is_no_cached_permissions(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    for arguments in [(bool, None), (None, object())]:
        with pytest.raises(TypeError):
            peer.link.restrict(*arguments, False, False)


# ---- publish ------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"PUB no 1\r\nx\r\n", b"pub  no  1\nx\r\n", b"HPUB no 0 1\r\nx\r\n"])
def test_publish_that_is_denied_is_dropped_without_ok(broker: Broker, line: bytes) -> None:
    peer = broker.peer(b'CONNECT {"pedantic":false,"headers":true}\r\nSUB > 1\r\n')
    peer.received()
    peer.link.restrict(PermissionCache(Policy(b"no")), None, False, False)
    peer.send(line + b"PUB yes 1\r\ny\r\n")
    refused = b"-ERR 'Permissions Violation for Publish to \"no\"'\r\n"
    assert peer.received() == refused + b"+OK\r\nMSG yes 1 1\r\ny\r\n"


def test_publish_that_the_session_lets_pass_is_delivered(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB > 1\r\n")
    peer.link.restrict(PermissionCache(Policy(b"r.1")), None, False, False)
    peer.session.hooks["publish_refused"] = lambda subject: subject == b"r.1"
    peer.send(b"PUB r.1 1\r\nx\r\n")
    assert peer.received() == b"MSG r.1 1 1\r\nx\r\n"


def test_publish_is_judged_once_per_subject(broker: Broker) -> None:
    policy = Policy()
    peer = broker.peer()
    peer.link.restrict(PermissionCache(policy), None, False, False)
    peer.send(b"PUB a 0\r\n\r\nPUB b 0\r\n\r\n" * 5)
    assert policy.asked == [b"a", b"b"]


def test_restriction_that_is_lifted_asks_no_more(broker: Broker) -> None:
    policy = Policy(b"a")
    peer = broker.peer(QUIET + b"SUB a 1\r\n")
    peer.link.restrict(PermissionCache(policy), None, True, True)
    peer.link.restrict(None, None, False, False)
    peer.send(b"PUB a 0\r\n\r\n")
    assert peer.received() == b"MSG a 1 0\r\n\r\n"
    assert policy.asked == []


# ---- delivery -----------------------------------------------------------------------------------


def test_filtered_subscription_is_checked_at_each_delivery(broker: Broker) -> None:
    policy = Policy(b"a.secret")
    subscriber, publisher = broker.peer(), broker.peer(QUIET_WITH_HEADERS)
    subscriber.session.hooks["subscribe_permission"] = lambda _subject, _queue: FILTERED
    subscriber.link.restrict(None, PermissionCache(policy), True, False)
    subscriber.send(b"SUB a.* 1\r\n")
    publisher.send(b"PUB a.open 1\r\nx\r\nPUB a.secret 1\r\ny\r\nHPUB a.secret 1 1\r\nz\r\n" * 3)
    assert subscriber.received() == b"MSG a.open 1 1\r\nx\r\n" * 3
    assert policy.asked == [b"a.open", b"a.secret"]


def test_filtered_queue_member_that_is_denied_is_skipped(broker: Broker) -> None:
    policy = Policy(b"a q")
    denied = broker.peer()
    denied.session.hooks["subscribe_permission"] = lambda _subject, _queue: FILTERED
    denied.link.restrict(None, PermissionCache(policy), True, False)
    denied.send(b"SUB a q 1\r\n")
    other = broker.peer(QUIET + b"SUB a q 2\r\n" + b"PUB a 0\r\n\r\n" * 30)
    assert denied.received() == b""
    assert other.received() == b"MSG a 2 0\r\n\r\n" * 30
    assert policy.asked == [b"a q"]


def test_filtered_subscription_without_cached_permissions_gets_everything(broker: Broker) -> None:
    peer = broker.peer()
    peer.session.hooks["subscribe_permission"] = lambda _subject, _queue: FILTERED
    peer.link.restrict(None, None, True, False)
    peer.send(b"SUB a 1\r\nPUB a 0\r\n\r\n")
    assert peer.received() == b"MSG a 1 0\r\n\r\n"


def test_replies_are_noted_of_delivered_messages_only(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"SUB a 1\r\n")
    peer.link.restrict(None, None, False, True)
    broker.peer().send(b"PUB a r.1 0\r\n\r\nPUB a 0\r\n\r\nPUB b r.2 0\r\n\r\nPUB  a  r.3 0\r\n\r\n")
    assert peer.session.called("note_reply") == [(b"r.1",), (b"r.3",)]


def test_policy_that_raises_reaches_the_caller_of_feed(plain_broker: Broker) -> None:
    def fail(_key: bytes) -> bool:
        raise LookupError("no policy")

    peer = plain_broker.peer()
    peer.link.restrict(PermissionCache(fail), None, False, False)
    with pytest.raises(LookupError):
        peer.link.feed(b"PUB a 0\r\n\r\n")


def test_policy_that_raises_ends_the_link_that_asked(plain_broker: Broker) -> None:
    def fail(_key: bytes) -> bool:
        raise LookupError("no policy")

    peer, other = plain_broker.peer(), plain_broker.peer(QUIET + b"SUB a 1\r\n")
    peer.link.restrict(PermissionCache(fail), None, False, False)
    data = b"PUB a 0\r\n\r\n"
    peer.link.buffer()[: len(data)] = data
    peer.link.received(len(data))
    assert isinstance(peer.session.called("failed")[0][0], LookupError)
    assert peer.link.is_closing
    assert not other.link.is_closing
