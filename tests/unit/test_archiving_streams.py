"""A server that makes tables of its streams while it serves."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest

from headrace.archiving import archived_streams
from headrace.client.blocking import connect
from headrace.client.errors import NoRespondersError
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.account_options import AccountOptions, JetStreamAccountLimits, UserOptions
from headrace.conf.archive_options import StreamArchiveOptions
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.errors import StartError
from headrace.jetstream.assets import stream_log
from headrace.objects.errors import KeyMissing
from headrace.schemas import metadata
from headrace.tables import Table, open_store
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOON = 0.02


def options(folder: Path, **changes: Any) -> JetStreamOptions:
    archive = StreamArchiveOptions(**{"to": str(folder / "tables"), "interval": SOON, **changes})
    return JetStreamOptions(store_dir=str(folder / "js"), archive=archive)


def make(url: str, name: str, **config: Any) -> None:
    with connect(url) as connection:
        wanted = {"name": name, "subjects": [f"{name}.>"], **config}
        JetStreamApi(connection).ask(f"STREAM.CREATE.{name}", wanted)


def publish(url: str, name: str, first: int, count: int) -> None:
    with connect(url) as connection:
        jetstream = JetStreamApi(connection)
        for number in range(first, first + count):
            jetstream.put(f"{name}.new", b"%d" % number)


def sequences(folder: Path, place: str) -> list[int]:
    table = Table(open_store(str(folder / "tables" / place)))
    if table.newest() is None:
        return []
    try:
        return [n for batch in table.batches(["sequence"]) for n in batch.column("sequence").to_pylist()]
    except KeyMissing:  # what is erased is kept for nobody, not for who reads it just then either
        return []


def eventually(get: Callable[[], Any], expected: Any) -> None:
    """Waits for what the archiver's thread does; it is over as soon as it did."""
    deadline = time.monotonic() + 30
    while (found := get()) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(SOON)


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_streams_become_tables_while_the_server_serves(storage: str, tmp_path: Path) -> None:
    with Server(jetstream=options(tmp_path)) as server:
        make(server.url, "ORDERS", storage=storage)
        publish(server.url, "ORDERS", 1, 50)
        eventually(lambda: sequences(tmp_path, "ORDERS"), list(range(1, 51)))
        publish(server.url, "ORDERS", 51, 20)
        eventually(lambda: sequences(tmp_path, "ORDERS"), list(range(1, 71)))
        with connect(server.url) as connection:
            jetstream = JetStreamApi(connection)
            jetstream.ask("STREAM.PURGE.ORDERS", {"seq": 11})
            jetstream.ask("STREAM.MSG.DELETE.ORDERS", {"seq": 40})
            created = jetstream.stream("ORDERS").created_ns
        eventually(lambda: sequences(tmp_path, "ORDERS"), [n for n in range(11, 71) if n != 40])
    table = Table(open_store(str(tmp_path / "tables" / "ORDERS")))
    assert table.manifest().created_ns == created
    row = next(iter(table.batches())).to_pylist()[0]
    assert (row["stream"], row["subject"], row["data"]) == ("ORDERS", "ORDERS.new", b"11")


def test_streams_that_say_what_payloads_are_become_typed_tables(tmp_path: Path) -> None:
    pytest.importorskip("fastjsonschema")
    with Server(jetstream=options(tmp_path)) as server:
        make(server.url, "ORDERS", metadata=metadata({"type": "integer"}))
        publish(server.url, "ORDERS", 1, 3)
        eventually(lambda: sequences(tmp_path, "ORDERS"), [1, 2, 3])
    table = Table(open_store(str(tmp_path / "tables" / "ORDERS")))
    found = [one for where in table.locations() for one in pq.read_table(where)["value"].to_pylist()]
    assert found == [1, 2, 3]


