"""The window, the matching of acknowledgements, outages: with a server by script and without a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.client.errors import (
    ConnectError,
    ConnectionLostError,
    PublishRefusedError,
    ServerError,
)
from headrace.client.pipeline import (
    MessageColumns,
    NumberedAnswer,
    PublishAnswer,
    PublishPipeline,
    Sent,
)
from headrace.client.retries import Patience

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.errors import HeadraceError

LOST = ConnectionLostError("it went")


class Line:
    """A connection that keeps what was sent."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_open = True

    def send(self, frames: bytes) -> None:
        self.world.trip()
        self.world.sent += frames.decode().split()

    def close(self) -> None:
        self.is_open = False


class World:
    """Server, wire and time in one. Each entry of `errors` is raised once, before what was asked."""

    def __init__(self, *errors: HeadraceError | None) -> None:
        self.errors = list(errors)
        self.sent: list[str] = []
        self.lines: list[Line] = []
        self.there: list[int] = []
        self.answers: dict[int, list[NumberedAnswer]] = {}
        self.most = 0
        self.per_settle = 3
        self.now = 0.0
        self.goodbyes = 0
        self.always: NumberedAnswer | None = None

    def pipeline(self, window: int = 4) -> PublishPipeline:
        patience = Patience(10, lambda: self.now, self._pause)
        return PublishPipeline(self._connect, self, patience, window=window)  # type: ignore[arg-type]

    def trip(self) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def _pause(self, seconds: float) -> None:
        self.now += seconds

    def _connect(self) -> Line:
        self.trip()
        self.lines.append(Line(self))
        return self.lines[-1]

    def open(self, connection: Line) -> None:
        assert connection is self.lines[-1]

    def encode(self, first: int, columns: MessageColumns, start: int, stop: int) -> list[bytes]:
        return [b"%d:%b " % (first + n, data) for n, data in enumerate(columns.payloads[start:stop])]

    def again(self, frame: bytes) -> bytes:
        return frame

    def settle(
        self, connection: Line, on_their_way: Mapping[int, Sent], timeout: float
    ) -> list[NumberedAnswer]:
        self.most = max(self.most, len(on_their_way))
        self.trip()
        if self.always is not None:
            return [self.always]
        numbers = list(on_their_way)[: self.per_settle]
        return [
            ack for n in numbers for ack in self.answers.pop(n, [NumberedAnswer(n, PublishAnswer.STORED)])
        ]

    def stored(self, connection: Line, on_their_way: Mapping[int, Sent]) -> list[int]:
        self.trip()
        return [number for number in self.there if number in on_their_way]

    def close(self, connection: Line) -> None:
        self.goodbyes += 1


def rows(count: int) -> MessageColumns:
    data = [b"%d" % number for number in range(1, count + 1)]
    return MessageColumns([b"a"] * count, data)


def test_pipeline_sends_all_in_order_and_never_more_than_the_window() -> None:
    world = World()
    pipeline = world.pipeline(window=4)
    pipeline.send(rows(10))
    pipeline.send(rows(0))
    counts = pipeline.finish()
    assert world.sent == [f"{n}:{n}" for n in range(1, 11)]
    assert (counts.stored, counts.duplicates, counts.resent) == (10, 0, 0)
    assert world.most == 4


def test_pipeline_bytes_bound_the_window_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.pipeline.WINDOW_BYTES", 8)
    monkeypatch.setattr("headrace.client.pipeline._CHUNK", 1)
    world = World()
    pipeline = world.pipeline(window=100)
    pipeline.send(rows(9))
    assert pipeline.finish().stored == 9
    assert world.most == 2  # 4 bytes each


def test_pipeline_acks_out_of_order_twice_or_unknown_count_once() -> None:
    world = World()
    world.answers[1] = [
        NumberedAnswer(3, PublishAnswer.STORED),
        NumberedAnswer(3, PublishAnswer.STORED),
        NumberedAnswer(77, PublishAnswer.STORED),
    ]
    world.answers[2] = [NumberedAnswer(1, PublishAnswer.DUPLICATE), NumberedAnswer(2, PublishAnswer.STORED)]
    world.per_settle = 2
    pipeline = world.pipeline()
    pipeline.send(rows(3))
    counts = pipeline.finish()
    assert (counts.stored, counts.duplicates) == (2, 1)


