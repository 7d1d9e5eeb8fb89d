"""Markers where the last message of a subject goes by its age, and messages that never do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from js_streams import SECOND, START, World, block
from msgspec.structs import replace

from headrace.jetstream.stream.stream import log_limits
from headrace.log.file import FileLog
from headrace.log.port import Limits, Weights
from headrace.protocol.jetstream.configs import SubjectTransformConfig
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

MARKER = block(Nats_Marker_Reason="MaxAge", Nats_TTL="1m30s", Nats_Rollup="sub")
FIELDS: dict[str, Any] = {
    "allow_msg_ttl": True,
    "allow_rollup_hdrs": True,
    "subject_delete_marker_ttl": 90 * SECOND,
}


def _held(world: World) -> list[tuple[int, bytes, bytes]]:
    page = world.log.read_from(0)
    return [(m.sequence, m.subject, m.headers) for m in page.messages]


def test_the_last_message_of_a_subject_leaves_a_marker() -> None:
    world = World(max_age=10 * SECOND, **FIELDS)
    world.receive(b"s.a", b"s.a", b"s.b")
    world.host.pass_time(5)
    world.receive(b"s.c", b"s.b")
    world.host.pass_time(5)
    assert _held(world) == [(4, b"s.c", b""), (5, b"s.b", b""), (6, b"s.a", MARKER)]
    world.host.pass_time(5)
    assert [held[:2] for held in _held(world)] == [(6, b"s.a"), (7, b"s.c"), (8, b"s.b")]
    assert {held[2] for held in _held(world)} == {MARKER}


def test_a_message_stays_until_its_marker_can_be_stored() -> None:
    """As in nats-server 2.15.1, which tries again, too."""
    world = World(max_age=10 * SECOND, max_msg_size=20, **FIELDS)
    world.receive(b"s.a", b"s.a", b"s.b")
    world.host.pass_time(30)
    assert _held(world) == [(2, b"s.a", b""), (3, b"s.b", b"")]
    world.stream.update(replace(world.config, max_msg_size=-1))
    assert _held(world) == [(4, b"s.a", MARKER), (5, b"s.b", MARKER)]


@pytest.mark.parametrize("call", range(1, 30))
def test_a_disk_that_fails_takes_no_marker(call: int) -> None:
    files = FaultyFileSystem(MemoryFileSystem())
    log = FileLog(Path("/log"), limits=Limits(weights=Weights(30, 4)), clock=lambda: START, filesystem=files)
    world = World(log, max_age=10 * SECOND, **FIELDS)
    world.receive(b"s.a", b"s.b")
    files.fail_at = files.calls + call
    world.host.pass_time(10)
    files.fail_at = 0
    world.host.pass_time(5)
    assert sorted(held[1:] for held in _held(world)) == [(b"s.a", MARKER), (b"s.b", MARKER)]


def test_a_marker_leaves_none() -> None:
    world = World(max_age=1000 * SECOND, **FIELDS)
    world.put(b"s.a", Nats_TTL="100s")
    world.host.pass_time(100)
    assert _held(world) == [(2, b"s.a", MARKER)]
    world.host.pass_time(90)
    assert _held(world) == []
    assert world.stream.last_sequence == 2


@pytest.mark.parametrize(
    ("headers", "is_replaced"),
    [
        ({"KV_Operation": "PURGE", "Nats_Rollup": "sub"}, False),
        ({"KV_Operation": "PURGE"}, False),
        ({"KV_Operation": "DEL"}, True),
        ({"KV_Operation": "purge"}, True),
        ({"Nats_Marker_Reason": "Remove"}, False),
        ({"Nats_Marker_Reason": ""}, True),
    ],
)
def test_what_is_a_marker_itself(headers: dict[str, str], is_replaced: bool) -> None:
    world = World(max_age=1000 * SECOND, **FIELDS)
    world.put(b"s.a", Nats_TTL="100s", **headers)
    world.host.pass_time(100)
    assert _held(world) == ([(2, b"s.a", MARKER)] if is_replaced else [])


def test_a_new_message_takes_the_place_of_a_marker() -> None:
    world = World(max_age=10 * SECOND, max_msgs_per_subject=1, **FIELDS)
    world.receive(b"s.a")
    world.host.pass_time(10)
    world.receive(b"s.a")
    assert _held(world) == [(3, b"s.a", b"")]


def test_a_marker_keeps_its_subject_under_a_transform() -> None:
    world = World(
        max_age=10 * SECOND, subject_transform=SubjectTransformConfig(src=">", dest="t.>"), **FIELDS
    )
    world.receive(b"s.a")
    world.host.pass_time(10)
    assert _held(world) == [(2, b"t.s.a", MARKER)]


def test_of_more_than_are_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.jetstream.stream.expiry._AT_ONCE", 8)
    world = World(max_age=10 * SECOND, **FIELDS)
    world.receive(*[b"s.%d" % (n % 7) for n in range(100)])
    world.host.pass_time(10)
    assert sorted(held[1] for held in _held(world)) == [b"s.%d" % n for n in range(7)]


def test_consumers_are_told_and_the_epoch_moves() -> None:
    world = World(max_age=10 * SECOND, **FIELDS)
    world.receive(b"s.a")
    world.host.pass_time(10)
    assert world.stream.epoch > 0


def test_a_message_that_never_ends_by_its_age() -> None:
    world = World(max_age=10 * SECOND, allow_msg_ttl=True)
    world.put(b"s.a", Nats_TTL="never")
    world.put(b"s.b", Nats_TTL="5s")
    world.put(b"s.c")
    world.host.pass_time(5)
    assert [held[1] for held in _held(world)] == [b"s.a", b"s.c"]
    world.host.pass_time(100)
    assert [held[1] for held in _held(world)] == [b"s.a"]
    assert not [timer for timer in world.host.timers if timer.function]


def test_of_what_ended_while_the_server_was_down(tmp_path: Path) -> None:
    log = FileLog(tmp_path, limits=Limits(weights=Weights(30, 4)), clock=lambda: START)
    world = World(log, max_age=10 * SECOND, **FIELDS)
    world.receive(b"s.a", b"s.b")
    world.stream.close()
    log.close()
    later = START + 60 * SECOND
    log = FileLog(tmp_path, limits=log_limits(world.config), clock=lambda: later)
    again = World(log, max_age=10 * SECOND, **FIELDS)
    again.host.pass_time(10)
    assert _held(again) == [(3, b"s.a", MARKER), (4, b"s.b", MARKER)]
    log.close()
