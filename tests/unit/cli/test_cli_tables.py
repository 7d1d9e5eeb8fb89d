"""`headrace tables`: archive from a store and from a server, look after tables, exit codes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from headrace.cli import progress, tables_archive
from headrace.cli.main import main
from headrace.client import stan
from headrace.conf.streaming_options import StreamingOptions
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Tables = Callable[..., int]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NATS_URL", "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN", "NATS_STREAMING_ENCRYPTION_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """orders.eu with 20 messages, orders.us with 5."""
    directory = tmp_path / "store"
    store = FileStore(directory)
    for name, count in ((b"orders.eu", 20), (b"orders.us", 5)):
        log = store.open(name)
        log.append([NewMessage(name, b"order %d" % n, time_ns=n) for n in range(1, count + 1)])
    store.close()
    return directory


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def tables(*arguments: object) -> int:
    return main(["headrace", "tables", *map(str, arguments)])


def rows_of(table: Path) -> list[int]:
    return sorted(n for path in table.glob("*.parquet") for n in pq.read_table(path)["sequence"].to_pylist())


def change(directory: Path, name: bytes, *, delete: int = 0, up_to: int = 0, publish: int = 0) -> None:
    store = FileStore(directory)
    log = store.open(name)
    if delete:
        log.delete(delete, erase=True)
    if up_to:
        log.purge(up_to=up_to)
    log.append([NewMessage(name, b"later") for _ in range(publish)])
    store.close()


def test_archive_list_and_verify(store: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tables("archive", "orders.*", "--to", out, "--dir", store) == 0
    printed = capsys.readouterr().out
    assert "orders.eu: 20 rows in 1 files" in printed
    assert "archived up to sequence 5" in printed
    assert rows_of(out / "orders.eu") == list(range(1, 21))

    assert tables("list", out, "--json") == 0
    one, other = json.loads(capsys.readouterr().out)
    assert (one["stream"], one["rows"], one["next"], one["retain"]) == ("orders.eu", 20, 21, "stream")
    assert other["location"] == str(out / "orders.us")

    assert tables("list", out / "orders.us", "--files") == 0
    (path,) = capsys.readouterr().out.split()
    assert pq.read_table(path).num_rows == 5

    assert tables("list", out) == 0
    assert "stream orders.us, 5 rows in 1 files" in capsys.readouterr().out
    assert tables("verify", out) == 0
    assert capsys.readouterr().out.count("all well") == 2


def test_a_later_run_follows_the_stream(store: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables("archive", "orders.eu", "--to", out, "--dir", store)
    change(store, b"orders.eu", delete=10, up_to=4, publish=3)
    capsys.readouterr()

    assert tables("archive", "orders.eu", "--to", out, "--dir", store) == 0

    assert rows_of(out / "orders.eu") == [n for n in range(4, 24) if n != 10]
    assert "3 rows in 1 files" in (printed := capsys.readouterr().out)
    assert "4 rows removed" in printed


def test_compact_vacuum_and_erase(store: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = out / "orders.eu"
    for _ in range(3):
        tables("archive", "orders.eu", "--to", out, "--dir", store)
        change(store, b"orders.eu", publish=1)
    replaced = table / "_headrace" / "replaced"

    assert tables("compact", table) == 0
    assert "3 files became 1" in capsys.readouterr().out
    assert len(list(replaced.iterdir())) == 3
    assert tables("vacuum", table) == 0
    assert len(list(replaced.iterdir())) == 3, "an hour has not passed"
    assert tables("vacuum", table, "--older-than", "0s") == 0
    assert not list(replaced.iterdir())

    capsys.readouterr()
    assert tables("erase", table, "3", "5-7") == 2
    assert "nothing was done: say --force" in capsys.readouterr().err
    assert tables("erase", table, "3", "5-7", "--force") == 0
    assert "4 rows erased" in capsys.readouterr().out
    assert rows_of(table) == [n for n in range(1, 23) if n not in (3, 5, 6, 7)]


def test_erase_wants_one_table(store: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables("archive", "orders.*", "--to", out, "--dir", store)

    assert tables("erase", out, "1", "-f") == 1
    assert "name the one" in capsys.readouterr().err


def test_damage_and_loss_have_an_exit_code(
    store: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables("archive", "orders.eu", "--to", out, "--dir", store, "--retain", "forever")
    change(store, b"orders.eu", publish=5)
    change(store, b"orders.eu", up_to=24)

    assert tables("archive", "orders.eu", "--to", out, "--dir", store) == 3
    assert "gone from the stream before they were archived: 21 to 23" in capsys.readouterr().err
    assert tables("list", out) == 0
    assert "never archived: 21 to 23" in capsys.readouterr().out

    next((out / "orders.eu").glob("*.parquet")).write_bytes(b"PAR1")
    assert tables("verify", out) == 3
    assert "not the file that was written" in capsys.readouterr().out


def test_one_bad_table_does_not_stop_the_others(
    store: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "orders.eu" / "_headrace" / "manifests").mkdir(parents=True)
    (out / "orders.eu" / "_headrace" / "manifests" / f"{1:020}.json").write_text("{}")

    assert tables("archive", "orders.*", "--to", out, "--dir", store) == 1

    assert "orders.eu: " in capsys.readouterr().err
    assert rows_of(out / "orders.us") == [1, 2, 3, 4, 5]


def test_a_running_server(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def fill(url: str) -> None:
        async with await stan.connect("shop", "me", servers=url) as client:
            for n in range(7):
                await client.publish("orders", b"order %d" % n)

    with Server(streaming=StreamingOptions(cluster_id="shop")) as server:
        asyncio.run(fill(server.url))
        arguments = ("--to", out, "--server", server.url, "-cid", "shop")
        assert tables("archive", "orders", *arguments) == 0
        assert tables("archive", "missing", *arguments) == 1

    assert rows_of(out / "orders") == list(range(1, 8))
    assert "no channel 'missing'" in capsys.readouterr().err


def test_every_goes_on_through_outages(
    store: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            change(store, b"orders.eu", publish=4)
            store.rename(store.with_name("away"))
        elif len(pauses) == 2:
            store.with_name("away").rename(store)
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(tables_archive, "sleep", pause)  # not for other threads
    assert tables("archive", "orders.eu", "--to", out, "--dir", store, "--every", "90s") == 130

    assert pauses == [90, 90, 90]
    assert "no such directory; trying again" in capsys.readouterr().err
    assert rows_of(out / "orders.eu") == list(range(1, 25))


def test_every_merges_what_it_made(store: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 17:
            raise KeyboardInterrupt
        change(store, b"orders.eu", publish=4)

    monkeypatch.setattr(tables_archive, "sleep", pause)  # not for other threads
    assert tables("archive", "orders.eu", "--to", out, "--dir", store, "--every", "1s") == 130

    assert len(list((out / "orders.eu").glob("*.parquet"))) == 2
    assert rows_of(out / "orders.eu") == list(range(1, 85))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["archive", "a", "--to", "x", "--dir", "y", "--retain", "soon"], "--retain"),
        (["archive", "a", "--to", "x"], "NATS_URL"),
        (["archive", "a", "--dir", "y"], "--to"),
        (["archive", "a", "--to", "x", "--dir", "y", "--file-size", "big"], "not a size"),
        (["archive", "a", "--to", "x", "--dir", "y", "--every", "often"], "not a duration"),
        (["vacuum", "x", "--older-than", "-1s"], "--older-than"),
        (["erase", "x", "9-3"], "lower one first"),
        (["erase", "x", "all"], "not a sequence"),
        (["polish", "x"], "polish"),
        ([], "COMMAND"),
    ],
)
def test_wrong_use(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tables(*arguments)

    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_a_place_without_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["list"], ["compact"], ["verify"], ["vacuum"]):
        assert tables(*command, tmp_path) == 1
        assert "there is no table here" in capsys.readouterr().err


def test_object_stores_without_the_package_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "headrace.objects.remote", raising=False)

    assert tables("list", "s3://bucket/tables") == 1
    assert "pip install 'headrace[tables]'" in capsys.readouterr().err


def test_progress_is_a_line_now_and_then_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.ProgressBars("reading orders", unit="messages") as meter:
        meter.show(1, 10)
        now += 4
        meter.show(4, 10)
        meter.show(5, 10)
        now += 4
        meter.show(50, 100, count=80, place="eu")

    assert capsys.readouterr().err.splitlines() == [
        "  reading orders: 4 messages, 40 %, 1/s", "  reading orders eu: 80 messages, 50 %, 10/s"
    ]  # fmt: skip


def test_progress_is_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "BAR_AFTER", 0.0)
    with progress.ProgressBars("reading [orders]", unit="messages") as meter:
        meter.show(1234, 10_000)
        meter.show(10_000, 10_000)
        meter.show(10_000, 10_000, count=12_345, place="[eu]")

    shown = capsys.readouterr().err
    assert "[orders]" in shown
    assert "12,345 messages" in shown
    assert "[eu]" in shown