def test_pipeline_connection_lost_sends_again_only_what_is_not_stored() -> None:
    world = World(None, None, None, LOST)  # connect, send, three acks, then it goes
    world.there = [4, 6]
    pipeline = world.pipeline(window=8)
    pipeline.send(rows(6))
    world.per_settle = 3
    counts = pipeline.finish()
    assert world.sent == ["1:1", "2:2", "3:3", "4:4", "5:5", "6:6", "5:5"]
    assert (counts.stored, counts.resent, len(world.lines)) == (6, 1, 2)


def test_pipeline_lost_while_sending_or_while_recovering_goes_on() -> None:
    world = World(None, LOST, ConnectError("not yet"), None, LOST, None, None, LOST)
    pipeline = world.pipeline(window=8)
    pipeline.send(rows(2))
    counts = pipeline.finish()
    assert counts.stored == 2
    assert not world.errors
    assert len(world.lines) == 4
    assert [line.is_open for line in world.lines] == [False, False, False, True]


def test_pipeline_server_that_stays_away_is_given_up() -> None:
    world = World(None, *[LOST] * 100)
    pipeline = world.pipeline()
    with pytest.raises(ConnectionLostError):
        pipeline.send(rows(1))
    assert world.now == 10


def test_pipeline_silence_counts_as_an_outage() -> None:
    world = World()
    world.answers[1] = []
    pipeline = world.pipeline()
    pipeline.send(rows(1))
    counts = pipeline.finish()
    assert (counts.stored, counts.resent, len(world.lines)) == (1, 1, 2)


def test_pipeline_refusal_ends_it_and_names_the_reason() -> None:
    world = World()
    world.answers[2] = [NumberedAnswer(2, PublishAnswer.REFUSED, "maximum bytes exceeded")]
    pipeline = world.pipeline()
    pipeline.send(rows(3))
    with pytest.raises(PublishRefusedError, match="maximum bytes exceeded"):
        pipeline.finish()
    assert pipeline.counts.stored == 1


def test_pipeline_busy_server_gets_the_same_message_after_a_pause() -> None:
    world = World()
    world.answers[1] = [NumberedAnswer(1, PublishAnswer.AGAIN, "too many requests")]
    pipeline = world.pipeline()
    pipeline.send(rows(2))
    counts = pipeline.finish()
    assert world.sent == ["1:1", "2:2", "1:1"]
    assert (counts.stored, counts.resent) == (2, 1)
    assert world.now > 0


def test_pipeline_server_busy_for_ever_is_given_up() -> None:
    world = World()
    pipeline = world.pipeline()
    pipeline.send(rows(1))
    world.always = NumberedAnswer(1, PublishAnswer.AGAIN, "busy")
    with pytest.raises(PublishRefusedError, match="busy"):
        pipeline.finish()
    assert world.now == 10


def test_pipeline_permission_error_is_no_outage_and_a_fatal_error_is_one() -> None:
    world = World(None, None, ServerError("Stale Connection", fatal=True))
    pipeline = world.pipeline()
    pipeline.send(rows(1))
    assert pipeline.finish().resent == 1
    refused = World(None, None, ServerError("Permissions Violation", fatal=False)).pipeline()
    refused.send(rows(1))
    with pytest.raises(ServerError, match="Permissions Violation"):
        refused.finish()


def test_pipeline_close_says_goodbye_and_gives_a_quiet_connection_back() -> None:
    world = World()
    pipeline = world.pipeline()
    pipeline.send(rows(1))
    pipeline.finish()
    given: list[object] = []
    pipeline.close(reuse=given.append)
    pipeline.close()
    assert given == world.lines
    assert world.goodbyes == 1
    busy = world.pipeline()
    busy.send(rows(1))
    busy.close(reuse=given.append)
    assert len(given) == 1
    assert not world.lines[-1].is_open
