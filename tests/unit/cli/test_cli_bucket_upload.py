"""`headrace jetstream upload`: a server's own store moves into a bucket, with all that is in it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import nats
import pytest

from harness.bucket_servers import create, directory_bucket, fill, fill_channel, serving, serving_channels
from headrace.cli import jetstream
from headrace.cli.main import main
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.streaming_options import StreamingOptions
from headrace.errors import StartError
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path


def own(place: Path, **more: Any) -> Server:
    """A server with its streams on its own disk."""
    return Server(jetstream=JetStreamOptions(store_dir=str(place / "old"), **more))


def upload(place: Path, *more: str, of: str = "old") -> int:
    return jetstream.run(["upload", "--to", directory_bucket(place).url, "--dir", str(place / of), *more])


def everything(place: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in place.rglob("*") if one.is_file() and one.name != "lock"}


def shown(url: str) -> list[Any]:
    """All that clients see of the streams and their consumer, and a message."""
    with connect(url) as connection:
        api = JetStreamApi(connection, "$JS.API")
        stream, consumer = api.ask("STREAM.INFO.ORDERS"), api.ask("CONSUMER.INFO.ORDERS.billing")
        message = api.ask("STREAM.MSG.GET.ORDERS", {"seq": 42})["message"]
        config = {key: value for key, value in stream["config"].items() if key != "num_replicas"}
        state = {key: value for key, value in stream["state"].items() if key != "bytes"}
        reached = [
            consumer[one][kind]
            for one in ("ack_floor", "delivered")
            for kind in ("stream_seq", "consumer_seq")
        ]
        return [config, state, stream["created"], *reached, message]


def consume(url: str, count: int) -> list[int]:
    """Take messages of the consumer, and acknowledge them; return what they are."""

    async def take() -> list[int]:
        async with await nats.connect(url) as connection:
            consumer = await connection.jetstream().pull_subscribe_bind("billing", "ORDERS")
            found = await consumer.fetch(count, timeout=10)
            for one in found:
                await one.ack_sync()
            return [int(one.data) for one in found]

    return asyncio.run(take())


@pytest.mark.parametrize("security", [{}, {"encryption_key": "s3cret", "encryption_cipher": "CHACHA"}])
def test_streams_move_into_a_bucket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], security: dict[str, str]
) -> None:
    with own(tmp_path, **security) as server:
        create(server.url, metadata={"of": "us"})
        create(server.url, "OTHER")
        with connect(server.url) as connection:
            JetStreamApi(connection, "$JS.API").ask(
                "CONSUMER.DURABLE.CREATE.ORDERS.billing",
                {"stream_name": "ORDERS", "config": {"durable_name": "billing", "ack_policy": "explicit"}},
            )
        fill(server.url, 1, 100)
        assert consume(server.url, 7) == [1, 2, 3, 4, 5, 6, 7]
        before = shown(server.url)
        assert upload(tmp_path) == 1
        assert "open: stop the server first" in capsys.readouterr().err
    files = everything(tmp_path / "old")
    with (
        ExitStack() as refused,
        pytest.raises(StartError, match=r"would be lost: `headrace jetstream upload --to file:///"),
    ):
        refused.enter_context(serving(tmp_path, "old", **security))
    assert upload(tmp_path) == 0
    printed = capsys.readouterr()
    assert "uploaded shard jetstream: " in printed.out
    assert "/old is as it was: give servers with the bucket another directory" in printed.out
    assert everything(tmp_path / "old") == files
    with serving(tmp_path, "new", **security) as server:
        create(server.url, "LATER")
        assert shown(server.url) == before
        assert consume(server.url, 3) == [8, 9, 10]
        fill(server.url, 101, 5)
    with serving(tmp_path, "another", **security) as server:  # of an empty disk
        create(server.url, "LAST")
        assert consume(server.url, 95) == list(range(11, 106))
    assert upload(tmp_path) == 1
    assert "has a store already: give another prefix" in capsys.readouterr().err
    with own(tmp_path, **security) as server:  # it is a backup of that moment
        create(server.url, "LATER")
        assert shown(server.url) == before


def test_channels_move_into_a_bucket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = StreamingOptions(cluster_id="c", store_type="FILE", directory=str(tmp_path / "old"))
    with Server(streaming=options) as server:
        fill_channel(server.url, "orders", 1, 20)
    with (
        ExitStack() as refused,
        pytest.raises(StartError, match=r"--dir \S+/old --shard streaming-c` brings it there"),
    ):
        refused.enter_context(serving_channels(tmp_path, "old"))
    assert upload(tmp_path, "--shard", "streaming-c") == 0
    with serving_channels(tmp_path, "new") as server:
        fill_channel(server.url, "orders", 21, 10)
    bucket = ["--from", directory_bucket(tmp_path).url, "--cid", "c", "--json"]
    capsys.readouterr()
    assert main(["headrace", "streaming", "channels", *bucket]) == 0
    assert '"msgs": 30' in capsys.readouterr().out


def test_what_cannot_be_uploaded_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert upload(tmp_path) == 1
    assert "is not the directory of a store" in capsys.readouterr().err
    with serving(tmp_path, "cache") as server:
        create(server.url)
    assert upload(tmp_path, of="cache") == 1
    assert "is a cache of a bucket" in capsys.readouterr().err
    assert jetstream.run(["upload", "--to", "bucket", "--dir", str(tmp_path)]) == 1
    assert "is no bucket" in capsys.readouterr().err
    assert upload(tmp_path, "--shard", "a/b") == 1
    assert "no name of a shard" in capsys.readouterr().err
