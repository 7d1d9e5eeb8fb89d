"""`headrace jetstream restore --from`: a store of a bucket in a directory, at a number and at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from headrace.bucket.changes import Change, Create, Mkdir, Write, encode
from headrace.bucket.identity import IDENTITY_KEY
from headrace.bucket.keys import ShardKeys
from headrace.bucket.wal_object import Kind, WalObject
from headrace.cli import bucket_restore, jetstream
from headrace.jetstream.importing.detecting import HOME

if TYPE_CHECKING:
    from pathlib import Path

WRITER = b"w" * 16
SECOND = 1_000_000_000
START_NS = 1_795_228_781 * SECOND  # 2026-11-21T02:39:41Z


NOW_NS = START_NS + 86_400 * SECOND


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_restore, "time_ns", lambda: NOW_NS)


def made_bucket(directory: Path, name: str = "jetstream") -> str:
    """A shard whose objects 3, 4 and 5, a second apart, each write another text into one file."""
    texts: list[list[Change]] = [[Write(1, 0, f"object {number}".encode())] for number in (3, 4, 5)]
    payloads = [b"demo", encode([Mkdir("logs"), Create("logs/a")]), *map(encode, texts)]
    keys = ShardKeys(name)
    for number, payload in enumerate(payloads, 1):
        kind = Kind.FENCE if number == 1 else Kind.COMMIT
        made = WalObject(name, 1, WRITER, number, kind, START_NS + number * SECOND, payload)
        path = directory / keys.wal(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.pack())
    identity = directory / IDENTITY_KEY
    identity.parent.mkdir(exist_ok=True)
    identity.write_bytes(msgspec.msgpack.encode({"format": 1, "kind": "headrace", "cluster": ""}))
    return f"file://{directory}"


@pytest.mark.parametrize(
    ("at", "content", "number"),
    [
        ((), b"object 5", 5),
        (("--at", "4"), b"object 4", 4),
        (("--at", "2026-11-21T02:39:45Z"), b"object 4", 4),
        (("--at", "2026-11-21T03:39:44.5+01:00"), b"object 3", 3),
        (("--at", "2026-11-22T00:00:00Z"), b"object 5", 5),
    ],
)
def test_store_as_it_was(
    at: tuple[str, ...], content: bytes, number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = made_bucket(tmp_path / "bucket")
    before = sorted((tmp_path / "bucket").rglob("*"))

    assert jetstream.run(["restore", "--from", url, *at, "--dir", str(tmp_path / "new")]) == 0

    assert (tmp_path / "new" / HOME / "logs" / "a").read_bytes() == content
    assert f"restored shard jetstream as it was after object {number}" in capsys.readouterr().out
    assert sorted((tmp_path / "bucket").rglob("*")) == before


def test_shard_is_named_where_there_are_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_bucket(tmp_path / "bucket")
    url = made_bucket(tmp_path / "bucket", "other")
    arguments = ["restore", "--from", url, "--dir", str(tmp_path / "new")]

    assert jetstream.run(arguments) == 1
    assert "several shards, say --shard: jetstream, other" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert jetstream.run([*arguments, "--shard", "other"]) == 0
    assert "restored shard other" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "{}/bucket"], "is no bucket"),
        (["--from", "file://{}/none"], "has no streams of Headrace in it: it is empty, or not there"),
        (["--from", "file://{}"], "and is not of Headrace"),
        (["--from", "ftp://{}/bucket"], "is no bucket"),
        (["--from", "file://{}/bucket", "--config", "{}/none.conf"], "none.conf: no such file"),
        (["{}/bucket", "--endpoint", "http://x"], "--endpoint needs a bucket: --from"),
        (["--from", "file://{}/bucket", "--shard", "none"], "there is no shard none in"),
        (["--from", "file://{}/bucket", "--at", "9"], "has no WAL object 9 yet"),
        (["--from", "file://{}/bucket", "--backup", "x"], "--backup names a backup"),
        (["--from", "file://{}/bucket", "--at", "2026-11-22T02:39:42Z"], "is in the future by this"),
        (["{}/bucket", "--at", "4"], "needs a bucket: --from"),
        (["{}/bucket", "--shard", "a"], "needs a bucket: --from"),
    ],
)
def test_nothing_is_made_of_what_cannot_be_meant(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_bucket(tmp_path / "bucket")
    given = [each.format(tmp_path) for each in arguments]
    assert jetstream.run(["restore", *given, "--dir", str(tmp_path / "new")]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new" / HOME).exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["backup", "--from", "s3://b/p"],
        ["--from", "s3://b/p", "--at", "yesterday"],
        ["--from", "s3://b/p", "--at", "0"],
        ["--from", "s3://b/p", "--at", "99999999999999999999"],
        ["--from", "s3://b/p", "--at", ""],
    ],
)
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        jetstream.run(["restore", *arguments, "--dir", "new"])
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_store_that_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = made_bucket(tmp_path / "bucket")
    arguments = ["restore", "--from", url, "--dir", str(tmp_path / "new")]
    assert jetstream.run([*arguments, "--at", "3"]) == 0
    assert jetstream.run(arguments) == 1
    assert (tmp_path / "new" / HOME / "logs" / "a").read_bytes() == b"object 3"
    assert capsys.readouterr().err
