"""The demonstration's server is killed while its publisher is at work: every row once, in its place."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import nats
import pytest
from nats.js.errors import NoStreamResponseError

from headrace.client.blocking import connect
from headrace.client.errors import ConnectError
from headrace.client.jetstream import JetStream
from headrace.demo import listener as listening
from headrace.demo.listener import ListenerError, PayloadListener
from headrace.demo.outage import Outage
from headrace.demo.publisher import FeedPublication, PublishError
from headrace.demo.server import DemoServer, DemoServerError
from headrace.demo.stream import STREAM, look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from nats.aio.client import Client
    from nats.js.api import PubAck


PATIENCE = 60.0
SWALLOWED = 50
"""Acknowledgements that are lost with each kill."""

FEED = [(f"flights.{row % 7}", b"row %d" % row) for row in range(1, 4001)]
"""Subjects and payloads."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DemoServer]:
    made = DemoServer(tmp_path / "store", tmp_path / "server.log")
    made.start()
    yield made
    made.stop()


def test_publication_over_kills_stores_every_row_once_in_its_place(
    server: DemoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kill swallows acknowledgements before: rows are stored that the publisher does not know of."""
    kills, restarts = [700, 1900, 3300], []
    known: list[int] = []
    recovered: list[int] = []
    publication = FeedPublication(
        server.url, published=lambda _count: None, recovered=recovered.append, patience=PATIENCE
    )
    hear = publication._on_ack
    swallowed = 0

    def hear_until_a_kill_is_due(row: int, acknowledgement: asyncio.Future[PubAck]) -> None:
        nonlocal swallowed
        deaf = len(known) > len(recovered)
        if not deaf and (not kills or publication._acknowledged < kills[0]):
            hear(row, acknowledgement)
            return
        if not deaf:
            known.append(publication._acknowledged)
            kills.pop(0)
            swallowed = 0
        swallowed += 1
        if swallowed == SWALLOWED:
            server.kill()
            restarts.append(threading.Thread(target=server.start))
            restarts[-1].start()

    monkeypatch.setattr(publication, "_on_ack", hear_until_a_kill_is_due)
    url = server.url
    publish(publication, FEED)
    for thread in restarts:
        thread.join()
    assert (kills, len(restarts), server.url) == ([], 3, url)
    assert all(count >= before + SWALLOWED for count, before in zip(recovered, known, strict=True))
    assert publication.repeated >= 3 * SWALLOWED
    assert stored(url) == FEED


def publish(publication: FeedPublication, feed: Sequence[tuple[str, bytes]]) -> None:
    async def work() -> None:
        await publication.prepare()
        await asyncio.wait_for(publication.run(feed), PATIENCE)

    asyncio.run(work())


def stored(url: str) -> list[tuple[str, bytes]]:
    """Subjects and payloads of the stream, in its order."""
    with connect(url) as connection:
        batches = list(JetStream(connection).read(STREAM, 1, look(url).last_sequence + 1))
    return [
        (subject.decode(), payload)
        for batch in batches
        for subject, payload in zip(batch.subjects, batch.payloads, strict=True)
    ]


def test_outage_kills_once_at_half_and_brings_the_server_back(server: DemoServer) -> None:
    outage = Outage(server)
    outage.published(49, 100)
    assert not outage.start_again()
    server.check()
    outage.published(50, 100)
    assert (outage.killed_at, outage.away) == (50, None)
    server.check()  # killed on purpose is no failure
    with pytest.raises(ConnectError):
        look(server.url)
    outage.published(51, 100)
    assert outage.start_again()
    assert not outage.start_again()
    assert outage.killed_at == 50
    assert outage.away is not None
    assert look(server.url).last_sequence == 0


def test_server_that_ends_by_itself_is_a_failure(server: DemoServer) -> None:
    assert server._process is not None
    server._process.kill()
    server._process.wait()
    with pytest.raises(DemoServerError, match=r"the server ended with code -9; see .*server\.log"):
        server.check()


def test_server_that_cannot_start_says_where_to_look(server: DemoServer, tmp_path: Path) -> None:
    second = DemoServer(tmp_path / "store", tmp_path / "second.log")  # the store is taken
    with pytest.raises(DemoServerError, match=r"the server ended with code 1; see .*second\.log"):
        second.start()
    second.stop()


def test_publication_goes_on_where_a_server_that_still_runs_cut_it_off(
    server: DemoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the connection before has sent may yet arrive: its ids are those of the rows sent again."""
    publication = FeedPublication(server.url, published=cut_at(500, monkeypatch), recovered=print)
    publish(publication, FEED)
    assert stored(server.url) == FEED


def test_publication_goes_on_where_nats_py_does_not_say_that_it_has_closed(
    server: DemoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `closed_cb` is not called where what is left to write fails with the connection."""
    cut: list[Client] = []

    def lose(connection: Client) -> None:
        cut.append(connection)
        assert connection._flusher_task is not None
        connection._flusher_task.cancel()  # so that something is left
        connection._transport._io_writer.transport.abort()  # type: ignore[union-attr]

    publication = FeedPublication(server.url, published=at(500, lose, monkeypatch), recovered=print)
    publish(publication, FEED)
    assert len(cut) == 1
    assert stored(server.url) == FEED


def cut_at(count: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Close the newest connection of nats-py, once, when so many rows are acknowledged."""
    closing: list[asyncio.Task[None]] = []
    return at(count, lambda newest: closing.append(asyncio.ensure_future(newest.close())), monkeypatch)


def at(count: int, do: Callable[[Client], None], monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Do something to the newest connection of nats-py, once, when so many rows are acknowledged."""
    connections: list[Client] = []
    connect_to = nats.connect

    async def connected(*servers: Any, **options: Any) -> Client:
        connections.append(await connect_to(*servers, **options))
        return connections[-1]

    monkeypatch.setattr(nats, "connect", connected)
    is_done = False

    def published(now: int) -> None:
        nonlocal is_done
        if now >= count and not is_done:
            is_done = True
            do(connections[-1])

    return published


def test_publication_of_what_is_stored_already_repeats_nothing(server: DemoServer) -> None:
    publish(FeedPublication(server.url, published=print), FEED[:10])
    publication = FeedPublication(server.url, published=print)
    asyncio.run(publication.run(FEED[:10]))
    assert publication.repeated == 10
    assert stored(server.url) == FEED[:10]


def test_publication_sees_acknowledged_rows_that_did_not_come_back(server: DemoServer) -> None:
    publish(FeedPublication(server.url, published=print), FEED[:3])
    publication = FeedPublication(server.url, published=print)
    publication._acknowledged = 4
    with pytest.raises(PublishError, match="4 rows are acknowledged, and stream FLIGHTS ends at sequence 3"):
        asyncio.run(publication._publish(is_again=True))


def test_publication_sees_messages_of_somebody_else(server: DemoServer) -> None:
    publication = FeedPublication(server.url, published=print)
    asyncio.run(publication.prepare())
    tell(server.url, {"flights.of.others": b"1"})
    with pytest.raises(PublishError, match=r"row 1 is message 2 of stream FLIGHTS: somebody else publishes"):
        asyncio.run(publication.run(FEED[:100]))


def test_publication_gives_up_on_a_server_that_stays_away() -> None:
    publication = FeedPublication("nats://127.0.0.1:1", published=print, patience=0)
    with pytest.raises(ConnectError, match=r"cannot connect to nats://127\.0\.0\.1:1"):
        asyncio.run(publication.run(FEED))


def test_publication_stops_at_what_no_stream_takes(server: DemoServer) -> None:
    publication = FeedPublication(server.url, published=print)
    with pytest.raises(NoStreamResponseError):
        publish(publication, [("elsewhere", b"x")] * 20)


def test_listener_hears_the_last_word_also_after_a_kill(server: DemoServer) -> None:
    listener = PayloadListener(server.url, "delays.>")
    listener.start()
    try:
        tell(server.url, {"delays.AA.01": b"1", "delays.AA.02": b"2", "other": b"3"})
        wait_until(lambda: listener.last == {"delays.AA.01": b"1", "delays.AA.02": b"2"})
        server.kill()
        server.start()

        def told_again() -> bool:
            tell(server.url, {"delays.AA.01": b"4"})
            return listener.last["delays.AA.01"] == b"4"

        wait_until(told_again)
    finally:
        listener.close()
    assert listener.last == {"delays.AA.01": b"4", "delays.AA.02": b"2"}


def test_listener_says_that_it_cannot_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_ATTEMPTS", 2)
    listener = PayloadListener("nats://127.0.0.1:1", "delays.>")
    with pytest.raises(ListenerError, match=r"cannot listen to delays\.>: "):
        listener.start()
    listener.close()


def tell(url: str, messages: dict[str, bytes]) -> None:
    with connect(url) as connection:
        for subject, payload in messages.items():
            connection.publish(subject, payload)
        connection.flush()


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
