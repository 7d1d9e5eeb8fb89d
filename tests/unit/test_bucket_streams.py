"""Streams read from their bucket without a server: what is committed, from where, and what is told."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.bucket_servers import create, directory_bucket, fill, serving
from headrace.bucket import snapshots
from headrace.bucket.errors import BucketError
from headrace.bucket.identity import IDENTITY_KEY
from headrace.bucket_streams import BucketStreams, StreamBucket, bucket_at, read_slice_of
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.bucket_options import BucketOptions
from headrace.errors import StorageError
from headrace.objects.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.bucket_streams import BucketStream


def found(bucket: StreamBucket, stream: BucketStream | None, count: int = 1, **filters: Any) -> list[int]:
    """The sequences of a stream, read slice by slice as another process would."""
    assert stream is not None
    read = []
    for one in pickle.loads(pickle.dumps(stream.slices(1, stream.last_sequence + 1, count))):
        for messages, damaged in read_slice_of(one, bucket.contents(), bucket.cipher(), **filters):
            assert not damaged
            for message in messages:
                assert message.payload.rstrip(b"\0") == b"%d" % message.sequence
                read.append(message.sequence)
    return read


def test_what_is_acknowledged_is_read_beside_the_server(tmp_path: Path) -> None:
    bucket = StreamBucket(directory_bucket(tmp_path))
    with serving(tmp_path) as server:
        create(server.url)
        create(server.url, "EMPTY", first_seq=10)
        streams = BucketStreams(bucket)
        assert streams.names() == ["EMPTY", "ORDERS"]
        assert streams.get("MISSING") is None
        empty = streams.get("EMPTY")
        assert empty is not None
        assert (empty.first_sequence, empty.last_sequence, found(bucket, empty)) == (10, 9, [])
        fill(server.url, 1, 50)
        assert found(bucket, streams.get("ORDERS")) == []
        streams.look_again()
        assert found(bucket, streams.get("ORDERS"), 3) == list(range(1, 51))
        fill(server.url, 51, 20, "orders.paid")
        with connect(server.url) as connection:
            api = JetStreamApi(connection, "$JS.API")
            api.ask("STREAM.MSG.DELETE.ORDERS", {"seq": 60})
            api.ask("STREAM.PURGE.ORDERS", {"seq": 11})
            info = api.ask("STREAM.INFO.ORDERS")
        streams.look_again()
        stream = streams.get("ORDERS")
        assert stream is not None
        assert (stream.first_sequence, stream.last_sequence, stream.messages) == (11, 70, 59)
        assert (stream.size, stream.keeps_order) == (info["state"]["bytes"], True)
        wanted = [number for number in range(11, 71) if number != 60]
        assert found(bucket, stream, 2) == wanted
        assert found(bucket, stream, filters=[b"orders.paid"]) == [one for one in wanted if one > 50]
        times = [stream.time_at(number) for number in (1, 11, 60, 70, 71)]
        assert times[0] == times[1]
        assert times[4] is None
        for time in times[1:4]:
            assert time is not None
            first = stream.sequence_at(time)
            assert stream.time_at(first) == time
            assert first == 11 or (stream.time_at(first - 1) or 0) < time
        assert stream.time_at(1, [b"orders.paid"]) == stream.time_at(51)
    again = BucketStreams(bucket)  # nobody serves it any more
    assert found(bucket, again.get("ORDERS"), 2) == wanted


@pytest.fixture(scope="module")
def of_many(tmp_path_factory: pytest.TempPathFactory) -> StreamBucket:
    """A bucket whose stream ORDERS has 400 messages of 10 kB."""
    place = tmp_path_factory.mktemp("many")
    with serving(place) as server:
        create(server.url)
        fill(server.url, 1, 400, size=10_000)
    return StreamBucket(directory_bucket(place))


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_slices_have_every_message_once(of_many: StreamBucket, count: int) -> None:
    bucket = of_many
    streams = BucketStreams(bucket)
    stream = streams.get("ORDERS")
    assert stream is not None
    slices = stream.slices(1, 401, count)
    assert len(slices) == min(count, len(slices)) > (count > 1)
    assert found(bucket, stream, count) == list(range(1, 401))
    sizes = [sum(len(one.data) for one in piece.part.writes) for piece in slices]
    assert sum(sizes) < 400 * 10_200 + count * 1000  # no slice carries what another one reads
    some = [
        message.sequence
        for one in stream.slices(100, 300, count)
        for messages, _ in read_slice_of(one, bucket.contents(), None)
        for message in messages
    ]
    assert some == list(range(100, 300))


def test_an_encrypted_store_needs_its_key(tmp_path: Path) -> None:
    options = directory_bucket(tmp_path)
    with serving(tmp_path, encryption_key="secret", encryption_cipher="CHACHA") as server:
        create(server.url)
        fill(server.url, 1, 5)
    bucket = StreamBucket(options, secret="secret")
    assert found(bucket, BucketStreams(bucket).get("ORDERS")) == [1, 2, 3, 4, 5]
    assert "secret" not in repr(bucket)
    for other in (StreamBucket(options), StreamBucket(options, secret="wrong")):
        with pytest.raises(StorageError, match="encrypted"):
            BucketStreams(other).names()


def test_places_that_are_no_bucket_of_streams(tmp_path: Path) -> None:
    assert bucket_at(str(tmp_path / "none")) is None
    assert bucket_at(f"file://{tmp_path}/none") is None
    assert bucket_at("memory://x") is None
    with pytest.raises(BucketError, match="has no streams of Headrace in it"):
        BucketStreams(StreamBucket(BucketOptions(f"file://{tmp_path}/none"))).names()
    identity = tmp_path / "newer" / IDENTITY_KEY
    identity.parent.mkdir(parents=True)
    identity.write_bytes(msgspec.msgpack.encode({"format": 9, "kind": "headrace"}))
    newer = bucket_at(str(tmp_path / "newer"))
    assert newer is not None
    with pytest.raises(BucketError, match="was written by a later version"):
        BucketStreams(StreamBucket(newer)).names()


def test_a_stream_in_memory_is_in_no_bucket(tmp_path: Path) -> None:
    bucket = StreamBucket(directory_bucket(tmp_path))
    with serving(tmp_path) as server:
        create(server.url, storage="memory")
        assert BucketStreams(bucket).get("ORDERS") is None


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each range that is read of an object in a directory, while the test goes on."""
    found: list[int] = []
    read = LocalStore.get_range

    def counted(store: LocalStore, key: str, start: int, end: int) -> bytes:
        found.append(end - start)
        return read(store, key, start, end)

    monkeypatch.setattr(LocalStore, "get_range", counted)
    return found


