"""The loop in virtual time: asyncio's own parts run on it, and processes stop and end."""

from __future__ import annotations

import asyncio

import pytest

from harness.virtual_loop import Stuck, VirtualLoop, run


def test_a_year_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(365 * 86400)
        return asyncio.get_running_loop().time()

    assert run(main()) == 365 * 86400


def test_asyncios_parts() -> None:
    async def main() -> list[str]:
        told: list[str] = []
        event, lock, queue = asyncio.Event(), asyncio.Lock(), asyncio.Queue[str]()

        async def waiter(name: str, delay: float) -> None:
            await asyncio.sleep(delay)
            async with lock:
                await asyncio.sleep(1)
                told.append(name)
            if name == "b":
                event.set()
                queue.put_nowait("q")

        async with asyncio.TaskGroup() as group:
            group.create_task(waiter("a", 0.5))
            group.create_task(waiter("b", 0.1))
            group.create_task(waiter("c", 0.6))
            await event.wait()
            told.append(await queue.get())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.sleep(5)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 1)
        done, _ = await asyncio.wait([asyncio.create_task(asyncio.sleep(1))], timeout=2)
        assert len(done) == 1
        return [*told, f"{asyncio.get_running_loop().time():.1f}"]

    assert run(main()) == ["b", "q", "a", "c", "8.1"]


def test_timers_of_one_time_come_in_the_order_they_were_asked_for() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        told: list[int] = []
        for number in range(5):
            loop.call_at(2.0, told.append, number)
        loop.call_at(1.0, told.append, 9)
        loop.call_at(1.5, told.append, 7).cancel()
        await asyncio.sleep(3)
        return told

    assert run(main()) == [9, 0, 1, 2, 3, 4]


def test_nothing_to_come() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        run(main())


def test_what_is_left_is_cancelled() -> None:
    told: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            told.append(f"{asyncio.get_running_loop().time()}")

    async def main() -> None:
        task = asyncio.create_task(background())
        await asyncio.sleep(5)
        assert not task.done()

    run(main())
    assert told == ["6.0"]


def test_a_failed_callback_is_told() -> None:
    def fail() -> None:
        raise ValueError("broken")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="broken"):
        run(main())


def test_a_task_that_failed_and_nobody_asked() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def main(loop: VirtualLoop) -> None:
        task = loop.create_task(fail())
        await asyncio.sleep(1)
        del task

    loop = VirtualLoop()
    loop.run(main(loop))
    assert [str(each["exception"]) for each in loop.mistakes] == ["broken"]


async def _ticks(told: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1)
        told.append(loop.time())


def test_a_paused_process_is_late() -> None:
    loop = VirtualLoop()
    told: list[float] = []
    sent: list[float] = []

    async def main() -> None:
        process = loop.process("p")
        process.run(_ticks(told))
        process.call(loop.call_at, 3.5, lambda: sent.append(loop.time()))
        await asyncio.sleep(2.5)
        process.pause()
        await asyncio.sleep(100)
        assert told == [1, 2]
        process.resume()
        await asyncio.sleep(1.6)

    loop.run(main())
    assert told == [1, 2, 102.5, 103.5]
    assert sent == [102.5]


def test_a_killed_process_does_nothing_and_what_it_asked_for_happens() -> None:
    loop = VirtualLoop()
    told: list[str] = []
    answers: list[str] = []

    def ask() -> asyncio.Future[str]:
        """A store, which is of no process."""
        answer: asyncio.Future[str] = loop.create_future()

        def act() -> None:
            told.append("done")
            answer.set_result("answer")

        requests.append(act)
        return answer

    requests: list[object] = []

    async def client() -> None:
        try:
            answers.append(await ask())
        finally:
            answers.append("ended")

    async def main() -> None:
        process = loop.process("p")
        process.run(client())
        await asyncio.sleep(1)
        process.kill()
        for act in requests:
            act()  # type: ignore[operator]
        await asyncio.sleep(1)
        assert told == ["done"]
        assert answers == []

    loop.run(main())


def test_a_process_killed_while_it_is_paused_does_not_go_on() -> None:
    loop = VirtualLoop()
    told: list[float] = []

    async def main() -> None:
        process = loop.process("p")
        process.run(_ticks(told))
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(2)
        process.kill()
        process.resume()
        await asyncio.sleep(2)

    loop.run(main())
    assert told == [1]
