"""Syncs in flight, done by a thread that does not need the interpreter: of logs where one sync is enough.

Here lives which callers wait for which sync, and how the owner's loop hears that one has ended. Never here:
when a log is synced (`committer`), what a sync means (`segments`), the thread that does it (`engine.syncer`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.engine.syncer import Syncer

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.engine.syncer import SyncJob
    from headrace.errors import StorageError
    from headrace.log.port import Done, Syncable


class Ended(Struct, frozen=True):
    """A sync that has ended: its log, its error if it failed, its duration, the callbacks that wait."""

    log: Syncable
    error: StorageError | None
    seconds: float
    waiting: list[Done]


class SyncsInFlight:
    """The syncs in flight of one committer, for its owner's thread.

    `add_reader` and `remove_reader` are those of the owner's loop; `ended` is called in that loop.
    """

    def __init__(
        self,
        add_reader: Callable[[int, Callable[[], None]], object],
        remove_reader: Callable[[int], object],
        ended: Callable[[], None],
    ) -> None:
        self._add_reader = add_reader
        self._remove_reader = remove_reader
        self._ended = ended
        self._syncer: Syncer | None = None
        self._waiting: dict[SyncJob, tuple[Syncable, list[Done]]] = {}
        self._logs: set[Syncable] = set()

    def __contains__(self, log: Syncable) -> bool:
        return log in self._logs

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, log: Syncable, waiting: list[Done]) -> bool:
        """Begin a sync of a log that has none in flight.

        Returns False if the log needs more than one sync, or no thread can be had.
        """
        syncer = self._ready()
        job = None if syncer is None else log.begin_sync(syncer.submit)
        if job is None:
            return False
        self._waiting[job] = log, waiting
        self._logs.add(log)
        return True

    def _ready(self) -> Syncer | None:
        """Return the syncer, made at the first call; None if no thread can be had or the loop is closed."""
        if self._syncer is not None:
            return self._syncer
        try:
            syncer = Syncer()
        except (OSError, RuntimeError):
            return None
        try:
            self._add_reader(syncer.fileno(), self._ended)
        except RuntimeError:
            syncer.stop()
            return None
        self._syncer = syncer
        return syncer

    def take(self) -> list[Ended]:
        """Return the syncs that have ended since the last call."""
        return [] if self._syncer is None else self._outcomes(self._syncer.take())

    def stop(self) -> list[Ended]:
        """Wait until every sync has ended; return those that `take` has not returned. Safe to call twice."""
        if self._syncer is None:
            return []
        syncer, self._syncer = self._syncer, None
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._remove_reader(syncer.fileno())
        return self._outcomes(syncer.stop())

    def _outcomes(self, jobs: list[SyncJob]) -> list[Ended]:
        found = []
        for job in jobs:
            log, waiting = self._waiting.pop(job)
            self._logs.remove(log)
            found.append(Ended(log, log.end_sync(job), job.seconds, waiting))
        return found
