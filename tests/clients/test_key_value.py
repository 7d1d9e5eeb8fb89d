"""Key-value buckets as nats-py has them: every method, on Headrace and on the Go server."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from nats.js.api import KeyValueConfig, StorageType
from nats.js.errors import (
    BadRequestError,
    BucketNotFoundError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NoKeysError,
)

from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue

    from clients.conftest import Clients

T = TypeVar("T")


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


async def taken(
    watcher: KeyValue.KeyWatcher, count: int
) -> list[tuple[str, bytes | None, int, str | None] | None]:
    """Return so many updates, None where the initial values end."""
    found: list[tuple[str, bytes | None, int, str | None] | None] = []
    for _ in range(count):
        entry = await watcher.updates(timeout=PATIENCE)
        found.append(entry and (entry.key, entry.value, entry.revision, entry.operation))
    return found


async def initial(
    watcher: KeyValue.KeyWatcher, count: int
) -> list[tuple[str, bytes | None, int, str | None]]:
    """The initial values, so many, and the marker of their end.

    nats-py puts the marker in front of values that came while it asked how many there are.
    """
    found = await taken(watcher, count + 1)
    assert found.count(None) == 1
    return [entry for entry in found if entry is not None]


async def listed(ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
    """What `keys` or `history` find of something that is there.

    Where nats-py puts the marker in front (see `initial`) they find nothing; then they are asked again.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return await ask()
        except NoKeysError:
            if time.monotonic() > deadline:
                raise


async def test_put_and_get(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="put", history=3)

    assert [await kv.put("a", b"%d" % number) for number in range(4)] == [1, 2, 3, 4]
    assert await kv.put("b.c", b"") == 5

    entry = await kv.get("a")
    assert (entry.bucket, entry.key, entry.value, entry.revision, entry.operation) == (
        "put",
        "a",
        b"3",
        4,
        None,
    )
    assert (await kv.get("a", revision=2)).value == b"1"
    assert not (await kv.get("b.c")).value
    with pytest.raises(KeyNotFoundError):
        await kv.get("a", revision=1)  # beyond the history
    with pytest.raises(KeyNotFoundError):
        await kv.get("b.c", revision=2)  # of another key
    with pytest.raises(KeyNotFoundError):
        await kv.get("none")


async def test_create_and_update(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="create", history=5)

    assert await kv.create("a", b"1") == 1
    with pytest.raises(KeyWrongLastSequenceError):
        await kv.create("a", b"2")
    assert await kv.update("a", b"2", last=1) == 2
    with pytest.raises(KeyWrongLastSequenceError):
        await kv.update("a", b"3", last=1)
    with pytest.raises(BadRequestError, match="wrong last sequence: 2"):
        await kv.delete("a", last=1)
    assert await kv.delete("a", last=2)
    assert await kv.create("a", b"4") == 4
    assert await kv.purge("a")
    assert await kv.create("a", b"6") == 6
    assert (await kv.get("a")).value == b"6"


async def test_only_one_of_many_creates(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="race")

    async def attempt(number: int) -> bool:
        try:
            await kv.create("a", b"%d" % number)
        except KeyWrongLastSequenceError:
            return False
        return True

    assert sum(await asyncio.gather(*(attempt(number) for number in range(20)))) == 1


async def test_delete_and_purge(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="delete", history=10)
    for number in range(3):
        await kv.put("a", b"%d" % number)
        await kv.put("b", b"%d" % number)

    await kv.delete("a")
    with pytest.raises(KeyNotFoundError) as deleted:
        await kv.get("a")
    assert (deleted.value.op, deleted.value.entry.revision) == ("DEL", 7)
    assert [entry.operation for entry in await listed(lambda: kv.history("a"))] == [None, None, None, "DEL"]

    await kv.purge("b")
    with pytest.raises(KeyNotFoundError) as purged:
        await kv.get("b")
    assert purged.value.op == "PURGE"
    assert [entry.operation for entry in await listed(lambda: kv.history("b"))] == ["PURGE"]

    assert (await kv.status()).values == 5
    await kv.purge_deletes(olderthan=-1)
    assert (await kv.status()).values == 0


async def test_keys_and_history(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="keys", history=2)
    with pytest.raises(NoKeysError):
        await kv.keys()
    for number in range(3):
        for key in ("a", "b.x", "b.y"):
            await kv.put(key, b"%d" % number)
    await kv.delete("a")

    assert sorted(await listed(kv.keys)) == ["b.x", "b.y"]
    assert sorted(await listed(lambda: kv.keys(filters=["b.x", "a"]))) == ["b.x"]
    history = await listed(lambda: kv.history("b.x"))
    assert [(entry.value, entry.revision, entry.delta) for entry in history] == [(b"1", 5, 1), (b"2", 8, 0)]
    with pytest.raises(NoKeysError):
        await kv.history("none")


