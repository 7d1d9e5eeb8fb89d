"""Key-value and object buckets: what nats-py writes is read, and what is written nats-py reads."""

from __future__ import annotations

import asyncio
import io
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.consuming import PullConsumer
from headrace.client.errors import JetStreamExistsError, JetStreamMissingError
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.keyvalue import KeyMissingError, KeyNameError, KeyValueBucket, buckets
from headrace.client.objects import DigestError, ObjectBucket, ObjectMissingError, object_buckets

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from harness.processes import ServerProcess


@pytest.fixture
def api(server: ServerProcess) -> Iterator[JetStreamApi]:
    with connect(server.url) as connection:
        yield JetStreamApi(connection)
        assets = JetStreamAssets(JetStreamApi(connection))
        for name in list(assets.stream_names()):
            assets.delete_stream(name)


def with_nats_py(server: ServerProcess, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Run something with the JetStream context of nats-py."""
    nats = pytest.importorskip("nats")

    async def run() -> Any:
        client = await nats.connect(server.url)
        try:
            return await work(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def test_a_key_has_revisions(api: JetStreamApi) -> None:
    bucket = KeyValueBucket.create(api, "revisions", history=3)

    first = bucket.put("colour", b"red")
    second = bucket.update("colour", b"blue", first)

    assert bucket.get("colour").value == b"blue"
    assert bucket.get("colour", revision=first).value == b"red"
    assert [entry.revision for entry in bucket.history("colour")] == [first, second]
    with pytest.raises(JetStreamExistsError):
        bucket.update("colour", b"green", first)
    with pytest.raises(JetStreamExistsError):
        bucket.create_key("colour", b"green")


def test_a_removed_key_is_missing_and_can_be_made_again(api: JetStreamApi) -> None:
    bucket = KeyValueBucket.create(api, "removed", history=5)
    bucket.put("a.b", b"1")
    bucket.put("a.c", b"2")

    bucket.delete("a.b")

    with pytest.raises(KeyMissingError):
        bucket.get("a.b")
    assert bucket.last("a.b").operation == "DEL"
    assert list(bucket.keys()) == ["a.c"]
    bucket.create_key("a.b", b"3")
    assert sorted(bucket.keys(("a.*",))) == ["a.b", "a.c"]
    bucket.purge("a.b")
    assert [entry.operation for entry in bucket.history("a.b")] == ["PURGE"]
    assert bucket.compact(0, time.time_ns()) == 1
    with pytest.raises(KeyMissingError):
        bucket.last("a.b")


def test_a_watch_shows_values_and_then_changes(api: JetStreamApi) -> None:
    bucket = KeyValueBucket.create(api, "watched")
    bucket.put("one", b"1")
    bucket.put("two", b"2")

    watch = bucket.watch()
    before = [next(watch), next(watch)]
    bucket.put("three", b"3")
    later = next(watch)
    watch.close()

    assert [(entry.key, entry.pending) for entry in before] == [("one", 1), ("two", 0)]
    assert (later.key, later.value) == ("three", b"3")
    assert list(JetStreamAssets(api).consumer_names("KV_watched")) == []


def test_an_empty_bucket_ends_a_reading_at_once(api: JetStreamApi) -> None:
    assert list(KeyValueBucket.create(api, "empty").keys()) == []


def test_buckets_that_are_not_there_and_bad_names(api: JetStreamApi) -> None:
    with pytest.raises(JetStreamMissingError):
        KeyValueBucket(api, "nowhere")
    with pytest.raises(KeyNameError):
        KeyValueBucket(api, "no.where")
    bucket = KeyValueBucket.create(api, "named")
    for name in ("", ".a", "a.", "a b", "a>", "a..b"):
        with pytest.raises(KeyNameError):
            bucket.put(name, b"")
    with pytest.raises(JetStreamExistsError):
        KeyValueBucket.create(api, "named", history=7)
    assert [info["config"]["name"] for info in buckets(api)] == ["KV_named"]


def test_nats_py_reads_our_bucket_and_we_read_its(server: ServerProcess, api: JetStreamApi) -> None:
    ours = KeyValueBucket.create(api, "ours", history=2)
    ours.put("a", b"1")
    ours.put("b", b"2")
    ours.delete("b")

    async def work(js: Any) -> tuple[bytes, list[str], Any]:
        kv = await js.key_value("ours")
        theirs = await js.create_key_value(bucket="theirs", history=2)
        await theirs.put("x", b"9")
        await theirs.put("y", b"8")
        await theirs.delete("y")
        return (await kv.get("a")).value, await kv.keys(), (await js.stream_info("KV_theirs")).config

    value, keys, config = with_nats_py(server, work)
    theirs = KeyValueBucket(api, "theirs")

    assert (value, keys) == (b"1", ["a"])
    assert theirs.get("x").value == b"9"
    assert list(theirs.keys()) == ["x"]
    assert theirs.last("y").operation == "DEL"
    assert config.max_msgs_per_subject == 2


def test_an_object_of_many_chunks_comes_back(api: JetStreamApi) -> None:
    store = ObjectBucket.create(api, "files")
    data = os.urandom(700_000)
    seen: list[int] = []

    put = store.put("sub/report.pdf", io.BytesIO(data), chunk_size=10_000, progress=seen.append)
    read = io.BytesIO()
    got = store.get("sub/report.pdf", read)

    assert read.getvalue() == data
    assert (put.size, put.chunks, got.digest) == (700_000, 70, put.digest)
    assert seen[-1] == 700_000
    assert store.verify("sub/report.pdf").nuid == put.nuid


def test_an_object_is_replaced_and_removed(api: JetStreamApi) -> None:
    store = ObjectBucket.create(api, "replaced")
    store.put("a", io.BytesIO(b"first"))
    store.put("a", io.BytesIO(b"second"), description="newer", headers={"X": ["1"]})
    read = io.BytesIO()

    found = store.get("a", read)
    messages = JetStreamAssets(api).stream_info("OBJ_replaced")["state"]["messages"]

    assert (read.getvalue(), found.description, found.headers) == (b"second", "newer", {"X": ["1"]})
    assert messages == 2
    store.put("empty", io.BytesIO())
    store.get("empty", io.BytesIO())
    store.add_link("link", "a")
    store.get("link", read := io.BytesIO())
    assert read.getvalue() == b"second"
    store.delete("a")
    with pytest.raises(ObjectMissingError):
        store.get("a", io.BytesIO())
    assert sorted(each.name for each in store.objects()) == ["empty", "link"]
    assert [info["config"]["name"] for info in object_buckets(api)] == ["OBJ_replaced"]


def test_a_lost_chunk_is_found(api: JetStreamApi) -> None:
    store = ObjectBucket.create(api, "damaged")
    store.put("a", io.BytesIO(bytes(50_000)), chunk_size=10_000)
    JetStreamAssets(api).delete_message("OBJ_damaged", 2)

    with pytest.raises(DigestError, match="40000 bytes in 4 chunks"):
        store.verify("a")


def test_nats_py_reads_our_objects_and_we_read_its(server: ServerProcess, api: JetStreamApi) -> None:
    data = os.urandom(300_000)
    ObjectBucket.create(api, "ours").put("ö/1", io.BytesIO(data))

    async def work(js: Any) -> bytes:
        store = await js.object_store("ours")
        theirs = await js.create_object_store("theirs")
        await theirs.put("its", data)
        return bytes((await store.get("ö/1")).data)

    assert with_nats_py(server, work) == data
    ObjectBucket(api, "theirs").get("its", read := io.BytesIO())
    assert read.getvalue() == data


def test_a_pull_consumer_gets_messages_and_acknowledges(api: JetStreamApi) -> None:
    assets = JetStreamAssets(api)
    assets.create_stream({"name": "JOBS", "subjects": ["jobs.>"]})
    for number in range(5):
        api.publish(f"jobs.{number}", b"%d" % number)
    assets.create_consumer("JOBS", {"durable_name": "w", "ack_policy": "explicit"}, action="create")
    consumer = PullConsumer(api, "JOBS", "w")

    first, second = consumer.fetch(2)
    first.ack(timeout=5)
    second.nak()
    rest = [message.data for message in consumer.messages(idle=0.3)]

    assert (first.data, first.delivery.sequence, first.delivery.pending) == (b"0", 1, 4)
    assert sorted(rest) == [b"1", b"2", b"3", b"4"]
    assert list(consumer.fetch(1, wait=0)) == []
    assert assets.consumer_info("JOBS", "w")["num_ack_pending"] == 4
    consumer.close()


def test_messages_are_found_by_sequence_subject_and_time(api: JetStreamApi) -> None:
    assets = JetStreamAssets(api)
    assets.create_stream({"name": "FOUND", "subjects": ["found.>"], "allow_direct": True})
    for number in range(3):
        api.connection.request(f"found.{number % 2}", b"%d" % number, headers={"N": str(number)})

    for direct in (False, True):
        assert assets.message("FOUND", 2, direct=direct).data == b"1"
        assert assets.message("FOUND", last_of="found.0", direct=direct).sequence == 3
        found = assets.message("FOUND", 2, next_of="found.0", direct=direct)
        assert (found.subject, found.headers, found.data) == ("found.0", {"N": ["2"]}, b"2")
        assert assets.message("FOUND", since_ns=found.time_ns, direct=direct).sequence == 3
        with pytest.raises(JetStreamMissingError):
            assets.message("FOUND", 9, direct=direct)
    assert assets.stream_info("FOUND", subjects=">")["state"]["subjects"] == {"found.0": 2, "found.1": 1}
    assert assets.purge_stream("FOUND", subject="found.0", keep=1) == 1


def test_an_existing_stream_with_other_settings_is_refused(api: JetStreamApi) -> None:
    assets = JetStreamAssets(api)
    assets.create_stream({"name": "THERE", "subjects": ["there"]})

    assert assets.create_stream({"name": "THERE", "subjects": ["there"]})["config"]["name"] == "THERE"
    with pytest.raises(JetStreamExistsError):
        assets.create_stream({"name": "THERE", "subjects": ["there"], "max_msgs": 5})
    with pytest.raises(JetStreamMissingError):
        assets.stream_info("NOWHERE")
