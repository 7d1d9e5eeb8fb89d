"""An event loop of asyncio whose time goes on when everything due has been done, with processes in it.

Real coroutines run on it: `loop.time()`, `asyncio.sleep`, `call_later`, timeouts, futures, tasks and
asyncio's locks and events. There are no sockets, threads or signals. Equal programs run in equal order.

A *process* owns the callbacks, timers and tasks that are made in its context (`Process.run`). It can be
paused, as by SIGSTOP: what becomes due waits, and comes all at once and late when it goes on. It can be
killed: nothing of it runs ever again. What it asked of others, who are not of the process, still happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import inspect
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

T = TypeVar("T")

_PROCESS: Final[contextvars.ContextVar[Process | None]] = contextvars.ContextVar("process", default=None)
MOST_CALLS: Final = 5_000_000
"""Callbacks of one run: a program that never waits would go on for ever."""


class Stuck(Exception):
    """Something waits, and nothing is left that could end the waiting."""


class Process:
    """The owner of callbacks. Times are seconds of the loop."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.name: Final = name
        self.is_alive = True
        self.is_paused = False
        self._loop: Final = loop
        self._kept: list[asyncio.Handle] = []
        self._context: Final = contextvars.copy_context()
        self._context.run(_PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name}>"

    def run(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Make a task of the process."""
        return self._context.copy().run(self._loop.create_task, coroutine)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function as the process: what it starts belongs to the process."""
        return self._context.copy().run(function, *args)

    def pause(self) -> None:
        """Stop running anything, until `resume`."""
        self.is_paused = True

    def resume(self) -> None:
        """Go on: what became due meanwhile comes now, in the order in which it did."""
        self.is_paused = False
        kept, self._kept = self._kept, []
        self._loop.put_back(kept)

    def kill(self) -> None:
        """Run nothing of the process any more."""
        self.is_alive = False
        self._kept.clear()

    def holds(self, handle: asyncio.Handle) -> bool:
        """True if a callback may not run now. That of a paused process is kept for later."""
        if self.is_alive and self.is_paused:
            self._kept.append(handle)
        return self.is_paused or not self.is_alive


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop. Exceptions that nobody asked for are in `mistakes`; whoever made the loop looks there."""

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self.calls = 0
        self.mistakes: list[dict[str, Any]] = []
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._many = 1000
        self._is_closed = False

    # -- what programs ask of a loop ------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._is_closed:
            self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._is_closed:
            self._count += 1
            heapq.heappush(self._timers, (max(when, self.now), self._count, handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)  # type: ignore[arg-type]
        self._tasks.append(task)  # a task that nobody holds ends in the midst of something
        if len(self._tasks) > self._many:
            self.forget_ended()
            self._many = 1000 + 2 * len(self._tasks)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_closed:
            self.mistakes.append(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is passed over when its time comes."""

    # -- what tests do --------------------------------------------------------------------------------

    def skip(self, seconds: float) -> None:
        """Let time pass without running anything, as for a process that is alone and stopped."""
        self.now += seconds

    def process(self, name: str) -> Process:
        return Process(self, name)

    def forget_ended(self) -> None:
        """Let go of tasks that have ended: what they failed of, unasked, is told as a mistake then."""
        self._tasks = [task for task in self._tasks if not task.done()]

    async def cancel_all(self) -> None:
        """Cancel every task but the one that asks, and wait until they have ended."""
        left = [task for task in self._tasks if not task.done() and task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def put_back(self, handles: list[asyncio.Handle]) -> None:
        self._ready.extend(handles)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run until a coroutine has ended; return what it returned, and close the loop.

        Raises: Stuck, and what the coroutine raises.
        """
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(coroutine)
            while not task.done():
                self._turn()
            return task.result()
        finally:
            self.forget_ended()
            self._close()
            asyncio._set_running_loop(before)

    def _turn(self) -> None:
        """Run what is ready; when there is nothing, go on to the time of the next timer."""
        ready = self._ready
        if not ready:
            self._advance()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:  # type: ignore[attr-defined]
                continue
            process = handle._context.get(_PROCESS)  # type: ignore[attr-defined]
            if process is not None and process.holds(handle):
                continue
            self.calls += 1
            handle._run()
        if self.calls > MOST_CALLS:
            raise Stuck(f"{self.calls} calls at {self.now:.3f} s: something never waits")

    def _advance(self) -> None:
        timers = self._timers
        while timers and timers[0][2]._cancelled:  # type: ignore[attr-defined]
            heapq.heappop(timers)
        if not timers:
            raise Stuck("nothing is to come")
        self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= self.now:
            handle = heapq.heappop(timers)[2]
            if not handle._cancelled:  # type: ignore[attr-defined]
                self._ready.append(handle)

    def _close(self) -> None:
        """Forget everything. What coroutines do as they are thrown away has no effect any more."""
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()
        for task in self._tasks:
            _end(task.get_coro())
        self._tasks.clear()


def _end(coroutine: object) -> None:
    """Throw a coroutine away now, not when it is found as garbage. Nothing that it awaits is waited for."""
    while inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) != inspect.CORO_CLOSED:
        with contextlib.suppress(RuntimeError):
            coroutine.close()


def run(main: Coroutine[Any, Any, T], *, start: float = 0.0) -> T:
    """Run a coroutine on a loop of its own, to its end; what is left is cancelled.

    Raises: AssertionError if a callback or a task of it failed and nobody asked.
    """
    loop = VirtualLoop(start)

    async def whole() -> T:
        try:
            return await main
        finally:
            await loop.cancel_all()

    result = loop.run(whole())
    assert not loop.mistakes, loop.mistakes
    return result