async def test_watch(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="watch", history=5)
    await kv.put("a", b"1")
    await kv.put("a", b"2")
    await kv.put("b", b"3")

    everything = await kv.watchall()
    assert await initial(everything, 2) == [("a", b"2", 2, None), ("b", b"3", 3, None)]
    one = await kv.watch("a", include_history=True)
    assert await initial(one, 2) == [("a", b"1", 1, None), ("a", b"2", 2, None)]
    bare = await kv.watch("b", meta_only=True, ignore_deletes=True)
    assert await initial(bare, 1) == [("b", b"", 3, None)]
    several = await kv.watch("*")
    assert await initial(several, 2) == [("a", b"2", 2, None), ("b", b"3", 3, None)]

    await kv.delete("b")
    await kv.put("c", b"5")
    await kv.put("b", b"6")
    assert await taken(everything, 3) == [("b", b"", 4, "DEL"), ("c", b"5", 5, None), ("b", b"6", 6, None)]
    assert await taken(several, 3) == [("b", b"", 4, "DEL"), ("c", b"5", 5, None), ("b", b"6", 6, None)]
    assert await taken(bare, 1) == [("b", b"", 6, None)]
    for watcher in (everything, one, bare, several):
        await watcher.stop()


async def test_watch_of_much(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="much")
    await asyncio.gather(*(kv.put(f"key.{number}", b"x" * 1000) for number in range(2000)))

    watcher = await kv.watchall()
    found = await taken(watcher, 2001)

    assert {entry[0] for entry in found if entry} == {f"key.{number}" for number in range(2000)}
    assert found[-1] is None
    await watcher.stop()


async def test_time_to_live(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="ttl", ttl=0.3)
    await kv.put("a", b"1")
    assert (await kv.get("a")).value == b"1"

    async def is_gone() -> bool:
        try:
            await kv.get("a")
        except KeyNotFoundError:
            return True
        return False

    while not await is_gone():  # every question is a request to the server
        pass
    assert (await kv.status()).values == 0
    assert await kv.create("a", b"2") == 2


async def test_time_to_live_of_one_key(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="marked", limit_marker_ttl=60)
    watcher = await kv.watchall()
    assert await taken(watcher, 1) == [None]
    await kv.create("a", b"1", msg_ttl=1)
    await kv.put("b", b"2")

    first, second, third = await taken(watcher, 3)

    assert first == ("a", b"1", 1, None)
    assert second == ("b", b"2", 2, None)
    assert third is not None
    assert third[0] == "a"
    assert not third[1]
    marker = await js.get_last_msg("KV_marked", "$KV.marked.a")
    assert (marker.headers or {})["Nats-Marker-Reason"] == "MaxAge"
    await watcher.stop()


async def test_bucket_status_and_life(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    with pytest.raises(BucketNotFoundError):
        await js.key_value("life")
    config = KeyValueConfig(
        bucket="life", history=7, ttl=3600, description="d", max_value_size=10, max_bytes=10_000,
        storage=StorageType.MEMORY,
    )  # fmt: skip
    kv = await js.create_key_value(config)
    await kv.put("a", b"x" * 10)

    status = await kv.status()
    assert (status.bucket, status.values, status.history, status.ttl) == ("life", 1, 7, 3600)
    info: Any = status.stream_info
    assert (info.config.name, info.config.subjects) == ("KV_life", ["$KV.life.>"])
    assert info.config.duplicate_window == 120
    with pytest.raises(BadRequestError):
        await kv.put("a", b"x" * 11)
    again = await js.key_value("life")
    assert (await again.get("a")).value == b"x" * 10
    assert await js.delete_key_value("life")
    with pytest.raises(BucketNotFoundError):
        await js.key_value("life")


async def test_mirror_of_a_bucket(jetstream: ServerProcess, connect: Clients) -> None:
    js = await context(connect, jetstream)
    kv = await js.create_key_value(bucket="origin", history=3)
    await kv.put("a", b"1")
    await js.add_stream(
        name="KV_copy",
        mirror={"name": "KV_origin"},
        max_msgs_per_subject=3,
        allow_direct=True,
        mirror_direct=True,
    )
    while (await js.stream_info("KV_copy")).state.messages < 1:
        pass

    message = await js.get_last_msg("KV_copy", "$KV.origin.a")

    assert (message.data, message.seq) == (b"1", 1)
