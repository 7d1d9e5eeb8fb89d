"""Object stores as nats-py has them: every method, on Headrace and on the Go server."""

from __future__ import annotations

import hashlib
import io
import random
from typing import TYPE_CHECKING

import pytest
from nats.js.api import ObjectMeta, ObjectMetaOptions
from nats.js.errors import NotFoundError, ObjectDeletedError, ObjectNotFoundError

from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nats.js import JetStreamContext

    from clients.conftest import Clients


@pytest.fixture(scope="module", params=(HEADRACES[0], NATS_SERVER), ids=str)
def jetstream(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """One of each kind; every test has buckets of its own."""
    folder = tmp_path_factory.mktemp("jetstream")
    with ServerProcess(request.param, folder, "-js", "-sd", str(folder / "js")) as running:
        yield running


async def context(connect: Clients, server: ServerProcess) -> JetStreamContext:
    return (await connect(server)).jetstream()


async def test_put_and_get(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    store = await js.create_object_store(bucket="put")

    info = await store.put("a", b"hello")
    found = await store.get("a")

    assert (info.name, info.size, info.chunks, info.bucket) == ("a", 5, 1, "put")
    assert found.data == b"hello"
    assert found.info.digest == info.digest
    assert (await store.put("text", "words")).size == 5
    assert (await store.put("empty", b"")).size == 0
    assert not (await store.get("empty")).data
    with pytest.raises(ObjectNotFoundError):
        await store.get("none")


async def test_large_object_in_many_chunks(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    store = await js.create_object_store(bucket="large")
    data = random.Random(1).randbytes(20_000_000)

    info = await store.put("a", io.BytesIO(data))
    into = io.BytesIO()
    await store.get("a", writeinto=into)

    assert info.chunks == -(-len(data) // (128 * 1024))
    assert hashlib.sha256(into.getvalue()).digest() == hashlib.sha256(data).digest()
    assert (await store.status()).size > len(data)


async def test_small_chunks(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    store = await js.create_object_store(bucket="small")
    meta = ObjectMeta(description="d", headers={"K": "v"}, options=ObjectMetaOptions(max_chunk_size=10))

    info = await store.put("a", b"x" * 95, meta=meta)

    assert (info.chunks, info.description) == (10, "d")
    assert (await store.get("a")).data == b"x" * 95


async def test_put_again_replaces(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    store = await js.create_object_store(bucket="again")
    first = await store.put("a", b"1" * 300_000)
    size = (await store.status()).size
    second = await store.put("a", b"2" * 100)

    assert first.nuid != second.nuid
    assert (await store.get("a")).data == b"2" * 100
    assert (await store.status()).size < size
    assert (await js.stream_info("OBJ_again")).state.messages == 2


async def test_delete_and_list(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    store = await js.create_object_store(bucket="delete")
    with pytest.raises(NotFoundError):
        await store.list()
    for name in ("a", "b", "name with spaces/and.dots"):
        await store.put(name, name.encode())

    await store.delete("a")

    with pytest.raises((ObjectDeletedError, ObjectNotFoundError)):
        await store.get("a")
    assert (await store.get_info("a", show_deleted=True)).deleted
    assert sorted(info.name for info in await store.list(ignore_deletes=True)) == [
        "b",
        "name with spaces/and.dots",
    ]
    assert len(await store.list()) == 3


async def test_change_of_meta(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    store = await js.create_object_store(bucket="meta")
    await store.put("a", b"data")

    await store.update_meta("a", ObjectMeta(name="a", description="new", headers={"K": "v"}))

    info = await store.get_info("a")
    assert (info.name, info.description, info.headers) == ("a", "new", {"K": "v"})
    assert (await store.get("a")).data == b"data"


async def test_watch(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    store = await js.create_object_store(bucket="watch")
    await store.put("a", b"1")
    watcher = await store.watch()

    first = await watcher.updates(timeout=PATIENCE)
    end = await watcher.updates(timeout=PATIENCE)
    await store.put("b", b"2")
    second = await watcher.updates(timeout=PATIENCE)
    await store.delete("a")
    third = await watcher.updates(timeout=PATIENCE)

    assert first is not None
    assert end is None
    assert second is not None
    assert third is not None
    assert (first.name, second.name, third.name, third.deleted) == ("a", "b", "a", True)
    await watcher.stop()


async def test_seal_and_status(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    store = await js.create_object_store(bucket="seal", description="d", ttl=3600)
    await store.put("a", b"1")
    await store.seal()

    status = await store.status()

    assert (status.bucket, status.description, status.sealed) == ("seal", "d", True)
    with pytest.raises(Exception, match="sealed"):
        await store.put("b", b"2")
    assert (await store.get("a")).data == b"1"


async def test_store_is_deleted(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    await js.create_object_store(bucket="gone")
    assert (await (await js.object_store("gone")).status()).bucket == "gone"
    assert await js.delete_object_store("gone")
    with pytest.raises(NotFoundError):
        await js.object_store("gone")
