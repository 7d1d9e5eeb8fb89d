"""A disk that fails, loses power and takes its time, on a simulated clock."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from headrace.log.committer import InlineCommitter
from headrace.testing.faultfs import Fault, FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from headrace.errors import StorageError
    from headrace.log.port import Done, MessageLog

DELAYS: Final = (0.0, 0.0, 0.0005, 0.002, 0.02, 0.2, 1.5)
"""Seconds that one sync takes, at random."""


class Disk:
    """One machine's disk: `files` is what a server opens; it outlives servers."""

    def __init__(self, chance: Random) -> None:
        self._chance: Final = chance
        self._inner: Final = MemoryFileSystem()
        self.files: Final = FaultyFileSystem(self._inner)

    def fail_soon(self) -> str:
        """Some of the next calls fail. Returns which and how, for people."""
        chance, files = self._chance, self.files
        after = chance.randrange(1, 25)
        files.fail_at = files.calls + after
        files.failures = chance.choice((1, 1, 2, 8, 40))
        files.error = chance.choice((errno.EIO, errno.ENOSPC))
        files.fault = chance.choice(tuple(Fault))
        files.only = frozenset(chance.choice(((), (), ("pwrite",), ("fdatasync", "fsync"))))
        return (
            f"{files.failures} calls fail after {after}: {files.fault.value}, {errno.errorcode[files.error]}"
        )

    def heal(self) -> None:
        self.files.fail_at = 0

    def lose_process(self) -> None:
        """The server's process is killed: what it wrote is there."""
        self._inner.kill()

    def lose_power(self) -> None:
        """What was not synced is there in part, or not at all."""
        self._inner.crash(self._chance)


class SlowCommitter:
    """Syncs one log at a time for each log; whoever asked is told when simulated time has passed.

    The sync itself is done either when it is asked for or when its time is over: a crash in between finds
    what was never confirmed durable, or not. `later`: the host's, to be set before the first request.
    """

    syncs: Final = True
    marks: Final = None  # as under GROUP: nobody is told before a sync

    def __init__(self, chance: Random) -> None:
        self._chance: Final = chance
        self._waiting: dict[MessageLog, list[Done]] = {}
        self._busy: set[MessageLog] = set()
        self.later: Callable[[float, Callable[[], None]], object]

    def request(self, log: MessageLog, done: Done) -> None:
        self._waiting.setdefault(log, []).append(done)
        if log not in self._busy:
            self._begin(log)

    def begin_turn(self) -> None:
        """A turn has no meaning for this disk."""

    def end_turn(self, *, is_last: bool) -> None:
        """A turn has no meaning for this disk."""

    def stop(self) -> None:
        while self._waiting:
            log = next(iter(self._waiting))
            self._end(log, self._waiting.pop(log), _sync(log))

    def _begin(self, log: MessageLog) -> None:
        self._busy.add(log)
        waiting = self._waiting.pop(log)
        delay = self._chance.choice(DELAYS)
        if not delay:
            self._end(log, waiting, _sync(log))
        elif self._chance.random() < 0.5:
            outcome = _sync(log)
            self.later(delay, lambda: self._end(log, waiting, outcome))
        else:
            self.later(delay, lambda: self._end(log, waiting, _sync(log)))

    def _end(self, log: MessageLog, waiting: list[Done], outcome: StorageError | None) -> None:
        self._busy.discard(log)
        for done in waiting:
            done(outcome)
        if log in self._waiting and log not in self._busy:
            self._begin(log)


def _sync(log: MessageLog) -> StorageError | None:
    told: list[StorageError | None] = []
    InlineCommitter().request(log, told.append)
    return told[0]
