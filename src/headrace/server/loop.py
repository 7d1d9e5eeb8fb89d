"""The event loop of a thread that Headrace owns: it sleeps in the poller.

An asyncio loop whose selector leaves the waiting and the serving to a `Poller`, so that a message costs no
round through asyncio's callbacks. Loops of other programs watch the poller's descriptor instead
(docs/adr/0003-two-transports.md).
"""

from __future__ import annotations

import asyncio
import selectors
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from headrace.server.epoll import Poller

T = TypeVar("T")


def run_in_poller(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, on a loop that can sleep in the poller of the first server started on it."""
    with asyncio.Runner(loop_factory=PollerLoop) as runner:
        return runner.run(main)


class PollerLoop(asyncio.SelectorEventLoop):
    """A selector event loop that can sleep in one poller; a second one is watched like any descriptor."""

    def __init__(self) -> None:
        self._front = _Front()
        super().__init__(self._front)

    def sleep_in(self, poller: Poller, settle: Callable[[], object]) -> bool:
        """Calls `settle` at once whenever the poller is due. False: the loop has a poller already."""
        if self._front.poller is not None:
            return False
        poller.host(self._front.fileno())
        self._front.when_due = partial(self._run, settle)
        self._front.poller = poller
        return True

    def _run(self, settle: Callable[[], object]) -> None:
        """As a handle of the loop does: a mistake ends what was called, not the loop."""
        try:
            settle()
        except Exception as error:  # noqa: BLE001 -- whatever it is
            self.call_exception_handler({"message": "Exception at the end of a tick", "exception": error})

    def leave(self, poller: Poller) -> bool:
        """The end of `sleep_in`; False when the loop does not sleep in this poller."""
        if self._front.poller is not poller:
            return False
        self._front.poller = self._front.when_due = None
        return True


class _Front(selectors.DefaultSelector):
    """The system's selector; while it has a poller, that one waits for both."""

    poller: Poller | None = None
    when_due: Callable[[], object] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.poller is None:
            return super().select(timeout)
        is_ready = self.poller.wait(timeout)
        if self.when_due and self.poller.is_due:
            self.when_due()
        return super().select(0) if is_ready else []
