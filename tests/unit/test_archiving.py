"""A server that makes tables of its channels while it serves."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from headrace.archiving import Archiver, archived_channels
from headrace.client import stan
from headrace.client.blocking import connect
from headrace.client.streaming_admin import StreamingAdmin
from headrace.conf.archive_options import ChannelArchiveOptions
from headrace.conf.streaming_options import StreamingOptions
from headrace.copying import LogExtent, LogPage
from headrace.errors import StartError
from headrace.objects.local import LocalStore
from headrace.tables import Table, open_store
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLUSTER = "shop"
SOON = 0.02
LOGGER = "headrace.streaming"


def options(folder: Path, store: str = "FILE", **changes: Any) -> StreamingOptions:
    archive = ChannelArchiveOptions(**{"to": str(folder / "tables"), "interval": SOON, **changes})
    directory = str(folder / "store") if store == "FILE" else None
    return StreamingOptions(cluster_id=CLUSTER, store_type=store, directory=directory, archive=archive)


def publish(server: Server, channel: str, first: int, count: int) -> None:
    async def work() -> None:
        async with await stan.connect(CLUSTER, "publisher", servers=server.url) as client:
            await asyncio.gather(*(client.publish(channel, b"%d" % n) for n in range(first, first + count)))

    asyncio.run(work())


def sequences(folder: Path, channel: str) -> list[int]:
    table = Table(open_store(str(folder / "tables" / channel)))
    if table.newest() is None:
        return []
    return [n for batch in table.batches(["sequence"]) for n in batch.column("sequence").to_pylist()]


def eventually(get: Callable[[], Any], expected: Any) -> None:
    """Waits for what the archiver's thread does; it is over as soon as it did."""
    deadline = time.monotonic() + 30
    while (found := get()) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(SOON)


@pytest.mark.parametrize("store", ["FILE", "MEMORY"])
def test_channels_become_tables_while_the_server_serves(store: str, tmp_path: Path) -> None:
    with Server(streaming=options(tmp_path, store)) as server:
        publish(server, "orders.eu", 1, 300)
        publish(server, "prices", 1, 10)
        eventually(lambda: len(sequences(tmp_path, "orders.eu")), 300)
        eventually(lambda: sequences(tmp_path, "prices"), list(range(1, 11)))
        publish(server, "orders.eu", 301, 50)
        eventually(lambda: sequences(tmp_path, "orders.eu"), list(range(1, 351)))
        manifest = Table(open_store(str(tmp_path / "tables" / "orders.eu"))).manifest()
        with connect(server.url) as connection:
            [channel] = StreamingAdmin(connection, CLUSTER).channels("orders.eu")
            assert manifest.created_ns == channel.created_ns
            StreamingAdmin(connection, CLUSTER).purge("orders.eu", before_sequence=101)
        eventually(lambda: sequences(tmp_path, "orders.eu"), list(range(101, 351)))


def test_messages_are_those_of_the_channel(tmp_path: Path) -> None:
    with Server(streaming=options(tmp_path)) as server:
        publish(server, "orders", 1, 20)
        eventually(lambda: len(sequences(tmp_path, "orders")), 20)
        rows = [
            row for b in Table(open_store(str(tmp_path / "tables/orders"))).batches() for row in b.to_pylist()
        ]
    assert {row["data"] for row in rows} == {b"%d" % n for n in range(1, 21)}
    assert {(row["stream"], row["subject"], row["reply"]) for row in rows} == {("orders", "orders", None)}


def test_only_the_channels_that_are_meant(tmp_path: Path) -> None:
    with Server(streaming=options(tmp_path, channels=("orders.*", "prices"))) as server:
        for channel in ("orders", "prices", "orders.eu"):
            publish(server, channel, 1, 1)
        eventually(lambda: sequences(tmp_path, "orders.eu"), [1])
        eventually(lambda: sequences(tmp_path, "prices"), [1])
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["orders.eu", "prices"]


def test_next_start_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    for first in (1, 101):
        with Server(streaming=options(tmp_path)) as server:
            publish(server, "orders", first, 100)
            eventually(lambda last=first + 99: sequences(tmp_path, "orders"), list(range(1, first + 100)))
    assert not list((tmp_path / "tables" / "orders" / "_headrace" / "drafts").iterdir())


def test_monitoring_says_what_was_archived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Server(streaming=options(tmp_path), monitoring=True) as server:
        publish(server, "orders", 1, 30)
        eventually(lambda: len(sequences(tmp_path, "orders")), 30)

        def rows() -> int:
            with urlopen(f"{server.monitor_url}/streaming/serverz", timeout=10) as answer:
                stats: dict[str, Any] = json.load(answer)["archive"]
            assert stats["to"] == str(tmp_path / "tables")
            assert stats["failures"] == 0
            assert "last_error" not in stats
            return int(stats["rows"])

        eventually(rows, 30)
    lines = [record.getMessage() for record in caplog.records if "Archived channel" in record.getMessage()]
    assert lines
    assert lines[-1].startswith("STREAM: Archived channel orders up to sequence 30: ")