def test_only_the_streams_and_accounts_that_are_meant(tmp_path: Path) -> None:
    users = {name: UserOptions(user=name, password="pw") for name in ("A", "B")}
    accounts = tuple(
        AccountOptions(name, users=(user,), jetstream={"": JetStreamAccountLimits()})
        for name, user in users.items()
    )
    wanted = options(tmp_path, streams=("ORD*",), accounts=("A",))
    with Server(jetstream=wanted, accounts=accounts) as server:
        for name in users:
            url = server.url.replace("//", f"//{name}:pw@")
            for stream in ("ORDERS", "PRICES", "KV_ORD"):
                make(url, stream)
                publish(url, stream, 1, 3)
        eventually(lambda: sequences(tmp_path, "A/ORDERS"), [1, 2, 3])
    assert [one.name for one in (tmp_path / "tables").iterdir()] == ["A"]
    assert [one.name for one in (tmp_path / "tables" / "A").iterdir()] == ["ORDERS"]


def test_buckets_become_tables_of_values_and_of_operations(tmp_path: Path) -> None:
    wanted = options(tmp_path, streams=(), buckets=("*",), bucket_histories=("settings",))
    with Server(jetstream=wanted) as server, connect(server.url) as connection:
        for bucket in ("settings", "other"):
            make(server.url, f"KV_{bucket}", subjects=[f"$KV.{bucket}.>"], max_msgs_per_subject=5)
        jetstream = JetStreamApi(connection)
        for key in ("a", "b", "a"):
            jetstream.put(f"$KV.settings.{key}", b"x")
        eventually(lambda: sequences(tmp_path, "settings.latest"), [2, 3])
        connection.request("$KV.settings.b", b"", headers={"KV-Operation": "DEL"}, timeout=10)
        eventually(lambda: sequences(tmp_path, "settings.latest"), [3])
        eventually(lambda: sequences(tmp_path, "settings.history"), [1, 2, 3, 4])
        eventually((tmp_path / "tables" / "other.latest").is_dir, True)
    assert sorted(one.name for one in (tmp_path / "tables").iterdir()) == [
        "other.latest", "settings.history", "settings.latest"
    ]  # fmt: skip


def test_names_of_accounts_and_streams_do_not_leave_the_place_of_tables() -> None:
    choose = archived_streams(StreamArchiveOptions("/tables", buckets=("*",)))
    names = [("..", "ORDERS"), ("../../etc", "ORDERS"), ("/etc", "."), ("_headrace", "KV_.."), ("$G", "..")]
    places = [one.place for one in choose([stream_log(*each) for each in names])]
    assert places == [
        "%2E./ORDERS", "%2E.%2F..%2Fetc/ORDERS", "%2Fetc/%2E", "%5Fheadrace/%2E..latest", "%2E."
    ]  # fmt: skip
    for place in places:
        assert not {"", ".", "..", "_headrace"} & set(place.split("/"))


def test_next_start_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    for first in (1, 41):
        with Server(jetstream=options(tmp_path)) as server:
            if first == 1:
                make(server.url, "ORDERS")
            publish(server.url, "ORDERS", first, 40)
            eventually(lambda last=first + 39: sequences(tmp_path, "ORDERS"), list(range(1, first + 40)))


def test_monitoring_and_log_say_what_was_archived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "BROKEN").write_text("no directory")
    with Server(jetstream=options(tmp_path), monitoring=True) as server:
        make(server.url, "BROKEN")
        make(server.url, "ORDERS")
        publish(server.url, "ORDERS", 1, 30)
        eventually(lambda: sequences(tmp_path, "ORDERS"), list(range(1, 31)))

        def rows() -> int:
            with urlopen(f"{server.monitor_url}/jsz", timeout=10) as answer:
                stats: dict[str, Any] = json.load(answer)["archive"]
            assert stats["failures"] > 0
            assert stats["last_error"].startswith("stream '$G > BROKEN': ")
            return int(stats["rows"])

        eventually(rows, 30)
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("JetStream: Archived stream '$G > ORDERS' up to sequence") for line in lines)
    assert sum("BROKEN' could not be archived" in line for line in lines) == 1


