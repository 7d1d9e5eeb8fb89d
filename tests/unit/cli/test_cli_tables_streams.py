"""`headrace tables archive --stream`: of a server and of a store, accounts, domains, wrong use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from headrace.cli.main import main
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.account_options import AccountOptions, JetStreamAccountLimits, UserOptions
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.streaming_options import StreamingOptions
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NATS_URL", "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN", "NATS_STREAMING_ENCRYPTION_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def tables(*arguments: object) -> int:
    return main(["headrace", "tables", *map(str, arguments)])


def fill(url: str, *names: str, count: int = 5, api: str = "$JS.API") -> None:
    with connect(url) as connection:
        jetstream = JetStreamApi(connection, api)
        for name in names:
            jetstream.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
            for number in range(1, count + 1):
                jetstream.put(f"{name}.new", b"%d" % number)


def rows_of(table: Path) -> list[int]:
    return sorted(n for path in table.glob("*.parquet") for n in pq.read_table(path)["sequence"].to_pylist())


def test_streams_of_a_server_by_name_and_by_pattern(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server(jetstream=True) as server:
        fill(server.url, "ORDERS", "ORDERS_EU", "PRICES", "KV_settings")
        place = ("--to", out, "--server", server.url)
        assert tables("archive", "--stream", "ORDERS", *place) == 0
        assert "ORDERS: 5 rows in 1 files" in capsys.readouterr().out
        assert rows_of(out / "ORDERS") == [1, 2, 3, 4, 5]
        assert tables("archive", "--stream", "*_EU", "--stream", "PRICES", *place) == 0
        assert sorted(one.name for one in out.iterdir()) == ["ORDERS", "ORDERS_EU", "PRICES"]
        assert tables("archive", "--stream", "*", *place) == 0
        assert not (out / "KV_settings").exists(), "a bucket is meant by its own name only"
        assert tables("archive", "--stream", "KV_*", *place) == 0
        assert rows_of(out / "KV_settings") == [1, 2, 3, 4, 5]
        capsys.readouterr()
        assert tables("archive", "--stream", "NOT_*", *place) == 1
        assert "no stream 'NOT_*'" in capsys.readouterr().err
        assert tables("archive", "--stream", "MISSING", "--stream", "ORDERS", *place) == 1
        assert "MISSING: there is no stream MISSING" in capsys.readouterr().err


def settings(url: str) -> None:
    with connect(url) as connection:
        jetstream = JetStreamApi(connection)
        wanted = {"name": "KV_settings", "subjects": ["$KV.settings.>"], "max_msgs_per_subject": 5}
        jetstream.ask("STREAM.CREATE.KV_settings", wanted)
        for key in ("a", "b", "a"):
            jetstream.put(f"$KV.settings.{key}", b"x")
        connection.request("$KV.settings.b", b"", headers={"KV-Operation": "DEL"}, timeout=10)


@pytest.mark.parametrize("of_store", [False, True])
def test_buckets_of_a_server_and_of_its_store(
    of_store: bool, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "js"
    wanted = ("--bucket", "settings", "--bucket-history", "set*", "--to", out)
    with Server(jetstream=where) as server:
        settings(server.url)
        if not of_store:
            assert tables("archive", *wanted, "--server", server.url) == 0
            assert tables("archive", "--bucket", "other", "--to", out, "--server", server.url) == 1
            assert "other.latest: there is no stream KV_other" in capsys.readouterr().err
    if of_store:
        assert tables("archive", *wanted, "--dir", where) == 0
        assert tables("archive", "--bucket", "other", "--to", out, "--dir", where) == 1
        assert "no stream 'KV_other'" in capsys.readouterr().err
    assert sorted(one.name for one in out.iterdir()) == ["settings.history", "settings.latest"]
    assert (rows_of(out / "settings.latest"), rows_of(out / "settings.history")) == ([3], [1, 2, 3, 4])
    capsys.readouterr()
    assert tables("list", out) == 0
    printed = capsys.readouterr().out
    assert "history of KV_settings, 4 rows" in printed
    assert "latest values of KV_settings, 1 rows" in printed
    assert tables("verify", out) == 0


def test_server_without_jetstream_says_so(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server() as server:
        assert tables("archive", "--stream", "ORDERS", "--to", out, "--server", server.url) == 1
    assert "no JetStream answers under $JS.API" in capsys.readouterr().err


def test_channel_that_is_a_stream_is_told_so(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def archive(*names: str) -> str:
        assert tables("archive", *names, "--to", out, "--server", server.url, "-cid", "shop") == 1
        return capsys.readouterr().err

    nobody = "no NATS Streaming (STAN) server of cluster ID shop answers"
    with Server() as server:
        assert archive("ORDERS").endswith(f"{nobody}; channels are those of NATS Streaming (STAN)\n")
    with Server(jetstream=True) as server:
        fill(server.url, "ORDERS", "PRICES")
        assert archive("missing").endswith(f"{nobody}; channels are those of NATS Streaming (STAN)\n")
        assert archive("orders", "PRICES.new").endswith("are named by --stream ORDERS --stream PRICES\n")
    with Server(jetstream=True, streaming=StreamingOptions(cluster_id="shop")) as server:
        fill(server.url, "ORDERS")
        told = archive("ORDERS")
        assert (
            "no channel 'ORDERS'; channels are those of NATS Streaming (STAN), streams of JetStream" in told
        )
    assert not out.exists()


def test_streams_of_a_domain(out: Path) -> None:
    with Server(jetstream=JetStreamOptions(domain="hub")) as server:
        fill(server.url, "ORDERS", api="$JS.hub.API")
        place = ("--server", server.url)
        assert tables("archive", "--stream", "ORDERS", "--to", out, *place, "--js-domain", "hub") == 0
        prefix = ("--js-api-prefix", "$JS.hub.API.")
        assert tables("archive", "--stream", "ORDERS", "--to", f"{out}2", *place, *prefix) == 0
        assert tables("archive", "--stream", "ORDERS", "--to", out, *place, "--js-domain", "leaf") == 1
    assert rows_of(out / "ORDERS") == rows_of(out.with_name("out2") / "ORDERS") == [1, 2, 3, 4, 5]


def test_streams_of_an_account_of_a_server_and_of_its_store(tmp_path: Path, out: Path) -> None:
    user = UserOptions(user="joe", password="pw")
    sales = AccountOptions("SALES", users=(user,), jetstream={"": JetStreamAccountLimits()})
    where = tmp_path / "js"
    with Server(accounts=(sales,), jetstream=where) as server:
        url = server.url.replace("//", "//joe:pw@")
        fill(url, "ORDERS")
        login = ("--server", server.url, "--user", "joe", "--password", "pw")
        assert tables("archive", "--stream", "ORDERS", "--to", out, *login) == 0
        with connect(url) as connection:
            JetStreamApi(connection).put("ORDERS.new", b"6")
    store = ("--dir", where, "--account", "SALES")
    assert tables("archive", "--stream", "ORDERS", "--to", out, *store) == 0
    assert rows_of(out / "ORDERS") == [1, 2, 3, 4, 5, 6]


def test_stores_that_are_none_and_streams_that_are_not_there(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "js"
    with Server(jetstream=where) as server:
        fill(server.url, "ORDERS")
        assert tables("archive", "--stream", "ORDERS", "--to", out, "--dir", where) == 1
        assert "stop the server first" in capsys.readouterr().err
    for directory, options, text in (
        (tmp_path, (), "is not a store_dir of Headrace"),
        (tmp_path / "missing", (), "is not a store_dir of Headrace"),
        (where, ("--account", "SALES"), "no stream 'ORDERS'"),
        (where, ("--key-file", tmp_path / "missing"), "No such file"),
        (where, ("--cipher", "aes"), "--cipher has no effect"),
    ):
        assert tables("archive", "--stream", "ORDERS", "--to", out, "--dir", directory, *options) == 1
        assert text in capsys.readouterr().err
    assert not out.exists()


def test_key_is_read_from_a_file(tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where, key = tmp_path / "js", tmp_path / "key"
    key.write_text("s3cret\n")
    options = JetStreamOptions(store_dir=str(where), encryption_key="s3cret", encryption_cipher="AES")
    with Server(jetstream=options) as server:
        fill(server.url, "ORDERS")
    archive = ("archive", "--stream", "ORDERS", "--to", out, "--dir", where)
    assert tables(*archive) == 1
    assert "say --key-file" in capsys.readouterr().err
    assert tables(*archive, "--key-file", key, "--cipher", "aes") == 0
    assert rows_of(out / "ORDERS") == [1, 2, 3, 4, 5]
    key.write_text("")
    assert tables(*archive, "--key-file", key) == 1
    assert "has no key in it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--dir", "y"], "name streams with --stream or --bucket, or channels"),
        (["a", "--stream", "B", "--dir", "y"], "not both"),
        (["--stream", "B"], "NATS_URL"),
        (["a", "--bucket", "B", "--dir", "y"], "not both"),
        (["--bucket", "B", "--dir", "y", "--retain", "forever"], "--retain is for messages and histories"),
        (["--stream", "B", "--dir", "y", "--js-domain", "hub"], "--js-domain needs --server"),
        (["--stream", "B", "--server", "y", "--account", "A"], "--account needs --dir"),
        (["--stream", "B", "--dir", "y", "--encrypt"], "--encrypt is for channels"),
        (["a", "--dir", "y", "--key-file", "k"], "--key-file is for streams"),
        (["--stream", "B", "--dir", "y", "--cipher", "rot13"], "rot13"),
    ],
)
def test_wrong_use(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tables("archive", "--to", "x", *arguments)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err
