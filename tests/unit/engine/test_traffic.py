"""Sums over links: what they have sent and been sent, while they are there and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.engine.traffic import traffic

if TYPE_CHECKING:
    from engine_peers import Broker


def test_sum_is_of_all_links_that_are_given(plain_broker: Broker) -> None:
    one, two, other = (plain_broker.peer() for _ in range(3))
    one.send(b"SUB x 1\r\nPUB x 5\r\nhello\r\n")
    two.send(b"SUB x 1\r\nPUB x 2\r\nhi\r\nPUB nobody 1\r\na\r\n")
    other.send(b"PUB nobody 9\r\n123456789\r\n")

    assert traffic([one.link, two.link]) == (3, 8, 3, 5 + 2 + 2)
    assert traffic({other.link}) == (1, 9, 0, 0)
    assert traffic(()) == (0, 0, 0, 0)


def test_link_that_ended_keeps_its_counters(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    peer.send(b"PUB x 5\r\nhello\r\n")
    peer.link.detach()

    assert traffic([peer.link]) == (1, 5, 0, 0)


@pytest.mark.parametrize("wrong", [None, 1, "link"])
def test_what_is_no_link_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        traffic([wrong])
