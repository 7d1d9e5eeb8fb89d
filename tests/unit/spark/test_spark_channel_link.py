"""Riding out a server's outage: when it is asked again, where reading goes on, when it is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.blocking import connect
from headrace.client.errors import (
    ClientTimeoutError,
    ConnectError,
    ConnectionLostError,
    NoRespondersError,
    ServerError,
    StreamingRefusedError,
)
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.replay import ChannelState, ReplayBatch
from headrace.spark import channel_link, stored_link
from headrace.spark.channel_link import ChannelLink
from headrace.spark.errors import StoredStreamError
from headrace.spark.offsets import StoredRange
from headrace.spark.options import read_options
from headrace.spark.schema import COLUMNS
from headrace.spark.stored_link import StoredState
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.errors import HeadraceError

STATE = ChannelState(1, 10, 10, 7)
LOST = ConnectionLostError("it went")


class Connection:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class World:
    """A server by script, and the time. Each entry of `errors` is raised once, before what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: HeadraceError | None) -> None:
        self.errors = list(errors)
        self.opened: list[Connection] = []
        self.asked: list[tuple[int, int]] = []
        self.now = 100.0
        self.per_batch = 3
        monkeypatch.setattr(stored_link, "connect", self._connect)
        monkeypatch.setattr(channel_link, "channel_state", self._state)
        monkeypatch.setattr(channel_link, "replay_columns", self._replay)

    def link(self, **options: str) -> ChannelLink:
        given = read_options({"channel": "a", "url": "nats://joe:secret@h:1", **options})
        return ChannelLink(given, clock=lambda: self.now, pause=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _trip(self) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def _connect(self, _url: str, _options: Any) -> Connection:
        self.opened.append(Connection())
        return self.opened[-1]

    def _state(self, _connection: Connection, _cluster: str, _channel: str) -> ChannelState:
        self._trip()
        return STATE

    def _replay(
        self, _connection: Connection, _cluster: str, channel: str, first: int, last: int
    ) -> Iterator[ReplayBatch]:
        self.asked.append((first, last))
        while first <= last:
            self._trip()
            page = list(range(first, min(first + self.per_batch, last + 1)))
            rows = len(page)
            name = [channel.encode()] * rows
            yield ReplayBatch(name, name, page, page, [None] * rows, [None] * rows, [b""] * rows)
            first = page[-1] + 1


@pytest.fixture(autouse=True)
def _no_waiting_connections() -> Iterator[None]:
    stored_link.idle.clear()
    yield
    stored_link.idle.clear()


def sequences(link: ChannelLink, first: int, end: int) -> list[int]:
    return [
        sequence
        for batch in link.rows(StoredRange("a", first, end, 7), (), COLUMNS)
        for sequence in batch.sequences
    ]


@pytest.mark.parametrize(
    "error", [LOST, ConnectError("refused"), NoRespondersError("nobody"), ClientTimeoutError("x")]
)
def test_link_asks_again_after_an_outage_and_never_on_the_same_connection(
    error: HeadraceError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch, error, error)
    assert world.link().state("a") == StoredState(1, 10, 10, 0, 7)
    assert [connection.closed for connection in world.opened] == [True, True, False]
    assert caplog.text.count("trying again for 30 s") == 1


def test_link_goes_on_behind_the_last_message_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, None, None, LOST, LOST, None)
    assert sequences(world.link(), 5, 16) == list(range(5, 16))
    assert world.asked == [(5, 15), (11, 15), (11, 15)]


def test_link_gives_up_when_the_time_is_over_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, *[LOST] * 1000)
    with pytest.raises(StoredStreamError) as caught:
        world.link(reconnectTimeout="10s", clusterId="mine").state("a")
    assert str(caught.value) == (
        "cannot read channel a of cluster mine at nats://h:1: it went "
        "(tried for 10 s, option reconnectTimeout)"
    )
    assert world.now == pytest.approx(110)


