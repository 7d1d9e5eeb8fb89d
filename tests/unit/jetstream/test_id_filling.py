"""A stream with many messages in its window of ids is served before these are read, and forgets none."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import StorageError
from headrace.jetstream.stream import dedupe
from headrace.log.blocking import NotHere, may_wait
from unit.jetstream.js_streams import SECOND, World

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 3000
PAGES = 3
"""Reads of so many messages."""


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe, "AT_ONCE", 100)


def filled(**fields: Any) -> World:
    """A world whose log has COUNT messages with the ids 0 to COUNT - 1."""
    world = World(**fields)
    for number in range(COUNT):
        world.put(Nats_Msg_Id=f"{number}")
    return world


def again(world: World, **fields: Any) -> World:
    """The same log in a server that starts."""
    return World(world.log, at_ns=world.host.now + SECOND, **fields)


def pass_turns(world: World, turns: int) -> None:
    for _ in range(turns):
        world.host.pass_time(0)


def test_messages_without_ids_are_taken_before_the_others_are_read() -> None:
    world = again(filled())
    assert not world.stream.dedupe.is_filled
    assert world.put() == {"stream": "S", "seq": COUNT + 1}
    assert not world.stream.dedupe.is_filled
    pass_turns(world, PAGES)
    assert world.stream.dedupe.is_filled
    assert len(world.stream.dedupe) == COUNT
    assert world.put(Nats_Msg_Id="7") == {"stream": "S", "seq": 8, "duplicate": True}
    assert world.put(Nats_Msg_Id="new") == {"stream": "S", "seq": COUNT + 2}


@pytest.mark.parametrize("turns", range(PAGES + 1))
@pytest.mark.parametrize("number", [0, 1500, COUNT - 1])
def test_a_message_with_an_id_waits_for_the_rest(turns: int, number: int) -> None:
    world = again(filled())
    pass_turns(world, turns)
    world.put()
    assert world.put(Nats_Msg_Id=f"{number}") == {"stream": "S", "seq": number + 1, "duplicate": True}
    assert world.stream.dedupe.is_filled
    pass_turns(world, PAGES)
    assert len(world.stream.dedupe) == COUNT


def test_the_last_id_is_known_from_the_start() -> None:
    world = again(filled())
    assert world.put(Nats_Expected_Last_Msg_Id=f"{COUNT - 1}")["seq"] == COUNT + 1
    assert "error" in world.put(Nats_Expected_Last_Msg_Id=f"{COUNT - 1}")
    pass_turns(world, PAGES)
    assert "error" in world.put(Nats_Expected_Last_Msg_Id=f"{COUNT - 1}"), "the newest message has no id"


@pytest.mark.parametrize(
    "remove",
    [
        lambda world: world.stream.removal.delete(5),
        lambda world: world.stream.removal.purge(),
        lambda world: world.stream.update(World(max_msgs=10).config),
        lambda world: world.put(Nats_Rollup="all"),
    ],
    ids=["deleted", "purged", "limited", "rolled up"],
)
def test_what_is_removed_by_request_is_known_afterwards(remove: Callable[[World], object]) -> None:
    world = again(filled(allow_rollup_hdrs=True), allow_rollup_hdrs=True)
    assert not world.stream.dedupe.is_filled
    remove(world)
    assert world.log.read(5) is None
    assert world.put(Nats_Msg_Id="4") == {"stream": "S", "seq": 5, "duplicate": True}


@pytest.mark.parametrize(
    "fields",
    [
        {"retention": "workqueue"},
        {"retention": "interest"},
        {"max_msgs": 10_000},
        {"max_bytes": 1 << 30},
        {"max_msgs_per_subject": 10_000},
        {"allow_msg_ttl": True},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_where_messages_go_by_themselves_all_are_read_first(fields: dict[str, Any]) -> None:
    assert again(filled(), **fields).stream.dedupe.is_filled


def test_a_log_that_fails_is_read_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = again(filled())
    with monkeypatch.context() as patch:
        patch.setattr(world.log, "read_from", _fails)
        pass_turns(world, 1)
        world.host.pass_time(1)
        world.host.pass_time(1)
        assert caplog.text.count("ids could not be read: the disk fails") == 1
        assert world.put() == {"stream": "S", "seq": COUNT + 1}
    world.host.pass_time(1)
    pass_turns(world, PAGES)
    assert world.stream.dedupe.is_filled


def _fails(*_: object, **_others: object) -> None:
    raise StorageError("the disk fails")


def test_bytes_that_are_elsewhere_are_waited_for_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    world = again(filled())
    arrival: Future[None] = Future()
    asked = world.log.read_from
    waiting: list[bool] = []

    def read(*words: Any, **others: Any) -> Any:
        waiting.append(may_wait())
        if not arrival.done():
            raise NotHere(arrival)
        return asked(*words, **others)

    called: list[Callable[[], object]] = []
    monkeypatch.setattr(world.log, "read_from", read)
    monkeypatch.setattr(world.account.turns, "when_here", lambda _absent, go_on: called.append(go_on))
    pass_turns(world, 5)
    assert waiting == [False]
    arrival.set_result(None)
    called.pop()()
    pass_turns(world, PAGES)
    assert world.stream.dedupe.is_filled


def test_a_stream_that_is_closed_reads_no_more() -> None:
    world = again(filled())
    world.stream.is_closed = True
    pass_turns(world, PAGES)
    assert not world.stream.dedupe.is_filled
