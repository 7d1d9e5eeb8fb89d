"""Committers: they make appended messages durable, and then call those who wait.

Here live the committers: they sync logs and then call those who wait, on the owner's thread. They never look
into a log, and know no message. A publisher is acknowledged from such a call and from nowhere else.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headrace.errors import LogClosed, LogError, StorageError
from headrace.log.port import SyncPolicy
from headrace.log.syncs_in_flight import SyncsInFlight

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from headrace.log.port import Done, MessageLog, Syncable
    from headrace.log.syncs_in_flight import Ended

DEFAULT_INTERVAL_S: Final = 60.0
"""Seconds between two syncs under `SyncPolicy.INTERVAL`: a power loss may take the messages of that time."""
QUICK_S: Final = 0.001
"""A sync that takes no longer is quick: so long may one turn of the owner's loop last."""
PROOF: Final = 8
"""Quick syncs in a row on another thread before one is done on the owner's. One that takes n times as long as
a quick one asks for n times as many again, so a disk that stalls costs the owner little of its time."""
FEW_BYTES: Final = 4 << 10
"""Bytes that one sync on the owner's thread covers at most. A publisher of more goes on sending meanwhile."""


class SyncMarks(NamedTuple):
    """The state of syncs, for an owner who appends and confirms in one call, without `request`. On the
    owner's thread.

    What was appended is synced when `due` says so; where that says nothing, `note` the log. A log that is in
    `failed` could not be synced: nobody may be told without `request`, which says why.
    """

    due: Mapping[Syncable, float] | None
    """The time at which each log must be synced; None: no log ever is."""
    failed: Mapping[Syncable, StorageError]
    note: Callable[[MessageLog], None]


class Committer(Protocol):
    """The part that makes logs durable, and calls back when they are."""

    @property
    def syncs(self) -> bool:
        """True if a log's own `sync` makes it durable, so that whoever cannot wait may call that."""

    @property
    def marks(self) -> SyncMarks | None:
        """The marks of an owner who confirms before a sync; None where confirmations wait for it."""

    def request(self, log: Syncable, done: Done) -> None:
        """Call `done` on the owner's thread when all that was appended to `log` before is durable.

        Under INTERVAL and NEVER: soon, without waiting for a disk. With an error nothing may be acknowledged.
        """

    def begin_turn(self) -> None:
        """Begin a turn: syncs requested until `end_turn` may be done at its end."""

    def end_turn(self, *, is_last: bool) -> None:
        """End the turn. `is_last`: no other service has one before the loop goes on."""

    def stop(self) -> None:
        """Return when all that was requested is synced and everybody was told. Safe to call twice."""


class InlineCommitter:
    """Syncs and tells before `request` returns: for logs in memory, tools and tests."""

    syncs: Final = True
    marks: Final = None

    def request(self, log: Syncable, done: Done) -> None:
        done(_sync(log))

    def begin_turn(self) -> None:
        """Do nothing: every request is done at once, in its call."""

    def end_turn(self, *, is_last: bool) -> None:
        """Do nothing: no request is left for the end of a turn."""

    def stop(self) -> None:
        """Do nothing: no request waits."""


