"""`headrace jetstream status`: of a server's monitoring, and of a bucket in a directory."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from headrace.bucket.identity import IDENTITY_KEY
from headrace.bucket.keys import ShardKeys
from headrace.bucket.status import CommitTimes, RequestCount, ShardStatus, StandbyStatus
from headrace.bucket.wal_object import Kind, WalObject
from headrace.cli import jetstream
from headrace.cli.jetstream_status import server_lines
from headrace.server.monitor.bucket import bucket_field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.bucket.status import CacheState

WRITER = b"w" * 16
TIME_NS = 1_795_228_781_000_000_000  # 2026-11-21T02:39:41Z


def status(**changes: Any) -> ShardStatus:
    times = CommitTimes()
    for seconds in (0.004, 0.004, 0.02):
        times.add(seconds)
    made = ShardStatus(
        shard="jetstream",
        url="s3://b/p",
        role="owner",
        epoch=7,
        owner="demo",
        number=12345,
        snapshot=12000,
        commit="bucket",
        max_lag_s=1.0,
        lag_s=0.0051,
        lag_bytes=4096,
        commits=times.histogram(),
        requests=(
            RequestCount("create", "ok", 4000),
            RequestCount("create", "throttled", 2),
            RequestCount("head", "missing", 9),
        ),
        stored_bytes=10**9,
        cached_bytes=10**6,
        price_month=12.345,
        standbys=(StandbyStatus("other", 2, 0.25),),
    )
    return replace(made, **changes)


@contextmanager
def monitoring(answer: bytes) -> Iterator[str]:
    """A server that gives this answer to each request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/jsz" else 404)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_status_of_an_owner(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"streams": 3, **bucket_field(status())}
    with monitoring(json.dumps(document).encode()) as url:
        assert jetstream.run(["status", url]) == 0
        shown = capsys.readouterr().out
        assert jetstream.run(["status", url, "--json"]) == 0
    assert shown.splitlines() == [
        "bucket    s3://b/p, shard jetstream, commit: bucket",
        "role      owner, epoch 7, owner demo",
        "log       object 12,345, snapshot 12,000",
        "behind    5.1 ms, 4,096 bytes are not in the bucket yet",
        "commits   3, half in 5 ms or less, 99 % in 20 ms or less",
        "requests  4,002 create, 9 head, 2 ended as throttled",
        "bytes     1,000,000,000 in the bucket, 1,000,000 on this disk",
        "disk      has everything",
        "price     about $12.35 a month at S3's list prices, by the last hour or since the start",
        "standby   other: 2 objects behind, heard 0.25 s ago",
    ]
    assert json.loads(capsys.readouterr().out) == document["bucket"]


def test_status_of_a_standby_and_of_trouble() -> None:
    def lines(**changes: Any) -> list[str]:
        return server_lines(bucket_field(status(**changes))["bucket"])

    standing_by = lines(role="standby", owner="", behind=3, standbys=())
    assert "role      standby, epoch 7, owner unknown" in standing_by
    assert "behind    3 objects are not read yet" in standing_by
    assert lines(trouble="503", trouble_s=12.0)[-1] == "trouble   since 12 s: 503"
    assert lines(last_error="403")[-1] == "last error  403"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("filling", "they are being brought"),
        ("full", "there is no room for them"),
        ("off", "nothing brings them"),
    ],
)
def test_status_of_a_disk_that_lacks_bytes(state: CacheState, said: str) -> None:
    given = status(absent_bytes=12345, cache_state=state, cache_trouble="503 SlowDown")
    shown = bucket_field(given)["bucket"]
    lines = server_lines(shown)
    assert f"disk      12,345 bytes are not on it: {said}" in lines
    assert lines[-1] == "disk      cannot be filled: 503 SlowDown"
    del shown["absent_bytes"]  # as of a server before 0.3
    assert "disk      not told" in server_lines(shown)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'{"streams": 3}', "the server has its streams in no bucket"),
        (b"[]", "the server has its streams in no bucket"),
        (b"no JSON", "Expecting value"),
    ],
)
def test_server_that_tells_nothing(answer: bytes, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with monitoring(answer) as url:
        assert jetstream.run(["status", url]) == 1
    assert said in capsys.readouterr().err


def test_address_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert jetstream.run(["status", "nats://127.0.0.1:4222"]) == 1
    assert "begins with http://" in capsys.readouterr().err


# -- a bucket


def made_bucket(directory: Path, *names: str) -> str:
    for name in names:
        keys = ShardKeys(name)
        for number, kind, payload in ((1, Kind.FENCE, b"demo"), (2, Kind.COMMIT, b"")):
            path = directory / keys.wal(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(WalObject(name, 1, WRITER, number, kind, TIME_NS, payload).pack())
    identity = directory / IDENTITY_KEY
    identity.parent.mkdir()
    identity.write_bytes(msgspec.msgpack.encode({"format": 1, "kind": "headrace", "cluster": ""}))
    return f"file://{directory}"


def test_status_of_a_bucket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = made_bucket(tmp_path, "jetstream", "stan")
    size = sum(path.stat().st_size for path in tmp_path.glob("shards/jetstream/wal/*"))

    assert jetstream.run(["status", "--from", url, "--shard", "jetstream"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "shard       jetstream",
        "owner       demo, epoch 1",
        "log         ends with object 2, 2026-11-21T02:39:41Z",
        "snapshot    none yet",
        "restorable  objects 1 to 2, from 2026-11-21T02:39:41Z on",
        f"objects     2 of the log, 0 snapshots, 0 segments: {size:,} bytes",
    ]
    assert jetstream.run(["status", "--from", url, "--json"]) == 0
    shards = json.loads(capsys.readouterr().out)
    assert [each["shard"] for each in shards] == ["jetstream", "stan"]
    assert shards[0]["wal"] == {"number": 2, "bytes": size}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "{}/none"], "is no bucket"),
        (["--from", "file://{}/none"], "has no streams of Headrace in it"),
        (["--from", "file://{}", "--shard", "jetstream"], "there is no shard jetstream"),
        (["--from", "file://{}", "--shard", "a/b"], "no name of a shard"),
    ],
)
def test_bucket_that_tells_nothing(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_bucket(tmp_path, "stan")
    assert jetstream.run(["status", *(each.format(tmp_path) for each in arguments)]) == 1
    assert said in capsys.readouterr().err


def test_damaged_bucket_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = made_bucket(tmp_path, "jetstream")
    path = tmp_path / ShardKeys("jetstream").wal(2)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert jetstream.run(["status", "--from", url]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
