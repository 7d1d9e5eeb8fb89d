"""`headrace tables archive --from`: streams read from their bucket, beside the server and without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from harness.s3 import s3_endpoint
from headrace.bucket.identity import IDENTITY_KEY
from headrace.cli.main import main
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.bucket_options import BucketCredentials, BucketOptions
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.tables.errors import TableMissing
from headrace.tables.open import find_tables
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NATS_URL", "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def archive(*arguments: object) -> int:
    return main(["headrace", "tables", "archive", *map(str, arguments)])


def fill(url: str, first: int, count: int) -> None:
    with connect(url) as connection:
        api = JetStreamApi(connection, "$JS.API")
        if first == 1:
            api.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
        for number in range(first, first + count):
            api.put("orders.new", b"%d" % number)


def rows_of(table: Path) -> list[tuple[int, bytes]]:
    tables = [pq.read_table(path) for path in sorted(table.glob("*.parquet"))]
    return [(row["sequence"], row["data"]) for one in tables for row in one.to_pylist()]


def test_what_is_acknowledged_is_read_beside_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = BucketOptions(f"file://{tmp_path}/bucket")
    place = ("--stream", "ORDERS", "--to", tmp_path / "out", "--from", bucket.url)
    with Server(jetstream=JetStreamOptions(store_dir=str(tmp_path / "store"), bucket=bucket)) as server:
        fill(server.url, 1, 50)
        assert archive(*place) == 0
        assert "ORDERS: 50 rows" in capsys.readouterr().out
        fill(server.url, 51, 20)
        with connect(server.url) as connection:
            api = JetStreamApi(connection, "$JS.API")
            api.ask("STREAM.MSG.DELETE.ORDERS", {"seq": 60})
            api.ask("STREAM.PURGE.ORDERS", {"seq": 11})
        assert archive(*place) == 0
        before = sorted(path.name for path in (tmp_path / "bucket").rglob("*"))
    assert rows_of(tmp_path / "out/ORDERS") == [
        (number, b"%d" % number) for number in range(11, 71) if number != 60
    ]
    assert archive("--stream", "ORDERS", "--to", tmp_path / "again", "--from", bucket.url) == 0
    assert rows_of(tmp_path / "again/ORDERS") == rows_of(tmp_path / "out/ORDERS")
    assert set(before) <= {path.name for path in (tmp_path / "bucket").rglob("*")}
    assert archive("--stream", "MISSING", *place[2:]) == 1
    assert "no stream 'MISSING'" in capsys.readouterr().err


def test_an_encrypted_store_needs_its_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bucket = BucketOptions(f"file://{tmp_path}/bucket")
    options = JetStreamOptions(
        store_dir=str(tmp_path / "store"), bucket=bucket, encryption_key="secret", encryption_cipher="CHACHA"
    )
    place = ("--stream", "ORDERS", "--to", tmp_path / "out", "--from", bucket.url)
    with Server(jetstream=options) as server:
        fill(server.url, 1, 5)
        assert archive(*place) == 1
        assert "--key-file" in capsys.readouterr().err
        (tmp_path / "key").write_text("secret\n")
        assert archive(*place, "--key-file", tmp_path / "key") == 0
    assert [sequence for sequence, _ in rows_of(tmp_path / "out/ORDERS")] == [1, 2, 3, 4, 5]


@pytest.mark.filterwarnings("default")
def test_the_configuration_of_the_server_says_how_s3_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with s3_endpoint("streams") as endpoint:
        keys = BucketCredentials(access_key_id="key", secret_access_key="secret")
        bucket = BucketOptions("s3://streams/a", endpoint=endpoint, region="us-east-1", credentials=keys)
        (tmp_path / "server.conf").write_text(
            f'jetstream {{ store_dir: "{tmp_path}/other", bucket {{ url: "s3://streams/a", '
            f'endpoint: "{endpoint}", region: us-east-1, '
            "credentials { access_key_id: key, secret_access_key: secret } } }"
        )
        with Server(jetstream=JetStreamOptions(store_dir=str(tmp_path / "store"), bucket=bucket)) as server:
            fill(server.url, 1, 5)
            reached = ("--from", "s3://streams/a", "--config", tmp_path / "server.conf")
            assert archive("--stream", "ORDERS", "--to", tmp_path / "out", *reached) == 0
            assert main(["headrace", "jetstream", "status", *map(str, reached)]) == 0
    assert [sequence for sequence, _ in rows_of(tmp_path / "out/ORDERS")] == [1, 2, 3, 4, 5]


def test_places_that_are_no_bucket_of_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ("--stream", "ORDERS", "--to", tmp_path / "out", "--from")
    assert archive(*place, f"file://{tmp_path}/none") == 1
    assert "has no streams of Headrace in it" in capsys.readouterr().err
    (tmp_path / "other").mkdir()
    (tmp_path / "other/letter").write_bytes(b"x")
    assert archive(*place, f"file://{tmp_path}/other") == 1
    assert "holds letter, and is not of Headrace" in capsys.readouterr().err
    identity = tmp_path / "newer" / IDENTITY_KEY
    identity.parent.mkdir(parents=True)
    identity.write_bytes(msgspec.msgpack.encode({"format": 9, "kind": "headrace"}))
    assert archive(*place, f"file://{tmp_path}/newer") == 1
    assert "was written by a later version" in capsys.readouterr().err


def test_streams_in_a_bucket_are_no_tables(tmp_path: Path) -> None:
    for key in (IDENTITY_KEY, "shards/jetstream/wal/00000000000000000001"):
        (tmp_path / key).parent.mkdir(parents=True)
        (tmp_path / key).write_bytes(b"x")
    for location in (str(tmp_path), f"file://{tmp_path}"):
        with pytest.raises(TableMissing, match=r"has streams, and no tables: .* archive --from"):
            find_tables(location)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--stream", "ORDERS", "--from", "file:///b", "--dir", "d"],
        ["--stream", "ORDERS", "--from", "file:///b", "--js-domain", "d"],
    ],
)
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        archive("--to", "out", *arguments)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err
