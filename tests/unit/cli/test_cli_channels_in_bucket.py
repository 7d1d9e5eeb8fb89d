"""Commands that read channels from their bucket, beside the server and without it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from msgspec.structs import replace

from harness.waiting import wait_until
from headrace.cli.main import main
from headrace.client import stan
from headrace.conf.bucket_options import BucketOptions
from headrace.conf.streaming_options import StreamingOptions
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NATS_URL", "NATS_STREAMING_ENCRYPTION_KEY"):
        monkeypatch.delenv(name, raising=False)


def streaming(folder: Path, **more: Any) -> StreamingOptions:
    return StreamingOptions(
        cluster_id="c",
        store_type="FILE",
        directory=str(folder / "disk"),
        bucket=BucketOptions(f"file://{folder}/bucket"),
        **more,
    )


def place(folder: Path, *more: str) -> list[str]:
    return ["--from", f"file://{folder}/bucket", "--cid", "c", *more]


def fill(url: str, *data: bytes) -> None:
    async def publish() -> None:
        async with await stan.connect("c", "me", servers=url) as client:
            await client.subscribe("orders.new", durable_name="keeper", queue="")
            for one in data:
                await client.publish("orders.new", one)

    asyncio.run(publish())


def archive(folder: Path, to: str, *more: str) -> int:
    flags = ["--to", str(folder / to), *place(folder, *more)]
    return main(["headrace", "tables", "archive", "orders.>", *flags])


def rows_of(table: Path) -> list[tuple[int, bytes]]:
    tables = [pq.read_table(path) for path in sorted(table.glob("*.parquet"))]
    return [(row["sequence"], row["data"]) for one in tables for row in one.to_pylist()]


def test_channels_become_tables_beside_their_server_and_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(streaming=streaming(tmp_path)) as server:
        fill(server.url, b"a", b"b")
        assert archive(tmp_path, "out") == 0
        assert "orders.new: 2 rows" in capsys.readouterr().out
        fill(server.url, b"c")
    assert archive(tmp_path, "out") == 0
    assert "orders.new: 1 rows" in capsys.readouterr().out
    assert rows_of(tmp_path / "out/orders.new") == [(1, b"a"), (2, b"b"), (3, b"c")]


def test_channels_and_durables_are_listed_without_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(streaming=streaming(tmp_path)) as server:
        fill(server.url, b"a", b"b")
    assert main(["headrace", "streaming", "channels", *place(tmp_path, "--json")]) == 0
    (channel,) = json.loads(capsys.readouterr().out)
    assert (channel["name"], channel["msgs"]) == ("orders.new", 2)
    assert [one["durable_name"] for one in channel["subscriptions"]] == ["keeper"]
    assert main(["headrace", "streaming", "report", "--check", *place(tmp_path)]) == 0
    assert "orders.new" in capsys.readouterr().out


def test_encrypted_channels_need_their_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(streaming=streaming(tmp_path, encryption_key="secret", encryption_cipher="CHACHA")) as server:
        fill(server.url, b"a")
    assert archive(tmp_path, "out") == 1
    assert "say --encrypt" in capsys.readouterr().err
    monkeypatch.setenv("NATS_STREAMING_ENCRYPTION_KEY", "secret")
    assert archive(tmp_path, "out", "--encrypt", "--encryption_cipher", "CHACHA") == 0
    assert rows_of(tmp_path / "out/orders.new") == [(1, b"a")]


def test_another_cluster_id_and_flags_without_a_bucket_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(streaming=streaming(tmp_path)) as server:
        fill(server.url, b"a")
    bucket = f"file://{tmp_path}/bucket"
    assert main(["headrace", "streaming", "channels", "--from", bucket]) == 1
    assert "there is no shard streaming-test-cluster in" in capsys.readouterr().err
    assert main(["headrace", "streaming", "channels", "--dir", str(tmp_path), "--region", "r"]) == 1
    assert "--region needs a bucket: --from" in capsys.readouterr().err


def test_server_that_stands_by_names_the_one_that_has_the_channels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two servers that hear nothing of each other: the second takes over, and the first lets it."""
    with (
        Server(http_port=-1, server_name="first", streaming=streaming(tmp_path)) as first,
        Server(
            http_port=-1,
            server_name="second",
            streaming=replace(streaming(tmp_path), directory=str(tmp_path / "other")),
        ) as second,
    ):
        wait_until(lambda: owner_at(first.monitor_url) == "second", "the first server hears who took over")
        assert main(["headrace", "streaming", "channels", "--url", first.monitor_url]) == 1
        assert "stands by, second has the channels" in capsys.readouterr().err
        assert main(["headrace", "streaming", "channels", "--url", second.monitor_url]) == 0
        for server, code in ((first, 204), (second, 200)):
            with urlopen(f"{server.monitor_url}/streaming/isFTActive") as answer:
                assert answer.status == code
            with urlopen(f"{server.monitor_url}/healthz") as answer:
                assert json.load(answer)["status"] == "ok"
            with urlopen(f"{server.monitor_url}/metrics") as answer:
                lines = answer.read().decode().splitlines()
            (labels,) = (one for one in lines if "bucket_role{" in one and one.endswith((" 1", " 1.0")))
            assert 'shard="streaming-c"' in labels
            assert f'role="{"owner" if server is second else "standby"}"' in labels


def owner_at(url: str) -> str | None:
    """The server that another one takes for the owner; none as long as it has not heard of any."""
    with urlopen(f"{url}/streaming/serverz") as answer:
        owner = json.load(answer)["bucket"].get("owner")
    return None if owner is None else str(owner)


def test_channels_are_restored_as_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server(streaming=streaming(tmp_path)) as server:
        fill(server.url, b"a", b"b")
    bucket = f"file://{tmp_path}/bucket"
    flags = ["--shard", "streaming-c", "--dir", str(tmp_path / "restored")]
    assert main(["headrace", "jetstream", "restore", "--from", bucket, *flags]) == 0
    assert "restored shard streaming-c" in capsys.readouterr().out
    store = str(tmp_path / "restored/jetstream")
    with Server(streaming=StreamingOptions(cluster_id="c", store_type="FILE", directory=store)) as server:
        capsys.readouterr()
        assert (
            main(["headrace", "streaming", "channels", "--server", server.url, "--cid", "c", "--json"]) == 0
        )
    (channel,) = json.loads(capsys.readouterr().out)
    assert (channel["name"], channel["msgs"]) == ("orders.new", 2)
    assert main(["headrace", "jetstream", "status", "--from", bucket, "--shard", "streaming-c"]) == 0
    assert "streaming-c" in capsys.readouterr().out