def test_place_that_is_none_ends_the_start(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    with pytest.raises(StartError, match=r"^Can't start JetStream: archive: gopher://x"):
        Server(jetstream=options(tmp_path, to="gopher://x")).__enter__()


def tables(server: Server, request: dict[str, int] | None = None) -> Any:
    """What the server tells an operator of its tables."""
    url = server.url.replace("//", "//op:pw@")
    with connect(url) as connection:
        answer = connection.request("$HEADRACE.TABLES.STATE", json.dumps(request or {}).encode())
    return json.loads(answer.data)["data"]


def with_operator(*names: str) -> dict[str, Any]:
    accounts = tuple(
        AccountOptions(
            name, users=(UserOptions(user=name, password="pw"),), jetstream={"": JetStreamAccountLimits()}
        )
        for name in names
    )
    system = AccountOptions("SYS", users=(UserOptions(user="op", password="pw"),))
    return {"accounts": (*accounts, system), "system_account": "SYS"}


def test_operators_are_told_how_far_each_table_is(tmp_path: Path) -> None:
    with Server(jetstream=options(tmp_path), **with_operator("A", "B")) as server:
        url = {name: server.url.replace("//", f"//{name}:pw@") for name in ("A", "B")}
        make(url["A"], "ORDERS")
        publish(url["A"], "ORDERS", 1, 30)
        make(url["B"], "PRICES")
        eventually(lambda: [one.get("archived_sequence") for one in tables(server)["tables"]], [30, 0])

        found = tables(server)
        pages = [tables(server, {"offset": at, "limit": 1}) for at in range(3)]
        with connect(url["A"]) as connection, pytest.raises(NoRespondersError):
            connection.request("$HEADRACE.TABLES.STATE", b"")

    orders, prices = found["tables"]
    assert (found["total"], orders["account"], orders["stream"]) == (2, "A", "ORDERS")
    assert (orders["service"], orders["kind"], orders["to"]) == (
        "jetstream",
        "messages",
        f"{tmp_path}/tables/A/ORDERS",
    )
    assert (orders["last_sequence"], orders["rows"]) == (30, 30)
    assert orders["files"] > 0
    assert orders["bytes"] > 0
    assert "last" in orders
    assert "last_error" not in orders
    assert (prices["stream"], prices["last_sequence"], prices["rows"]) == ("PRICES", 0, 0)
    assert [[one["stream"] for one in page["tables"]] for page in pages] == [["ORDERS"], ["PRICES"], []]


def test_a_table_that_fails_says_why_until_it_works_again(tmp_path: Path) -> None:
    in_the_way = tmp_path / "tables" / "A" / "ORDERS"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("no directory")
    with Server(jetstream=options(tmp_path), **with_operator("A")) as server:
        url = server.url.replace("//", "//A:pw@")
        make(url, "ORDERS")
        publish(url, "ORDERS", 1, 3)
        eventually(lambda: ["last_error" in one for one in tables(server)["tables"]], [True])
        (failing,) = tables(server)["tables"]
        in_the_way.unlink()
        eventually(lambda: [one.get("archived_sequence") for one in tables(server)["tables"]], [3])
        (working,) = tables(server)["tables"]

    assert str(in_the_way) in failing["last_error"]
    assert "archived_sequence" not in failing
    assert "last" not in failing
    assert "last_error" not in working


def test_a_server_without_tables_is_silent(tmp_path: Path) -> None:
    with (
        Server(jetstream=JetStreamOptions(store_dir=str(tmp_path)), **with_operator("A")) as server,
        connect(server.url.replace("//", "//op:pw@")) as connection,
        pytest.raises(NoRespondersError),
    ):
        connection.request("$HEADRACE.TABLES.STATE", b"")