@pytest.mark.parametrize(
    ("channel", "advice"),
    [
        ("orders", ", option stream reads JetStream: there is a stream ORDERS"),
        ("bills.eu", ", option stream reads JetStream: there is a stream MONEY"),
        ("bills.>", ", option stream reads JetStream: there is a stream MONEY"),
        ("nothing", ""),
    ],
)
def test_link_without_a_streaming_server_says_which_stream_may_be_meant(channel: str, advice: str) -> None:
    with Server(jetstream=True) as server, connect(server.url) as connection:
        api = JetStreamApi(connection)
        for name, subject in (("ORDERS", "new"), ("MONEY", "bills.*")):
            api.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})
        link = ChannelLink(read_options({"channel": channel, "url": server.url, "reconnectTimeout": "100ms"}))
        with pytest.raises(StoredStreamError) as caught:
            link.matching(channel)
        assert str(caught.value) == (
            f"cannot read channel {channel} of cluster test-cluster at {server.url}: no NATS Streaming "
            "(STAN) server of cluster ID test-cluster answers (tried for 0.1 s, option reconnectTimeout); "
            f"channels are those of NATS Streaming (STAN){advice}"
        )


def test_link_without_any_streams_says_what_a_channel_is() -> None:
    with Server() as server:
        link = ChannelLink(
            read_options({"channel": "orders", "url": server.url, "reconnectTimeout": "100ms"})
        )
        with pytest.raises(StoredStreamError, match=r"; channels are those of NATS Streaming \(STAN\)$"):
            link.state("orders")


def test_link_time_begins_anew_with_every_batch_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[HeadraceError | None] = []
    for _ in range(5):
        errors += [*[LOST] * 6, None]  # a little less than 4 s each time
    world = World(monkeypatch, *errors)
    assert sequences(world.link(reconnectTimeout="4s"), 1, 16) == list(range(1, 16))
    assert world.now > 110


@pytest.mark.parametrize(
    "error", [ServerError("Authorization Violation", fatal=True), StreamingRefusedError(400, "no")]
)
def test_link_does_not_ask_again_what_was_refused(
    error: HeadraceError, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch, error, error)
    with pytest.raises(
        StoredStreamError, match="cannot read channel a of cluster test-cluster at nats://h:1: "
    ):
        world.link().state("a")
    with pytest.raises(StoredStreamError, match="cannot read channel a"):
        sequences(world.link(), 1, 2)
    assert world.now == 100


def test_link_channel_that_went_gives_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, None, StreamingRefusedError(404, "No Channels"))
    assert sequences(world.link(), 1, 10) == [1, 2, 3]


def test_link_uses_a_connection_again_for_the_same_server_and_user_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.link().state("a")
    assert sequences(world.link(), 1, 4) == [1, 2, 3]
    world.link(user="u", password="one").state("a")
    world.link(user="u", password="two").state("a")
    assert len(world.opened) == 3
    assert not any(connection.closed for connection in world.opened)


def test_link_reading_that_is_given_up_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    batches = world.link().rows(StoredRange("a", 1, 100, 7), (), COLUMNS)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert [connection.closed for connection in world.opened] == [True]


def test_link_asks_for_nothing_when_the_range_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert sequences(world.link(), 5, 5) == []
    assert world.opened == []


def test_idle_connection_that_waited_too_long_is_not_used_again() -> None:
    now = [0.0]
    idle = stored_link.Idle(lambda: now[0])
    first, second = Connection(), Connection()
    idle.give("key", first)  # type: ignore[arg-type]
    now[0] = stored_link.KEPT
    assert idle.take("key") is first  # type: ignore[comparison-overlap]
    idle.give("key", first)  # type: ignore[arg-type]
    now[0] += stored_link.KEPT + 1
    assert idle.take("key") is None
    assert first.closed
    idle.give("key", second)  # type: ignore[arg-type]
    idle.give("key", Connection())  # type: ignore[arg-type]
    assert second.closed
    assert idle.take("other") is None
