from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from headrace.cli import demo as command
from headrace.client.blocking import connect
from headrace.client.jetstream import JetStream
from headrace.demo.chart import draw_delays
from headrace.demo.display import CounterDisplay, Display
from headrace.demo.feed import FeedError, load_airlines, load_flights, messages
from headrace.demo.files import Files
from headrace.demo.publisher import FeedPublication
from headrace.demo.publisher_process import PublisherError, PublisherProcess
from headrace.demo.stream import STREAM, look
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def flights() -> list[dict[str, Any]]:
    return load_flights()


def stored(url: str) -> list[tuple[str, bytes]]:
    """Subjects and payloads in the stream's order; the sequences are checked."""
    with connect(url) as connection:
        batches = list(JetStream(connection).read(STREAM, 1, look(url).last_sequence + 1))
    found = [
        (subject.decode(), payload)
        for batch in batches
        for subject, payload in zip(batch.subjects, batch.payloads, strict=True)
    ]
    sequences = [sequence for batch in batches for sequence in batch.sequences]
    assert sequences == list(range(1, len(found) + 1))
    return found


def publish(url: str, feed: list[tuple[str, bytes]]) -> None:
    async def work() -> None:
        publication = FeedPublication(url, published=print)
        await publication.prepare()
        await publication.run(feed)

    asyncio.run(work())


def test_feed_is_the_whole_year_in_time_order(flights: list[dict[str, Any]]) -> None:
    assert len(flights) == 336_776
    keys = [(f["year"], f["month"], f["day"], f["hour"], f["minute"]) for f in flights]
    assert keys == sorted(keys)
    assert sum(f["dep_delay"] is None for f in flights) == 8_255
    assert {f["carrier"] for f in flights} == set(load_airlines())


def test_feed_message_has_subject_and_the_whole_record(flights: list[dict[str, Any]]) -> None:
    flight = flights[0]
    [(subject, payload)] = messages([flight])
    assert subject == f"flights.{flight['origin']}.{flight['carrier']}"
    assert json.loads(payload) == flight
    assert len(flight) == 19


def test_feed_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(FeedError, match=r"headrace\[demo\]"):
        load_flights(1)


def test_replay_publishes_everything_and_tells(flights: list[dict[str, Any]], tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with Server(jetstream=True) as server:
        publisher = PublisherProcess(server.url, 3000, tmp_path / "log", lambda *counts: told.append(counts))
        try:
            assert publisher.wait_ready() == 3000
            publisher.go()
            publisher._reader.join()
            publisher.check()
            assert (publisher.published, publisher.is_done) == (3000, True)
            assert (publisher.recovered, publisher.repeated) == (None, 0)
        finally:
            publisher.end()
        assert told == sorted(told)
        assert {total for _, total in told} == {3000}
        assert stored(server.url) == messages(flights[:3000])


def test_replay_into_a_stream_that_was_used_before_says_what_to_do(tmp_path: Path) -> None:
    with Server(jetstream=True) as server:
        publish(server.url, [("flights.a", b"x")])
        publisher = PublisherProcess(server.url, 10, tmp_path / "log")
        try:
            with pytest.raises(
                PublisherError, match=r"stream FLIGHTS .* last sequence is 1; remove it first"
            ):
                publisher.wait_ready()
        finally:
            publisher.end()


def test_replay_to_a_server_without_jetstream_says_so(tmp_path: Path) -> None:
    with Server() as server:
        publisher = PublisherProcess(server.url, 10, tmp_path / "log")
        try:
            with pytest.raises(PublisherError, match=r"no JetStream answers at .*: start .* -js"):
                publisher.wait_ready()
        finally:
            publisher.end()


def test_replay_without_a_server_says_why(tmp_path: Path) -> None:
    publisher = PublisherProcess("nats://127.0.0.1:1", 10, tmp_path / "log")
    try:
        with pytest.raises(PublisherError, match="the publisher failed: "):
            publisher.wait_ready()
    finally:
        publisher.end()


def test_look_is_the_last_sequence() -> None:
    with Server(jetstream=True) as server:
        assert look(server.url).last_sequence == 0
        publish(server.url, [("flights.a", b"x")] * 5)
        assert look(server.url).last_sequence == 5


def test_files_clear_removes_only_what_a_run_writes(tmp_path: Path) -> None:
    files = Files(tmp_path / "out")
    files.clear()
    for folder in (files.flights, files.delays, files.checkpoints, files.store):
        folder.mkdir()
        (folder / "x").touch()
    for file in (
        files.chart,
        files.spark_log,
        files.publisher_log,
        files.server_log,
        files.folder / "notes.txt",
    ):
        file.touch()
    files.clear()
    assert [path.name for path in files.folder.iterdir()] == ["notes.txt"]


def test_chart_is_a_picture_even_of_little(tmp_path: Path) -> None:
    rows = [
        {"carrier": "AA", "hour": 9, "flights": 30, "cancelled": 0, "mean_delay": -3.2},
        {"carrier": "AA", "hour": 10, "flights": 2, "cancelled": 2, "mean_delay": None},
        {"carrier": "??", "hour": 12, "flights": 1, "cancelled": 1, "mean_delay": None},
    ]
    for number, some in enumerate((rows, rows[1:])):
        path = tmp_path / f"{number}.png"
        draw_delays(some, {"AA": "American"}, 33, path)
        assert path.read_bytes().startswith(b"\x89PNG")


def test_display_lines_without_a_terminal_show_counts_and_rates() -> None:
    text = io.StringIO()
    display = Display(Console(file=text, width=100))
    with CounterDisplay(display, 100, ("published", "written")) as counters:
        counters.show((50, 0))
        counters.show((100, 100))
    display.checked(True, "good")
    display.checked(False, "bad")
    display.table("Title", {"a": False, "b": True}, [("x", "1")])
    out = text.getvalue()
    assert re.search(r"published 100 \([\d,]+/s\), written 100 \([\d,]+/s\) of 100", out)
    assert "ok    good" in out
    assert "WRONG bad" in out
    assert "\x1b" not in out


def test_display_bars_on_a_terminal_reach_the_total() -> None:
    text = io.StringIO()
    display = Display(Console(file=text, width=100, force_terminal=True))
    with CounterDisplay(display, 1000, ("published",)) as counters:
        counters.show((500,))
        counters.show((1000,))
    assert "1,000 / 1,000" in text.getvalue()


def test_command_wrong_limit_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.run(["--limit", "0"], "headrace")
    assert "argument --limit: '0' is not a whole number above 0" in capsys.readouterr().err


def test_command_starts_without_importing_spark() -> None:
    code = "import sys, headrace.cli.demo; assert not {'pyspark', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
