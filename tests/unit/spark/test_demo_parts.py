from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from headrace.cli import demo as command
from headrace.demo.chart import draw_delays
from headrace.demo.display import Counters, Display
from headrace.demo.feed import FeedError, load_airlines, load_flights, messages
from headrace.demo.files import Files
from headrace.demo.monitor import messages_sent
from headrace.demo.replay import Replay, ReplayError
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def flights() -> list[dict[str, Any]]:
    return load_flights()


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


def test_replay_publishes_everything_and_tells(tmp_path: Path) -> None:
    from headrace.client.blocking import connect

    with Server() as server, connect(server.url) as nc:
        nc.subscribe("flights.>")
        nc.flush()
        replay = Replay(server.url, 3000, tmp_path / "log")
        try:
            assert replay.wait_ready() == 3000
            replay.go()
            received = 0
            while received < 3000:
                batch = nc.receive(10)
                assert len(batch)
                received += len(batch)
            replay._reader.join()
            replay.check()
            assert (replay.published, replay.is_done) == (3000, True)
        finally:
            replay.end()


def test_replay_without_a_server_says_why(tmp_path: Path) -> None:
    replay = Replay("nats://127.0.0.1:1", 10, tmp_path / "log")
    try:
        with pytest.raises(ReplayError, match="the publisher failed: "):
            replay.wait_ready()
    finally:
        replay.end()


def test_messages_sent_counts_those_of_the_named_connections() -> None:
    from headrace.client.blocking import connect
    from headrace.client.handshake import ConnectOptions

    with Server(monitoring=True) as server:
        with connect(server.url, ConnectOptions(name="me")) as nc:
            nc.subscribe("a")
            for _ in range(5):
                nc.publish("a")
            nc.flush()
            assert messages_sent(server.monitor_url, "me") == 5
            assert messages_sent(server.monitor_url, "you") is None
        gone = server.monitor_url
    assert messages_sent(gone, "me") is None


def test_files_clear_removes_only_what_a_run_writes(tmp_path: Path) -> None:
    files = Files(tmp_path / "out")
    files.clear()
    for folder in (files.flights, files.delays, files.checkpoints):
        folder.mkdir()
        (folder / "x").touch()
    for file in (files.chart, files.spark_log, files.publisher_log, files.folder / "notes.txt"):
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
    with Counters(display, 100, ("published", "written")) as counters:
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
    with Counters(display, 1000, ("published",)) as counters:
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
