"""The loop that sleeps in the poller is still an asyncio loop, and gives the poller back."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Options, Server
from headrace.client.blocking import connect
from headrace.engine.link import Router
from headrace.server.loop import PollerLoop, _Front, run_in_poller
from headrace.testing import Server as Embedded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.engine.link import Link

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="epoll")

LOCAL = Options(host="127.0.0.1", port=-1)


def round_trip(url: str) -> None:
    with connect(url) as nc:
        nc.subscribe("loop.test")
        nc.publish("loop.test", b"x")
        assert nc.receive(5).payloads == [b"x"]


def test_timers_threads_and_descriptors_of_the_loop_work_beside_the_poller() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PollerLoop)
        async with Server(LOCAL, transport="epoll") as server:
            ours, theirs = socket.socketpair()
            with closing(ours), closing(theirs):
                ours.setblocking(False)
                theirs.send(b"a")
                assert await loop.sock_recv(ours, 1) == b"a"
            await asyncio.sleep(0.001)
            woken = asyncio.Event()
            threading.Thread(target=loop.call_soon_threadsafe, args=(woken.set,)).start()
            await asyncio.wait_for(woken.wait(), 5)
            await asyncio.to_thread(round_trip, server.url)

    run_in_poller(main())


def test_ticks_that_ask_the_loop_for_nothing_are_no_rounds_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []
    select = _Front.select

    def counted(front: _Front, timeout: float | None = None) -> list[tuple[Any, int]]:
        rounds.append(timeout)
        return select(front, timeout)

    def talk(url: str) -> None:
        with connect(url) as nc:
            nc.flush()
            before = len(rounds)
            for _ in range(200):
                nc.flush()
            between.append(len(rounds) - before)

    async def main() -> None:
        async with Server(LOCAL, transport="epoll") as server:
            await asyncio.to_thread(talk, server.url)

    between: list[int] = []
    monkeypatch.setattr(_Front, "select", counted)
    run_in_poller(main())
    assert between[0] < 50


def test_what_a_tick_asks_the_loop_for_is_done_before_the_next_one() -> None:
    """Also a timer that is due long before the one that the loop went to sleep for."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PollerLoop)
        done: list[str] = []
        async with Server(LOCAL, transport="epoll") as server:
            settle = loop._front.when_due
            assert settle is not None
            ended = loop.create_future()

            def ask() -> None:
                settle()
                loop.call_soon(done.append, "soon")
                loop.call_later(0.001, done.append, "later")
                loop.call_later(0.002, ended.set_result, None)
                loop._front.when_due = settle

            loop._front.when_due = ask
            await asyncio.to_thread(round_trip, server.url)
            await asyncio.wait_for(ended, 5)
        assert done == ["soon", "later"]

    run_in_poller(main())


def test_what_is_to_be_called_at_the_end_of_a_tick_is_no_round_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Outside of ticks it comes in the next round; a mistake in it is told, and ends nothing."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PollerLoop)
        done: list[str] = []
        rounds = 0
        mistakes: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: mistakes.append(context))
        run_once = loop._run_once  # type: ignore[attr-defined]

        def counted() -> None:
            nonlocal rounds
            rounds += 1
            run_once()

        monkeypatch.setattr(loop, "_run_once", counted)
        loop.call_at_end_of_tick(lambda: done.append("between"))
        assert not done
        await asyncio.sleep(0)
        assert done == ["between"]
        async with Server(LOCAL, transport="epoll") as server:
            settle = loop._front.when_due
            assert settle is not None
            order: list[int] = []

            def ask() -> None:
                loop.call_at_end_of_tick(lambda: order.append(rounds))
                loop.call_at_end_of_tick(lambda: 1 // 0)
                order.append(rounds)
                settle()

            loop._front.when_due = ask
            await asyncio.to_thread(round_trip, server.url)
            loop._front.when_due = settle
        assert order[0] == order[1]
        assert len(order) % 2 == 0
        assert {type(mistake["exception"]) for mistake in mistakes} == {ZeroDivisionError}

    run_in_poller(main())


def test_a_loop_that_is_stopped_in_a_tick_ends() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PollerLoop)
        server = Server(LOCAL, transport="epoll")
        await server.start()
        settle = loop._front.when_due
        assert settle is not None

        def stop() -> None:
            loop._front.when_due = settle
            loop.stop()

        loop._front.when_due = stop
        trip = threading.Thread(target=round_trip, args=(server.url,))
        trip.start()
        try:
            await asyncio.sleep(600)
        finally:
            await server.stop()

    with pytest.raises(RuntimeError, match="Event loop stopped"):
        run_in_poller(main())


def test_several_servers_share_a_loop_and_the_next_one_takes_the_place() -> None:
    async def main() -> None:
        first = Server(LOCAL, transport="epoll")
        await first.start()
        async with Server(LOCAL, transport="epoll") as second:
            await asyncio.to_thread(round_trip, first.url)
            await asyncio.to_thread(round_trip, second.url)
            await first.stop()
            async with Server(LOCAL, transport="epoll") as third:
                await asyncio.to_thread(round_trip, second.url)
                await asyncio.to_thread(round_trip, third.url)

    run_in_poller(main())


def test_a_loop_of_the_program_watches_the_poller() -> None:
    async def main() -> None:
        async with Server(LOCAL, transport="epoll") as server:
            await asyncio.to_thread(round_trip, server.url)

    asyncio.run(main())


def test_closed_clients_leave_the_server_that_sleeps() -> None:
    with Embedded() as server:
        for _ in range(3):
            round_trip(server.url)
        with connect(server.url) as nc:
            nc.flush()  # the server has served something after the closings
            assert server.call(lambda: len(server.server.clients)) == 1


def test_a_mistake_at_the_end_of_a_tick_ends_neither_the_loop_nor_the_server() -> None:
    async def main() -> list[object]:
        loop = asyncio.get_running_loop()
        told: list[object] = []
        has_failed = asyncio.Event()

        def note(_: object, context: dict[str, Any]) -> None:
            told.append(context["exception"])
            has_failed.set()

        loop.set_exception_handler(note)
        async with Server(LOCAL, transport="epoll") as server:
            begin = server.disconnects.begin

            def fail_once(links: Iterable[Link]) -> None:
                server.disconnects.begin = begin  # type: ignore[method-assign]
                raise mistake

            server.disconnects.begin = fail_once  # type: ignore[method-assign]
            await asyncio.to_thread(round_trip, server.url)
            await asyncio.wait_for(has_failed.wait(), 5)
            await asyncio.to_thread(round_trip, server.url)
        return told

    mistake = RuntimeError("a mistake of ours")
    assert run_in_poller(main()) == [mistake]


def test_looks_that_find_nothing_become_rare() -> None:
    from headrace.server.epoll import Poller

    poller = Poller(Router(), 100_000)
    for _ in range(1000):
        assert poller.poll() == []

    assert 10 < poller.looks < 40


def test_wait_returns_for_the_descriptor_it_hosts_and_for_time() -> None:
    from headrace.server.epoll import Poller

    poller = Poller(Router())
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        poller.host(ours.fileno())
        assert poller.wait(0) is False
        assert poller.wait(0.0001) is False
        theirs.send(b"a")
        assert poller.wait(None) is True
        assert poller.poll() == []  # which is for sockets, and does not go round for the host's
