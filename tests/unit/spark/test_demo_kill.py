"""The demonstration's server is killed while its publisher is at work: every row once, in its place."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from headrace.client.blocking import connect
from headrace.client.errors import ConnectError
from headrace.client.replay import replay
from headrace.client.stan import StanClosedError, StanError
from headrace.demo import listener as listening
from headrace.demo import publisher
from headrace.demo.channel import CHANNEL, Look, look
from headrace.demo.listener import ListenerError, PayloadListener
from headrace.demo.outage import Outage
from headrace.demo.publisher import FeedPublication, PublishError
from headrace.demo.server import CLUSTER_ID, DemoServer, DemoServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.errors import HeadraceError


PATIENCE = 60.0
SWALLOWED = 50
"""Acknowledgements that are lost with each kill."""


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
    feed = [b"row %d" % row for row in range(1, 4001)]
    kills, restarts = [700, 1900, 3300], []
    known: list[int] = []
    resumed: list[int] = []
    publication = FeedPublication(
        server.url, CLUSTER_ID, CHANNEL, published=lambda _count: None, resumed=resumed.append
    )
    hear = publication._on_ack
    swallowed = 0

    def hear_until_a_kill_is_due(guid: str, error: HeadraceError | None) -> None:
        nonlocal swallowed
        deaf = len(known) > len(resumed)
        if error is not None or (not deaf and (not kills or publication._acknowledged < kills[0])):
            hear(guid, error)
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
    publication.check_unused()
    asyncio.run(asyncio.wait_for(publication.run(feed), PATIENCE))
    for thread in restarts:
        thread.join()
    assert (kills, len(restarts), server.url) == ([], 3, url)
    assert all(row > count + SWALLOWED for row, count in zip(resumed, known, strict=True))
    with connect(url) as connection:
        batches = list(replay(connection, CLUSTER_ID, CHANNEL))
    assert [sequence for batch in batches for sequence in batch.sequences] == list(range(1, 4001))
    assert [payload for batch in batches for payload in batch.payloads] == feed


def test_outage_kills_once_at_half_and_brings_the_server_back(server: DemoServer) -> None:
    outage = Outage(server)
    outage.published(49, 100)
    assert not outage.start_again()
    server.check()
    outage.published(50, 100)
    assert (outage.killed_at, outage.away) == (50, None)
    server.check()  # killed on purpose is no failure
    with pytest.raises(ConnectError):
        look(server.url, CLUSTER_ID)
    outage.published(51, 100)
    assert outage.start_again()
    assert not outage.start_again()
    assert outage.killed_at == 50
    assert outage.away is not None
    assert look(server.url, CLUSTER_ID).last_sequence == 0


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


class Script:
    """A publication whose connections fail at once and whose looks are by script."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: Look | Exception) -> None:
        self._looks = list(looks)
        self.resumed: list[int] = []
        monkeypatch.setattr(publisher, "look", self._look)
        monkeypatch.setattr(publisher, "look_unused", self._look)
        self.publication = FeedPublication(
            "nats://h:1", "c", "a", published=print, resumed=self.resumed.append, patience=0
        )
        monkeypatch.setattr(self.publication, "_publish", self._lose)

    def _look(self, *_arguments: str) -> Look:
        answer = self._looks.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _lose(self) -> None:
        raise StanClosedError("stan: connection closed")

    def run(self) -> None:
        self.publication.check_unused()
        asyncio.run(self.publication.run([b"x"] * 10))


def test_publication_does_not_guess_when_the_same_server_cut_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, Look("one", 0), Look("one", 3))
    with pytest.raises(PublishError, match="still runs"):
        script.run()


def test_publication_that_was_all_stored_before_the_kill_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, Look("one", 0), Look("two", 10))
    script.run()
    assert script.resumed == [11]


def test_publication_sees_acknowledged_rows_that_did_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, Look("one", 0), Look("two", 3))
    script.publication._acknowledged = 4
    with pytest.raises(PublishError, match="4 rows are acknowledged, and channel a ends at sequence 3"):
        script.run()


def test_publication_sees_messages_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, Look("one", 0), Look("two", 11))
    with pytest.raises(PublishError, match="channel a ends at sequence 11"):
        script.run()


def test_publication_gives_up_on_a_server_that_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, Look("one", 0), ConnectError("refused"))
    with pytest.raises(ConnectError, match="refused"):
        script.run()


def test_publication_stops_at_what_the_server_refuses(server: DemoServer) -> None:
    publication = FeedPublication(server.url, CLUSTER_ID, "a.*", published=print)
    with pytest.raises(StanError, match="stan: invalid"):
        asyncio.run(publication.run([b"x"]))


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