def test_only_what_is_needed_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    """Opening a stream that objects hold reads few records; a part of it costs its own bytes."""
    monkeypatch.setattr(snapshots, "WAL_BYTES", 2 << 20)
    bucket = StreamBucket(directory_bucket(tmp_path))
    count, size = 1600, 10_000
    with serving(tmp_path) as server:
        create(server.url)
        for first in range(1, count, 200):
            fill(server.url, first, 200, size=size)
    before = {path: path.read_bytes() for path in (tmp_path / "bucket").rglob("*") if path.is_file()}
    asked.clear()
    stream = BucketStreams(bucket).get("ORDERS")
    assert stream is not None
    opening = sum(asked)
    slices = stream.slices(1, count + 1, 16)
    asked.clear()
    assert len(slices) == 16
    piece = slices[3]
    found = [
        message.sequence
        for messages, _ in read_slice_of(piece, bucket.contents(), None)
        for message in messages
    ]
    assert found == list(range(piece.view.first, piece.view.end))
    wanted = count * size // 16
    assert wanted < sum(asked) < 2 * wanted + (3 << 20)  # whole extents, at most 1 MiB each
    assert opening < count * size // 3
    after = {path: path.read_bytes() for path in (tmp_path / "bucket").rglob("*") if path.is_file()}
    assert after == before