def test_failure_of_one_channel_is_said_once_and_does_not_stop_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "broken").write_text("no directory")
    with Server(streaming=options(tmp_path)) as server:
        publish(server, "broken", 1, 1)
        for n in range(1, 4):
            publish(server, "orders", n, 1)
            eventually(lambda n=n: sequences(tmp_path, "orders"), list(range(1, n + 1)))
        failures = server.server.services[0].snapshot_server().archive
        assert failures is not None
        assert failures.failures >= 2
        assert "broken: " in failures.last_error
    said = [record for record in caplog.records if "broken could not be archived" in record.getMessage()]
    assert len(said) == 1


def test_place_that_is_none_ends_the_start() -> None:
    pytest.importorskip("obstore")
    archive = ChannelArchiveOptions("gopher://x")
    with pytest.raises(StartError, match=r"^STREAM: Failed to start: archive: gopher://x"):
        Server(streaming=StreamingOptions(archive=archive)).__enter__()


def test_missing_packages_end_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith(("headrace.tables", "headrace.archiving"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StartError, match=r"archive needs the packages of headrace\[tables\]"):
        Server(streaming=options(tmp_path)).__enter__()


# -- the thread, with a service of the test's own


class Stored:
    """Channel orders with 8 pages of one message each, whose reading the test can hold up."""

    def __init__(self) -> None:
        self.at: list[int] = []
        self.on_page: Callable[[int], object] = lambda _first: None

    def names(self) -> list[bytes]:
        return [b"orders"]

    def state(self, _name: bytes) -> LogExtent:
        return LogExtent(1, 8, 8, 7)

    def page(self, _name: bytes, first: int, _end: int) -> LogPage:
        self.at.append(first)
        self.on_page(first)
        return LogPage([], [first], first + 1)


def archiver(folder: Path, stored: Callable[[], Any], interval: float = 3600.0) -> Archiver:
    options = ChannelArchiveOptions(str(folder), interval)
    return Archiver(options, archived_channels(options), stored, logging.getLogger("archiving-test"))


def test_end_of_the_server_does_not_wait_for_what_is_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`stop` runs on the loop that the thread waits for: it must end what is asked, not wait for it. It says
    so in the log when it waited in vain."""
    stored = Stored()

    async def work() -> None:
        asked = asyncio.Event()
        stored.on_page = lambda _first: asked.set()
        one = archiver(tmp_path, lambda: stored)
        one.start()
        await asked.wait()
        one.stop()

    asyncio.run(work())
    assert "was cut off" not in caplog.text
    assert stored.at[0] == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "headrace-archiver"]


def test_service_that_stands_by_is_looked_at_again(tmp_path: Path) -> None:
    looks: list[int] = []
    stored = Stored()

    async def work() -> None:
        done = asyncio.Event()

        def look() -> Any:
            looks.append(len(looks))
            return None if len(looks) == 1 else stored

        stored.on_page = lambda first: done.set() if first == 8 else None
        one = archiver(tmp_path, look)
        one.start()
        await asyncio.wait_for(done.wait(), 30)
        one.stop()

    asyncio.run(work())
    assert stored.at == list(range(1, 9))


def test_mistake_of_ours_is_a_traceback_and_the_next_round_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored = Stored()
    failed: list[int] = []

    async def work() -> None:
        done = asyncio.Event()

        def on_page(first: int) -> None:
            if not failed:
                failed.append(first)
                raise RuntimeError("a mistake")
            if first == 8:
                done.set()

        stored.on_page = on_page
        one = archiver(tmp_path, lambda: stored, interval=SOON)
        one.start()
        await asyncio.wait_for(done.wait(), 30)
        one.stop()
        assert one.stats().failures == 1

    asyncio.run(work())
    assert any("Archiving failed" in record.getMessage() for record in caplog.records)


def test_table_of_a_local_store_is_there_for_its_own_lock(tmp_path: Path) -> None:
    """Whoever else writes to the table meanwhile is waited for: its round is one failure, and no more."""
    stored = Stored()
    store = LocalStore(tmp_path / "orders")

    def archived_up_to() -> int:
        manifest = Table(store).newest()
        return manifest.next if manifest else 0

    async def work() -> None:
        one = archiver(tmp_path, lambda: stored, interval=SOON)
        with store.lock():
            one.start()
            await asyncio.to_thread(eventually, lambda: one.stats().failures > 0, True)
        await asyncio.to_thread(eventually, archived_up_to, 9)
        one.stop()

    asyncio.run(asyncio.wait_for(work(), 30))
    assert Table(store).manifest().damaged == ((1, 8),)
