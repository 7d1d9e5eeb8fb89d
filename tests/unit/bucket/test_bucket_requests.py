"""Requests to a bucket: what is tried again, when, for how long, and what is counted.

In virtual time over a store in memory; then over moto's S3, behind a proxy that loses answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from harness.memory_objects import (
    ANSWER_LOST,
    FAILS,
    HANGS,
    HANGS_AFTERWARDS,
    PROMPT,
    Fate,
    MemoryObjects,
    Request,
)
from harness.store_proxy import Fate as WireFate
from harness.store_proxy import store_proxy
from harness.virtual_loop import run
from headrace.bucket.requests import (
    FIRST_BUSY_PAUSE_S,
    FIRST_PAUSE_S,
    LIMITS,
    LONGEST_PAUSE_S,
    PAGE,
    SLOWEST,
    BucketRequests,
    RequestLimits,
)
from headrace.bucket.status import RequestCount
from headrace.objects.errors import (
    AccessRefused,
    KeyExists,
    KeyMissing,
    RequestRefused,
    StoreBusy,
    StoreError,
)
from headrace.objects.opening import open_async_store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from harness.store_proxy import StoreProxy


class Faulty(MemoryObjects):
    """A store whose next requests raise `errors`, one each; then it does what it is asked."""

    def __init__(self, *errors: StoreError, fates: tuple[Fate, ...] = ()) -> None:
        self._fates = deque(fates)
        super().__init__(lambda _request: self._fates.popleft() if self._fates else PROMPT)
        self.errors = deque(errors)

    async def _request(self, operation: str, key: str, effect: Callable[[], Any]) -> Any:
        if not self.errors:
            return await super()._request(operation, key, effect)
        self.requests.append(Request(operation, key, asyncio.get_running_loop().time()))
        raise self.errors.popleft()

    @property
    def times(self) -> list[float]:
        return [request.at for request in self.requests]


def requests_over(store: MemoryObjects, random: Callable[[], float] = lambda: 1.0) -> BucketRequests:
    return BucketRequests(store, random)


def counted(requests: BucketRequests, kind: str) -> dict[str, int]:
    return {found.outcome: found.count for found in requests.counts.all() if found.kind == kind}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KeyMissing("no"), "missing"),
        (AccessRefused("no"), "refused"),
        (RequestRefused("no"), "refused"),
    ],
)
def test_answer_is_passed_on_at_once(error: StoreError, outcome: str) -> None:
    async def main() -> None:
        store = Faulty(error)
        requests = requests_over(store)
        with pytest.raises(type(error)):
            await requests.head("a")
        assert len(store.requests) == 1
        assert counted(requests, "head") == {outcome: 1}

    run(main())


def test_first_create_that_finds_the_key_taken_asks_nothing_more() -> None:
    async def main() -> None:
        store = Faulty()
        store.objects["a"] = b"x", 0
        requests = requests_over(store)
        with pytest.raises(KeyExists):
            await requests.create("a", b"x")
        assert len(store.requests) == 1
        assert counted(requests, "create") == {"exists": 1}

    run(main())


def test_failure_is_tried_again_after_pauses_that_double() -> None:
    async def main() -> None:
        store = Faulty(*(StoreError("500"),) * 9)
        requests = requests_over(store)
        await requests.put("a", b"x")
        pauses = [after - before for before, after in zip(store.times, store.times[1:], strict=False)]
        assert pauses == pytest.approx([min(FIRST_PAUSE_S * 2**n, LONGEST_PAUSE_S) for n in range(9)])
        assert counted(requests, "put") == {"failed": 9, "ok": 1}
        assert requests.counts.retries("put") == 9

    run(main())


def test_pauses_are_drawn_from_all_of_their_length() -> None:
    async def main() -> list[float]:
        store = Faulty(*(StoreError("500"),) * 200)
        limits = {**LIMITS, "head": RequestLimits(1.0, 1e6)}
        random = Random(4)
        with pytest.raises(KeyMissing):
            await BucketRequests(store, random.random, limits).head("a")
        return [after - before for before, after in zip(store.times, store.times[1:], strict=False)][10:]

    pauses = run(main())
    assert all(0.0 <= pause <= LONGEST_PAUSE_S for pause in pauses)
    assert min(pauses) < LONGEST_PAUSE_S / 10
    assert max(pauses) > LONGEST_PAUSE_S * 9 / 10


def test_store_that_wants_fewer_requests_gets_longer_pauses() -> None:
    async def main() -> None:
        store = Faulty(StoreBusy("503"), StoreBusy("429"))
        requests = requests_over(store)
        await requests.put("a", b"x")
        assert store.times == pytest.approx([0.0, FIRST_BUSY_PAUSE_S, 3 * FIRST_BUSY_PAUSE_S])
        assert counted(requests, "put") == {"throttled": 2, "ok": 1}

    run(main())


@pytest.mark.parametrize("kind", ["create", "put", "get", "head", "list", "delete"])
def test_budget_ends_the_attempts_with_the_last_error(kind: str) -> None:
    async def main() -> None:
        store = Faulty(*(StoreError(f"{number}") for number in range(10_000)))
        requests = requests_over(store)
        with pytest.raises(StoreError) as caught:
            await request(requests, kind)
        assert str(caught.value) == f"{len(store.requests) - 1}"
        assert asyncio.get_running_loop().time() <= LIMITS[kind].total_s + 64
        assert asyncio.get_running_loop().time() > LIMITS[kind].total_s - LONGEST_PAUSE_S

    run(main())


def request(requests: BucketRequests, kind: str) -> Coroutine[Any, Any, object]:
    async def listed() -> None:
        async for _ in requests.list("wal"):
            pass

    return {
        "create": lambda: requests.create("wal/1", b"x"),
        "put": lambda: requests.put("wal/1", b"x"),
        "get": lambda: requests.get("wal/1"),
        "head": lambda: requests.head("wal/1"),
        "list": listed,
        "delete": lambda: requests.delete(["wal/1"]),
    }[kind]()


def test_request_without_an_answer_is_given_up_and_made_again() -> None:
    async def main() -> None:
        store = Faulty(fates=(HANGS,))
        requests = requests_over(store)
        await requests.put("a", bytes(SLOWEST))
        assert store.times == pytest.approx([0.0, LIMITS["put"].attempt_s + 1.0 + FIRST_PAUSE_S])
        assert counted(requests, "put") == {"timeout": 1, "ok": 1}

    run(main())


def test_store_that_never_answers_is_given_up_within_the_budget() -> None:
    async def main() -> None:
        requests = requests_over(Faulty(fates=(HANGS,) * 1000))
        with pytest.raises(StoreError, match=r"^memory: no answer to a head within 2\.0 s$"):
            await requests.head("a")
        most = LIMITS["head"].total_s + LIMITS["head"].attempt_s
        assert asyncio.get_running_loop().time() <= most

    run(main())


@pytest.mark.parametrize("fate", [ANSWER_LOST, HANGS_AFTERWARDS])
def test_create_whose_answer_was_lost_has_succeeded(fate: Fate) -> None:
    async def main() -> None:
        store = Faulty(fates=(fate,))
        requests = requests_over(store)
        await requests.create("a", memoryview(b"mine"))
        assert [seen.operation for seen in store.requests] == ["create", "create", "get"]
        assert store.objects["a"][0] == b"mine"

    run(main())


def test_create_after_a_failure_that_another_one_won_has_failed(tmp_path: Path) -> None:
    async def main() -> None:
        for data in (b"mine", file):
            store = Faulty(fates=(FAILS,))
            store.objects["a"] = b"other's", 0
            with pytest.raises(KeyExists):
                await requests_over(store).create("a", data)
            assert store.objects["a"][0] == b"other's"

    file = tmp_path / "file"
    file.write_bytes(b"other's")
    run(main())


def test_create_whose_object_is_deleted_meanwhile_is_a_failure() -> None:
    async def main() -> None:
        store = Faulty(StoreError("lost"), KeyExists("a"))
        with pytest.raises(StoreError, match="it was there, and is gone") as caught:
            await requests_over(store).create("a", b"mine")
        assert type(caught.value) is StoreError

    run(main())


def test_listing_that_fails_is_begun_again_and_gives_each_key_once() -> None:
    class CutShort(Faulty):
        async def list(self, prefix: str = "", *, after: str = "") -> Any:
            number = 0
            async for info in super().list(prefix, after=after):
                number += 1
                if number == 3 and not cuts:
                    cuts.append(number)
                    raise StoreError("cut off")
                yield info

    cuts: list[int] = []

    async def main() -> None:
        store = CutShort()
        for number in range(PAGE + 1):
            store.objects[f"wal/{number:04}"] = b"", 0
        requests = requests_over(store)
        assert [info.key async for info in requests.list("wal")] == list(store.objects)
        assert counted(requests, "list") == {"failed": 1, "ok": 2}
        found = await requests.list_folder()
        assert found.folders == ["wal"]

    run(main())
    assert cuts


def test_cancelled_request_is_counted_and_not_made_again() -> None:
    async def main() -> None:
        store = Faulty(fates=(HANGS,))
        requests = requests_over(store)
        task = asyncio.create_task(requests.get("a"))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(60.0)
        assert len(store.requests) == 1
        assert counted(requests, "get") == {"cancelled": 1}

    run(main())


def test_bytes_and_latencies_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")

    async def main() -> None:
        requests = requests_over(Faulty(fates=(Fate(0.01, 0.02),) * 6))
        await requests.create("a", b"123")
        await requests.put("b", file)
        assert await requests.get_range("a", 1, 3) == b"23"
        assert await requests.get("b") == b"12345"
        assert (await requests.head("a")).size == 3
        await requests.delete(["a"])
        await requests.delete([])
        assert requests.counts.all() == (
            RequestCount("create", "ok", 1, 3, 0),
            RequestCount("delete", "ok", 1),
            RequestCount("get", "ok", 2, 0, 7),
            RequestCount("head", "ok", 1),
            RequestCount("put", "ok", 1, 5, 0),
        )
        assert requests.counts.latencies("get").count == 2
        assert requests.counts.latencies("get").total_s == pytest.approx(0.06)

    run(main())


def test_recent_requests_are_those_of_the_last_hour() -> None:
    async def main() -> None:
        requests = requests_over(Faulty())
        loop = asyncio.get_running_loop()
        for _ in range(3):
            await requests.put("a", b"")
        assert requests.counts.recent(loop.time()) == ((RequestCount("put", "ok", 3),), 60.0)
        await asyncio.sleep(1800.0)
        await requests.get("a")
        assert requests.counts.recent(loop.time()) == (
            (RequestCount("get", "ok", 1), RequestCount("put", "ok", 3)),
            1800.0,
        )
        await asyncio.sleep(1900.0)
        found = requests.counts.recent(loop.time())
        assert found.requests == (RequestCount("get", "ok", 1),)
        assert 3540.0 <= found.seconds <= 3600.0
        await asyncio.sleep(3600.0)
        assert requests.counts.recent(loop.time()).requests == ()

    run(main())


# -- over HTTP: moto behind a proxy


@pytest.fixture
def wire(s3: dict[str, Any], tmp_path: Path) -> Iterator[tuple[StoreProxy, Callable[[], BucketRequests]]]:
    """The proxy, and how requests through it are made on the running loop."""
    once = {**s3, "retry_config": {"max_retries": 0}}
    limits = {kind: RequestLimits(0.5, 20.0) for kind in LIMITS}
    with store_proxy(s3["endpoint"]) as proxy:
        store = open_async_store(f"s3://archive/{tmp_path.name}", **{**once, "endpoint": proxy.url})
        yield proxy, lambda: BucketRequests(store, Random(1).random, limits)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "fate",
    [
        WireFate(is_unanswered=True),
        WireFate(is_never_answered=True),
        WireFate(answered_status=500, code="InternalError"),
        WireFate(answered_status=503, code="SlowDown"),
        WireFate(is_cut=True),
        WireFate(status=409, code="ConditionalRequestConflict"),
        WireFate(status=503, code="SlowDown"),
    ],
    ids=lambda fate: str(fate).partition("(")[2][:60],
)
def test_create_over_http_succeeds_once_whatever_becomes_of_its_answer(
    wire: tuple[StoreProxy, Callable[[], BucketRequests]], fate: WireFate
) -> None:
    proxy, made = wire
    proxy.fates.append(fate)

    async def main() -> None:
        requests = made()
        await requests.create("wal/1", b"mine")
        with pytest.raises(KeyExists):
            await requests.create("wal/1", b"other")
        assert await requests.get("wal/1") == b"mine"

    asyncio.run(main())


@pytest.mark.filterwarnings("default")
def test_answers_over_http_that_are_late_or_cut_off_are_asked_for_again(
    wire: tuple[StoreProxy, Callable[[], BucketRequests]],
) -> None:
    proxy, made = wire
    data = bytes(range(256)) * 256

    async def main() -> None:
        requests = made()
        await requests.create("wal/1", data)
        for fate in (WireFate(body_bytes=1000), WireFate(is_never_answered=True), WireFate(is_cut=True)):
            proxy.fates.append(fate)
            assert await requests.get_range("wal/1", 5, 60_000) == data[5:60_000]
        proxy.fates.append(WireFate(body_bytes=1000))
        assert await requests.get("wal/1") == data
        proxy.fates.append(WireFate(body_bytes=20))
        assert [info.key async for info in requests.list("wal")] == ["wal/1"]
        assert sum(found.count for found in requests.counts.all() if found.outcome == "timeout") == 1

    asyncio.run(main())
