"""Turns of a service over a log. A turn is the unit of work of one event.

The event is a batch of deliveries, a timer, or a commit. While it is handled, parts of the service ask for
work: messages to append, subscriptions to serve, state to write. At the end of the turn `settle` does all of
it once, however many parts asked. Never lives here: a rule of any service.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Host, Timer
    from headrace.log.blocking import NotHere
    from headrace.log.committer import Committer, SyncMarks
    from headrace.log.port import MessageLog


AGAIN_S: Final = 1.0
"""Seconds until a commit that failed is asked for again."""


class Turns:
    """The turns of one service: its clock, its timers, its commits, and the end of each turn."""

    def __init__(self, host: Host, committer: Committer) -> None:
        self.host: Final = host
        self.now_ns: Final = host.now_ns
        """The host's clock, ns since 1970."""
        self._committer = committer
        self._work: Callable[[], bool] = lambda: False
        self._settling = False
        self._stopped = False
        self._numbers = itertools.count()
        self._commits: dict[int, tuple[MessageLog, Callable[[StorageError | None], None]]] = {}
        self._when_idle: Callable[[], object] | None = None

    @property
    def marks(self) -> SyncMarks | None:
        """The marks of the committer, if it answers at once."""
        return self._committer.marks

    def on_settle(self, work: Callable[[], bool]) -> None:
        """Set `work`, which does one round of what is due and returns True if there may be more."""
        self._work = work

    def settle(self) -> None:
        """End a turn. Within `settle` itself a call does nothing, since the turn ends already."""
        if self._settling or self._stopped:
            return
        self._settling = True
        try:
            while self._work():
                pass
        finally:
            self._settling = False

    def later(self, seconds: float, function: Callable[[], object]) -> Timer:
        return self.host.call_later(seconds, _Turn(self, function))

    def take(self, function: Callable[[], object]) -> None:
        """Call `function` as a turn; after `stop` there are no turns."""
        if not self._stopped:
            function()
            self.settle()

    def when_here(self, absent: NotHere, function: Callable[[], object]) -> None:
        """Call `function`, in a turn, when the bytes that a read lacked have come, or cannot be had."""
        loop = asyncio.get_running_loop()

        def arrived(_arrival: object) -> None:
            with suppress(RuntimeError):  # the loop has ended before the bytes came
                loop.call_soon_threadsafe(self.take, function)

        absent.arrival.add_done_callback(arrived)

    def commit(self, log: MessageLog, done: Callable[[StorageError | None], None]) -> None:
        """Call `done`, in a turn, when what was appended to `log` is durable; perhaps at once."""

        number = next(self._numbers)
        self._commits[number] = log, done

        def turn(error: StorageError | None) -> None:
            if self._commits.pop(number, None) is not None:
                done(error)
                self.settle()
                self._tell_idle()

        self._committer.request(log, turn)

    def when_idle(self, function: Callable[[], object]) -> None:
        """Call `function` once no commit is under way any more; perhaps at once."""
        self._when_idle = function
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._when_idle is not None and not self._commits:
            function, self._when_idle = self._when_idle, None
            function()

    def finish_commits(self) -> None:
        """Do what the committer has not done yet, at once: whoever waits is answered.

        For the end, and for when too much waits: everything else stands still meanwhile. Nothing happens
        where a sync is no commit (`Committer.syncs`): commits end when they end.
        """
        if not self._committer.syncs:
            return
        while self._commits:
            number = next(iter(self._commits))
            log, done = self._commits.pop(number)
            error = None
            try:
                log.sync()
            except StorageError as failure:
                error = failure
            done(error)
            self.settle()

    def stop(self) -> None:
        """End all turns: timers that are still set do nothing any more, and nobody is told of a commit."""
        self._stopped = True
        self._commits.clear()


class LateCommit:
    """A log whose commit failed: it is asked for again until everything in the log is durable.

    Whoever waited for it was refused. What is in the log all the same, because a bucket or a disk was late,
    is delivered then: no later append may come that would show it. `durable`: called, in a turn, with the
    last sequence. `is_over`: true once nobody has a use for it any more.
    """

    def __init__(
        self,
        turns: Turns,
        log: MessageLog,
        durable: Callable[[int], object],
        is_over: Callable[[], bool],
    ) -> None:
        self._turns = turns
        self._log = log
        self._durable = durable
        self._is_over = is_over
        self._is_asking = False

    def ask(self) -> None:
        """Note that a commit failed."""
        if not self._is_asking:
            self._is_asking = True
            self._turns.later(AGAIN_S, self._again)

    def _again(self) -> None:
        if self._is_over():
            return
        try:
            last = self._log.state().last_sequence
        except StorageError as error:  # the disk goes on failing
            self._done(0, error)
        else:
            self._turns.commit(self._log, partial(self._done, last))

    def _done(self, last: int, error: StorageError | None) -> None:
        self._is_asking = False
        if self._is_over():
            return
        if error is None:
            self._durable(last)
        else:
            self.ask()


class _Turn:
    """The function of a timer. Thousands may be set at once: it takes a third of the memory of a closure."""

    __slots__ = ("_function", "_turns")

    def __init__(self, turns: Turns, function: Callable[[], object]) -> None:
        self._turns = turns
        self._function = function

    def __call__(self) -> None:
        self._turns.take(self._function)
