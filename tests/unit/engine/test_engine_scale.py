"""No single peer can make the engine work long: each of these took seconds with one quadratic step in it.

The bound is CPU seconds, about fifty times what each takes, so that only a quadratic step passes it.
"""

from __future__ import annotations

import random
import struct
from itertools import count
from time import process_time
from typing import TYPE_CHECKING

import pytest
from engine_peers import QUIET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_peers import Broker

MANY = 50_000
BOUND_SECONDS = 2.0


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    began = process_time()
    yield
    assert process_time() - began < BOUND_SECONDS


def test_second_connect_with_many_subscriptions_is_quick(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    peer.send(b"".join(b"SUB s.%d %d\r\n" % (n, n) for n in range(2 * MANY)))
    peer.send(QUIET)
    assert peer.link.subscriptions_count == 0


@pytest.mark.parametrize("subject", [b"s", b"s.*", b">"])
@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_many_subscriptions_on_a_subject_go_in_any_order(
    plain_broker: Broker, subject: bytes, order: str
) -> None:
    peer = plain_broker.peer()
    peer.send(b"".join(b"SUB " + subject + b" %d\r\n" % n for n in range(MANY)))
    sids = list(range(MANY))
    if order == "backward":
        sids.reverse()
    elif order == "shuffled":
        random.shuffle(sids)
    peer.send(b"".join(b"UNSUB %d\r\n" % sid for sid in sids))
    assert peer.link.subscriptions_count == 0


def test_many_queue_groups_on_one_subject_are_quick(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    peer.send(b"".join(b"SUB s q%d %d\r\n" % (n, n) for n in range(MANY)))
    assert plain_broker.interest.receivers(b"s") == (0, MANY)
    peer.send(b"".join(b"UNSUB %d\r\n" % n for n in range(MANY)))
    assert plain_broker.interest.receivers(b"s") == (0, 0)


def test_many_queue_groups_of_the_same_names_on_two_patterns_are_merged(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    peer.send(b"".join(b"SUB s.a q%d %d\r\nSUB s.* q%d x%d\r\n" % (n, n, n, n) for n in range(MANY // 2)))
    assert plain_broker.interest.receivers(b"s.a") == (0, MANY // 2)


def test_many_members_of_one_queue_group_are_quick(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    peer.send(b"".join(b"SUB s q %d\r\n" % n for n in range(MANY)))
    peer.send(b"PUB s 0\r\n\r\n" * 1000)
    assert peer.received().count(b"MSG") == 1000


def test_detach_with_many_subscriptions_is_quick(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    peer.send(b"".join(b"SUB s.%d.x.y %d\r\n" % (n, n) for n in range(2 * MANY)))
    peer.link.detach()
    assert plain_broker.interest.statistics()["subscriptions"] == 0


def colliding() -> Iterator[bytes]:
    """Keys whose first eight bytes once made the hash's product zero, whatever its seed was."""
    for n in count():
        tail = b"%08d" % n
        yield struct.pack("<Q", 0xE7037ED1A0B428DB) + tail


def test_sids_made_to_collide_do_not(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    keys = [key for key, _ in zip(colliding(), range(MANY), strict=False)]
    peer.send(b"".join(b"SUB s " + key + b"\r\n" for key in keys))
    assert peer.link.subscriptions_count == MANY


def test_tokens_made_to_collide_do_not(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    keys = [key for key, _ in zip(colliding(), range(MANY), strict=False)]
    peer.send(b"".join(b"SUB s." + key + b" %d\r\n" % n for n, key in enumerate(keys)))
    assert plain_broker.interest.receivers(b"s." + keys[-1]) == (1, 0)


def test_subjects_of_many_tokens_are_quick(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    subject = b"a." * 2000 + b"a"
    for sid in range(50):
        peer.send(b"SUB " + b"*." * sid + subject[2 * sid :] + b" %d\r\n" % sid)
    peer.send((b"PUB " + subject + b" 0\r\n\r\n") * 50)
    assert peer.received().count(b"MSG") == 50 * 50


def test_line_that_grows_byte_by_byte_is_quick(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    for byte in b"PUB " + b"a" * 4000:
        peer.link.feed(bytes([byte]))
    assert not peer.link.is_closing