class ThreadCommitter:
    """Syncs beside the owner's thread, so that the loop does not wait for a disk.

    Under GROUP each sync covers all that was requested for its log before it began; what comes while it runs
    waits for the next. Logs take turns. The slower the disk, the larger the groups, without any timer. A log
    for which one sync of one file is enough is synced without Python (`SyncsInFlight`); the others by a
    worker thread.

    With `call_soon`, the loop's own, one sync is done on the owner's thread at the end of a turn where that
    is quicker than waking a thread and being woken: it is the only one that is asked for, it covers little,
    and the syncs before it were quick (`QUICK_S`, `PROOF`, `FEW_BYTES`). The end of a turn is the loop's next
    round, or `end_turn` where the owner says when one is over: what is told then goes out in the same tick.

    Under INTERVAL whoever asks is told at the end of the turn, or outside of turns in the loop's next round.
    Logs are synced `interval_s` after their first change, and only that wakes the worker. When a sync fails,
    those who ask for this log next get the error, until one succeeds. Under NEVER nothing is synced.

    `call_soon_threadsafe`, `add_reader`, `remove_reader`: the owner's loop's; without the latter two there is
    the worker alone. All methods are the owner's to call. `report` is called on the owner's thread for each
    sync that failed with nobody waiting for it.
    """

    syncs: Final = True

    def __init__(
        self,
        call_soon_threadsafe: Callable[[Callable[[], None]], object],
        policy: SyncPolicy = SyncPolicy.GROUP,
        interval_s: float = DEFAULT_INTERVAL_S,
        *,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        add_reader: Callable[[int, Callable[[], None]], object] | None = None,
        remove_reader: Callable[[int], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        report: Callable[[StorageError], object] | None = None,
    ) -> None:
        self._wake = call_soon_threadsafe
        self._call_soon = call_soon
        self._policy = policy
        self._interval = interval_s
        self._clock = clock
        self._report = report
        self._lock = threading.Lock()
        """Guards all below."""
        self._changed = threading.Condition(self._lock)
        self._waiting: dict[Syncable, list[Done]] = {}
        """Logs to sync in the order they were asked for, with whom to tell."""
        self._due: dict[Syncable, float] = {}
        """The time when each log is to be synced, under INTERVAL."""
        self._failed: dict[Syncable, StorageError] = {}
        self._finished: deque[Callable[[], object]] = deque()
        self._telling = False
        self._syncing = False
        """The worker is at it."""
        self._held = False
        """True until the end of the turn, when waiting logs are looked at again; the worker leaves them alone
        until then.
        """
        self._in_turn = False
        """The owner says when this turn ends."""
        self._unproven = PROOF
        """Quick syncs that are still asked for before the owner does one."""
        self._stopping = False
        self._worker: threading.Thread | None = None
        self._in_flight: SyncsInFlight | None = None
        """Syncs in flight; a log that has one waits for it."""
        if add_reader is not None and remove_reader is not None:
            self._in_flight = SyncsInFlight(add_reader, remove_reader, self._take)
        self.marks: Final = None if policy is SyncPolicy.GROUP else self._make_marks()

    @classmethod
    def on(
        cls,
        loop: asyncio.AbstractEventLoop,
        policy: SyncPolicy,
        interval_s: float,
        report: Callable[[StorageError], object],
    ) -> ThreadCommitter:
        """One for an owner that runs on this loop, with all that a loop gives."""
        return cls(
            loop.call_soon_threadsafe,
            policy,
            interval_s,
            call_soon=loop.call_soon,
            add_reader=loop.add_reader,
            remove_reader=loop.remove_reader,
            report=report,
        )

    def request(self, log: Syncable, done: Done) -> None:
        """Ask for a sync of a log; `done` is called when what was appended is durable.

        Raises: LogClosed after `stop`.
        """
        with self._lock:
            if self._stopping:
                raise LogClosed("the committer is stopped")
            if self._policy is SyncPolicy.GROUP:
                is_first = not self._waiting
                self._waiting.setdefault(log, []).append(done)
                if not self._held and not (is_first and self._hold(log)):
                    self._begin(log)
                return
            self._finished.append(partial(done, self._failed.get(log)))
            if not self._in_turn:
                self._tell_soon(self._call_soon or self._wake)
            self._note_change(log)

    def _make_marks(self) -> SyncMarks:
        due = self._due if self._policy is SyncPolicy.INTERVAL else None
        return SyncMarks(due, self._failed, self._note_alone)

    def _note_alone(self, log: Syncable) -> None:
        with self._lock:
            self._note_change(log)

    def _note_change(self, log: Syncable) -> None:
        """Have a log synced some time after its first change, under INTERVAL."""
        if self._policy is SyncPolicy.INTERVAL and log not in self._due:
            self._due[log] = self._clock() + self._interval
            self._set_to_work()

    def _begin(self, log: Syncable) -> None:
        """Have a log synced that somebody waits for."""
        in_flight = self._in_flight
        if in_flight is not None and log in in_flight:
            return
        if in_flight is not None and not self._stopping and in_flight.begin(log, self._waiting[log]):
            del self._waiting[log]
        else:
            self._set_to_work()

    def _set_to_work(self) -> None:
        self._changed.notify()
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="headrace-committer", daemon=True)
            self._worker.start()

    def begin_turn(self) -> None:
        self._in_turn = True

    def end_turn(self, *, is_last: bool) -> None:
        self._in_turn = False
        if self._held and (is_last or not self._leave_for_later()):
            self._sync_held()
        if self._policy is not SyncPolicy.GROUP and self._finished:
            self._tell()

    def stop(self) -> None:
        self._sync_held()
        with self._lock:
            self._stopping = True
            self._changed.notify()
        if self._in_flight is not None:
            self._note_ended(self._in_flight.stop)
        if self._worker is not None:
            self._worker.join()
        self._tell()

    # ---- on the owner's thread ---------------------------------------------------------------

    def _hold(self, log: Syncable) -> bool:
        """True if this turn may end with a sync of `log` on the owner's thread."""
        is_busy = self._syncing or self._in_flight
        if self._call_soon is None or is_busy or self._unproven or log.unsynced > FEW_BYTES:
            return False
        self._held = self._in_turn or self._leave_for_later()
        return self._held

    def _leave_for_later(self) -> bool:
        """Have what is held done in the loop's next round."""
        assert self._call_soon is not None
        try:
            self._call_soon(self._sync_held)
        except RuntimeError:  # the loop is closed: the worker syncs, and `stop` tells
            return False
        return True

    def _sync_held(self) -> None:
        """Do the one sync that is asked for, or leave several, or a large one, to the worker."""
        with self._lock:
            if not self._held:
                return
            self._held = False
            log, waiting = next(iter(self._waiting.items()))
            if len(self._waiting) > 1 or log.unsynced > FEW_BYTES:
                for one in list(self._waiting):
                    self._begin(one)
                return
            self._waiting.clear()
        error = self._timed_sync(log)
        with self._lock:
            self._finished.extend(partial(done, error) for done in waiting)
        self._tell()

    def _take(self) -> None:
        """Syncs that were begun have ended."""
        assert self._in_flight is not None
        self._note_ended(self._in_flight.take)
        self._tell()

    def _note_ended(self, take: Callable[[], list[Ended]]) -> None:
        """Sync logs again at once that somebody waits for."""
        with self._lock:
            for ended in take():
                self._prove(ended.seconds)
                self._finished.extend(partial(done, ended.error) for done in ended.waiting)
                if ended.log in self._waiting:
                    self._begin(ended.log)

    # ---- on the worker -----------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._next()) is not None:
            log, waiting = job
            error = self._timed_sync(log)
            with self._lock:
                self._syncing = False
                self._finished.extend(partial(done, error) for done in waiting)
                if not waiting:
                    self._note(log, error)
                if self._finished:
                    self._tell_soon(self._wake)

    def _timed_sync(self, log: Syncable) -> StorageError | None:
        began = self._clock()
        error = _sync(log)
        self._prove(self._clock() - began)
        return error

    def _prove(self, seconds: float) -> None:
        times = seconds / QUICK_S
        self._unproven = max(self._unproven - 1, 0) if times <= 1 else int(PROOF * times)

    def _next(self) -> tuple[Syncable, list[Done]] | None:
        """Wait for the next log to sync; None when stopping and all is done."""
        with self._lock:
            while True:
                log = self._next_waiting()
                if log is not None and not self._held:
                    self._syncing = True
                    return log, self._waiting.pop(log)
                log_due = min(self._due, key=self._due.__getitem__, default=None)
                if log_due is None and self._stopping and not self._waiting:
                    return None
                if log_due is None:
                    self._changed.wait()
                elif self._stopping or (rest := self._due[log_due] - self._clock()) <= 0:
                    del self._due[log_due]
                    return log_due, []
                else:
                    self._changed.wait(rest)

    def _next_waiting(self) -> Syncable | None:
        in_flight = self._in_flight or ()
        return next((log for log in self._waiting if log not in in_flight), None)

    def _note(self, log: Syncable, error: StorageError | None) -> None:
        """Try a log that failed again after a sync, under INTERVAL, unless it is closed or all ends."""
        self._failed.pop(log, None)
        if error is None or isinstance(error.__cause__, LogClosed):
            return
        if self._report is not None:
            self._finished.append(partial(self._report, error))
        self._failed[log] = error
        if not self._stopping:
            self._due.setdefault(log, self._clock() + self._interval)

    def _tell_soon(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        """Have the callbacks called in the loop's next round.

        `schedule`: the function of the loop for this, by the thread that calls.
        """
        if self._telling:
            return
        try:
            schedule(self._tell)
        except RuntimeError:  # the loop is closed: `stop` tells
            return
        self._telling = True

    def _tell(self) -> None:
        """Call the callbacks of syncs that have ended, on the owner's thread."""
        with self._lock:
            self._telling = False
            finished, self._finished = self._finished, deque()
        while finished:
            tell = finished.popleft()
            try:
                tell()
            except BaseException:  # the loop reports it; the others are told all the same
                with self._lock:
                    self._finished.extendleft(reversed(finished))
                    self._tell_soon(self._wake)
                raise


def _sync(log: Syncable) -> StorageError | None:
    """Sync a log, and return the error for those who wait, if there is one."""
    try:
        log.sync()
    except StorageError as error:
        return error
    except LogError as error:
        return _caused(f"not synced: {error}", error)
    except Exception as error:  # noqa: BLE001 - a mistake in a log must not leave publishers waiting for ever
        return _caused(f"sync failed: {error!r}", error)
    return None


def _caused(text: str, cause: Exception) -> StorageError:
    error = StorageError(text)
    error.__cause__ = cause
    return error
