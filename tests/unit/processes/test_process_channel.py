"""What parent and children say to each other arrives whole and in order, and nobody waits for ever."""

from __future__ import annotations

import pickle
import struct
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from headrace.conf.operator_options import OperatorOptions
from headrace.conf.options import Options
from headrace.processes.channel import ChannelEnd, Message, pair

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[ChannelEnd, ChannelEnd]]:
    here, there = pair()
    yield here, there
    here.close()
    there.close()


def test_tuples_arrive_in_order(ends: tuple[ChannelEnd, ChannelEnd]) -> None:
    here, there = ends
    here.say("one", 1)
    here.say("two", b"x", None)

    assert there.take() == [("one", 1), ("two", b"x", None)]
    assert there.take() == []
    assert not there.is_over


def test_a_tuple_may_come_byte_by_byte(ends: tuple[ChannelEnd, ChannelEnd]) -> None:
    here, there = ends
    data = pickle.dumps(("word", 1))
    taken: list[Message] = []
    for byte in struct.pack(">I", len(data)) + data + struct.pack(">I", len(data)):
        assert taken == []
        here.sock.send(bytes([byte]))
        taken += there.take()
        if taken:
            taken.clear()
    here.sock.send(data)

    assert there.take() == [("word", 1)]


def test_what_is_queued_waits_until_the_other_end_reads(ends: tuple[ChannelEnd, ChannelEnd]) -> None:
    here, there = ends
    large = b"x" * (8 << 20)
    here.queue("large", large)
    here.queue("small")
    here.flush()
    assert here.has_more

    taken: list[Message] = []
    while here.has_more or len(taken) < 2:
        taken += there.take()
        here.flush()

    assert taken == [("large", large), ("small",)]


def test_the_end_is_noticed_after_the_last_tuple(ends: tuple[ChannelEnd, ChannelEnd]) -> None:
    here, there = ends
    here.say("last")
    here.sock.shutdown(2)

    assert there.take() == [("last",)]
    assert there.take() == []
    assert there.is_over


def test_a_tuple_that_was_cut_off_is_none(ends: tuple[ChannelEnd, ChannelEnd]) -> None:
    here, there = ends
    here.sock.send(struct.pack(">I", 100) + b"half")
    here.sock.shutdown(2)

    assert there.take() == []
    assert there.take() == []
    assert there.is_over


def test_nothing_is_said_to_an_end_that_is_gone(ends: tuple[ChannelEnd, ChannelEnd]) -> None:
    here, there = ends
    there.close()

    assert not here.is_unheard
    here.say("word")
    here.queue("word")
    here.flush()

    assert not here.has_more
    assert here.is_unheard


def test_options_of_an_operator_can_be_told(ends: tuple[ChannelEnd, ChannelEnd]) -> None:
    here, there = ends
    options = Options(operator=OperatorOptions(("O",), preload=MappingProxyType({"A": "token"})))

    here.say("reload", options)

    assert there.take() == [("reload", options)]
