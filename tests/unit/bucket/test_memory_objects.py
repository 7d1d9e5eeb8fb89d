"""The loop and the store that the tests of this folder run on do what they say."""

from __future__ import annotations

import asyncio

import pytest

from harness.memory_objects import ANSWER_LOST, FAILS, HANGS, Fate, MemoryObjects, Request
from harness.virtual_loop import Stuck, run
from headrace.objects.errors import KeyExists, KeyMissing, StoreError


def test_time_is_that_of_the_next_timer() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times: list[float] = []

        async def note(seconds: float) -> None:
            await asyncio.sleep(seconds)
            times.append(loop.time())

        await asyncio.gather(note(3600.0), note(0.25), note(0.0))
        return times

    assert run(main()) == [0.0, 0.25, 3600.0]


def test_waiting_for_nothing_ends() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        run(main())


def test_one_of_two_creates_succeeds() -> None:
    async def main() -> None:
        store = MemoryObjects(lambda _request: Fate())
        outcomes = await asyncio.gather(
            store.create("a", b"1"), store.create("a", b"2"), return_exceptions=True
        )

        assert [type(outcome) for outcome in outcomes] == [type(None), KeyExists]
        assert await store.get("a") == b"1"
        assert (await store.head("a")).size == 1
        await store.delete(["a", "b"])
        with pytest.raises(KeyMissing):
            await store.get("a")

    run(main())


@pytest.mark.parametrize(("fate", "is_there"), [(FAILS, False), (ANSWER_LOST, True)])
def test_failure_says_nothing_about_the_effect(fate: Fate, is_there: bool) -> None:
    async def main() -> None:
        store = MemoryObjects(lambda _request: fate)
        with pytest.raises(StoreError):
            await store.create("a", b"")
        assert ("a" in store.objects) is is_there

    run(main())


def test_request_goes_its_way_when_its_caller_has_gone() -> None:
    async def main() -> None:
        fates = {"a": Fate(before=5.0), "b": HANGS}
        store = MemoryObjects(lambda request: fates[request.key])
        for key in fates:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(store.create(key, b""), 1.0)
        assert not store.objects
        await asyncio.sleep(4.0)
        assert list(store.objects) == ["a"]
        assert store.requests == [Request("create", "a", 0.0), Request("create", "b", 1.0)]

    run(main())
