"""The event loop of a thread that Headrace owns: it sleeps in the poller.

An asyncio loop whose selector leaves the waiting and the serving to a `Poller`, so that a message costs no
round through asyncio's callbacks: the selector waits on, tick after tick, until a descriptor or a timer of
the loop is ready or a tick asked the loop for something. Loops of other programs watch the poller's
descriptor instead (docs/adr/0003-two-transports.md).
"""

from __future__ import annotations

import asyncio
import selectors
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from asyncio import Handle, TimerHandle
    from collections.abc import Callable, Coroutine
    from contextvars import Context
    from typing import Any

    from headrace.server.epoll import Poller

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run_in_poller(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as a program.

    As `asyncio.run`, on a loop that can sleep in the poller of the first server started on it.
    """
    with asyncio.Runner(loop_factory=PollerLoop) as runner:
        return runner.run(main)


class PollerLoop(asyncio.SelectorEventLoop):
    """A selector event loop that can sleep in one poller; a second one is watched like any descriptor."""

    def __init__(self) -> None:
        self._front = _Front()
        super().__init__(self._front)

    def sleep_in(self, poller: Poller, settle: Callable[[], object]) -> bool:
        """Call `settle` at once whenever the poller is due. False: the loop has a poller already."""
        if self._front.poller is not None:
            return False
        poller.host(self._front.fileno())
        self._front.when_due = partial(self._run, settle)
        self._front.poller = poller
        return True

    # -- what a tick can ask the loop for --------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        self._front.is_wanted = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        self._front.is_wanted = True
        return super().call_at(when, callback, *args, context=context)

    def call_at_end_of_tick(self, callback: Callable[[], object]) -> None:
        """Call a function when services have had what came in this tick, without a round of the loop.

        Outside of ticks it is called in the next round.
        """
        if self._front.ends is None:
            self.call_soon(callback)
        else:
            self._front.ends.append(partial(self._run, callback))

    def stop(self) -> None:
        self._front.is_wanted = True
        super().stop()

    def _run(self, callback: Callable[[], object]) -> None:
        """Call a function; a mistake in it is reported as that of any callback, and does not end the loop."""
        try:
            callback()
        except Exception as error:  # noqa: BLE001 -- whatever it is
            self.call_exception_handler({"message": "Exception at the end of a tick", "exception": error})

    def leave(self, poller: Poller) -> bool:
        """The end of `sleep_in`; False when the loop does not sleep in this poller."""
        if self._front.poller is not poller:
            return False
        self._front.poller = self._front.when_due = None
        return True


class _Front(selectors.DefaultSelector):
    """The system's selector; while it has a poller, that one waits for both.

    `is_wanted`: the loop was asked for something since `select` began, so `select` ends. What it had been
    asked for before is in the timeout.
    """

    poller: Poller | None = None
    when_due: Callable[[], object] | None = None
    is_wanted = False
    ends: list[Callable[[], object]] | None = None
    """Calls for the end of the tick that runs; None: none does."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.poller is None:
            return super().select(timeout)
        self.is_wanted = False
        until = monotonic() + timeout if timeout else None
        while (poller := self.poller) is not None:  # a tick can be the end of its server
            ends: list[Callable[[], object]] = []
            self.ends = ends
            try:
                is_ready = poller.wait(timeout)
                if self.when_due and poller.is_due:
                    self.when_due()
            finally:
                self.ends = None
            for end in ends:
                end()
            if is_ready:
                break
            if self.is_wanted or timeout == 0:
                return []
            if until is not None and (timeout := until - monotonic()) <= 0:
                return []
        return super().select(0)
