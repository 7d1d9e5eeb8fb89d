"""Who is told what, on which thread, and what a sync covers."""

from __future__ import annotations

import asyncio
import queue
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from headrace.errors import LogClosed, StorageError
from headrace.log.committer import FEW_BYTES, PROOF, QUICK_S, Committer, InlineCommitter, ThreadCommitter
from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage, SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT_S: Final = 20
"""Seconds for what happens at once on another thread; a test that gets there fails."""


class Loop:
    """An owner's thread, run by hand."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.closed = False

    def call_soon_threadsafe(self, function: Callable[[], None]) -> None:
        if self.closed:
            raise RuntimeError("the loop is closed")
        self.calls.put(function)

    def run_one(self) -> None:
        self.calls.get(timeout=WAIT_S)()

    def run_until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self.run_one()


class GatedLog(MemoryLog):
    """Its syncs begin and end when told; each notes how much was written when it began."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.errors: list[Exception | None] = []
        self.covered: list[int] = []
        self.threads: set[threading.Thread] = set()

    def sync(self) -> int:
        self.threads.add(threading.current_thread())
        covered = super().sync()
        self.entered.release()
        assert self.gate.acquire(timeout=WAIT_S)
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.covered.append(covered)
        return covered

    def wait_for_sync(self) -> None:
        assert self.entered.acquire(timeout=WAIT_S)

    def put(self) -> None:
        self.append([NewMessage(b"a", b"x")])


class OpenLog(GatedLog):
    """Its syncs end at once."""

    def __init__(self, *errors: Exception | None) -> None:
        super().__init__()
        self.gate = threading.Semaphore(1000)
        self.errors = list(errors)


class Told:
    """Notes what it is told, and by which thread."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, StorageError | None]] = []

    def __call__(self, name: str) -> Callable[[StorageError | None], None]:
        return lambda error: self._note(name, error)

    def _note(self, name: str, error: StorageError | None) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.calls.append((name, error))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    @property
    def failed(self) -> list[str]:
        return [name for name, error in self.calls if error is not None]


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def committers() -> Iterator[list[Committer]]:
    made: list[Committer] = []
    yield made
    for committer in made:
        committer.stop()


@pytest.fixture
def group(loop: Loop, committers: list[Committer]) -> ThreadCommitter:
    committer = ThreadCommitter(loop.call_soon_threadsafe, SyncPolicy.GROUP)
    committers.append(committer)
    return committer


class TestGroup:
    def test_nobody_is_told_before_the_sync_is_done(
        self, group: ThreadCommitter, loop: Loop, told: Told
    ) -> None:
        log = GatedLog()
        log.put()
        group.request(log, told("a"))
        log.wait_for_sync()

        assert loop.calls.empty()
        assert told.calls == []
        log.gate.release()
        loop.run_one()
        assert told.calls == [("a", None)]

    def test_requests_during_a_sync_wait_for_the_next(
        self, group: ThreadCommitter, loop: Loop, told: Told
    ) -> None:
        log = GatedLog()
        log.put()
        group.request(log, told("first"))
        log.wait_for_sync()
        log.put()
        group.request(log, told("second"))
        log.put()
        group.request(log, told("third"))

        log.gate.release()
        loop.run_one()
        assert told.names == ["first"]
        log.wait_for_sync()
        log.gate.release()
        loop.run_until(lambda: len(told.calls) == 3)

        assert told.names == ["first", "second", "third"]
        assert log.covered == [1, 3]

    def test_an_error_goes_to_those_whose_sync_it_was(
        self, group: ThreadCommitter, loop: Loop, told: Told
    ) -> None:
        log, other = GatedLog(), OpenLog()
        failure = StorageError("no space left")
        log.errors = [failure, None]
        group.request(log, told("failed 1"))
        log.wait_for_sync()
        group.request(other, told("other"))
        group.request(log, told("later"))
        log.gate.release(2)
        loop.run_until(lambda: len(told.calls) == 3)

        assert dict(told.calls) == {"failed 1": failure, "other": None, "later": None}

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (LogClosed("the log is closed"), "not synced: the log is closed"),
            (ZeroDivisionError("a mistake"), r"sync failed: ZeroDivisionError\('a mistake'\)"),
        ],
    )
    def test_any_other_error_is_a_storage_error_and_the_worker_goes_on(
        self, group: ThreadCommitter, loop: Loop, told: Told, error: Exception, text: str
    ) -> None:
        log = OpenLog(error)
        group.request(log, told("failed"))
        loop.run_until(lambda: bool(told.calls))
        group.request(log, told("next"))
        loop.run_until(lambda: len(told.calls) == 2)

        assert told.failed == ["failed"]
        failure = told.calls[0][1]
        assert failure is not None
        assert failure.__cause__ is error
        with pytest.raises(StorageError, match=text):
            raise failure

    def test_logs_take_turns_and_one_sync_serves_all_who_wait(
        self, group: ThreadCommitter, loop: Loop, told: Told
    ) -> None:
        first, second = GatedLog(), GatedLog()
        group.request(first, told("a"))
        first.wait_for_sync()
        for n in range(100):
            second.put()
            group.request(second, told(f"b{n}"))
        group.request(first, told("c"))
        first.gate.release()
        second.wait_for_sync()
        second.put()
        group.request(second, told("d"))
        second.gate.release(2)
        first.gate.release()
        loop.run_until(lambda: len(told.calls) == 103)

        assert told.names == ["a", *[f"b{n}" for n in range(100)], "c", "d"]
        assert second.covered == [100, 101]

    def test_all_syncs_are_on_one_other_thread(self, group: ThreadCommitter, loop: Loop, told: Told) -> None:
        logs = [OpenLog() for _ in range(5)]
        for log in logs * 3:
            group.request(log, told("x"))
        loop.run_until(lambda: len(told.calls) == 15)

        threads = set().union(*(log.threads for log in logs))
        assert len(threads) == 1
        assert threading.main_thread() not in threads

    def test_a_request_from_within_done(self, group: ThreadCommitter, loop: Loop, told: Told) -> None:
        log = OpenLog()

        def again(error: StorageError | None) -> None:
            told("first")(error)
            group.request(log, told("second"))

        group.request(log, again)
        loop.run_until(lambda: len(told.calls) == 2)
        assert told.names == ["first", "second"]

    def test_a_done_that_raises_does_not_silence_the_others(
        self, group: ThreadCommitter, loop: Loop, told: Told
    ) -> None:
        log = GatedLog()

        def wrong(error: StorageError | None) -> None:
            raise KeyError("a mistake of the owner's")

        group.request(log, told("before"))
        log.wait_for_sync()
        for done in (told("a"), wrong, told("b"), wrong, told("c")):
            group.request(log, done)
        log.gate.release(2)
        raised = 0
        while "c" not in told.names:
            try:
                loop.run_one()
            except KeyError:
                raised += 1

        assert told.names == ["before", "a", "b", "c"]
        assert raised == 2


class TestInterval:
    def make(
        self, loop: Loop, committers: list[Committer], interval_s: float, **rest: object
    ) -> ThreadCommitter:
        committer = ThreadCommitter(loop.call_soon_threadsafe, SyncPolicy.INTERVAL, interval_s, **rest)  # type: ignore[arg-type]
        committers.append(committer)
        return committer

    def test_everybody_is_told_at_once(self, loop: Loop, told: Told, committers: list[Committer]) -> None:
        committer = self.make(loop, committers, 3600)
        log = OpenLog()
        committer.request(log, told("a"))
        committer.request(log, told("b"))

        assert told.calls == []
        loop.run_one()
        assert told.calls == [("a", None), ("b", None)]
        assert log.covered == []

    def test_a_changed_log_is_synced_in_time(
        self, loop: Loop, told: Told, committers: list[Committer]
    ) -> None:
        now = [100.0]
        committer = self.make(loop, committers, 0.001, clock=lambda: now[0])
        late, soon = GatedLog(), GatedLog()
        now[0] = 200.0
        committer.request(late, told("late"))
        now[0] = 100.0
        committer.request(soon, told("soon"))
        now[0] = 100.002

        soon.wait_for_sync()
        soon.put()
        committer.request(soon, told("again"))
        soon.gate.release(2)
        now[0] = 100.01
        soon.wait_for_sync()
        assert not late.entered.acquire(blocking=False)
        late.gate.release()
        committer.stop()

        assert soon.covered == [0, 1]
        assert late.covered == [0]

    def test_only_the_first_change_of_a_log_wakes_the_worker(
        self, loop: Loop, told: Told, committers: list[Committer]
    ) -> None:
        looked = threading.Semaphore(0)

        def clock() -> float:
            if threading.current_thread() is not threading.main_thread():
                looked.release()
            return 100.0

        committer = self.make(loop, committers, 3600, clock=clock)
        log = OpenLog()
        committer.request(log, told("a"))
        assert looked.acquire(timeout=WAIT_S)
        for _ in range(20):
            committer.request(log, told("a"))
        assert not looked.acquire(timeout=0.05)
        committer.request(OpenLog(), told("a"))
        assert looked.acquire(timeout=WAIT_S)

    def test_a_failed_sync_is_told_to_those_who_come_next(
        self, loop: Loop, told: Told, committers: list[Committer]
    ) -> None:
        failure, reports = StorageError("no space left"), list[StorageError]()
        committer = self.make(loop, committers, 0.001, report=reports.append)
        log = GatedLog()
        log.errors = [failure, failure, None]
        committer.request(log, told("1"))
        log.gate.release()
        loop.run_until(lambda: bool(reports))
        committer.request(log, told("2"))
        log.gate.release()
        loop.run_until(lambda: len(reports) == 2)
        log.gate.release()
        log.wait_for_sync()
        log.wait_for_sync()
        log.wait_for_sync()
        committer.stop()

        assert reports == [failure, failure]
        assert told.calls == [("1", None), ("2", failure)]

    def test_all_is_well_again_after_a_sync(
        self, loop: Loop, told: Told, committers: list[Committer]
    ) -> None:
        reports: list[StorageError] = []
        committer = self.make(loop, committers, 0.001, report=reports.append)
        log = OpenLog(StorageError("once"))
        committer.request(log, told("1"))
        loop.run_until(lambda: bool(reports))
        other = OpenLog()
        while not log.covered:  # tried again by itself
            committer.request(other, told("other"))
            loop.run_one()
        committer.stop()

        assert len(reports) == 1
        assert told.failed == []

    def test_a_closed_log_is_let_go(self, loop: Loop, told: Told, committers: list[Committer]) -> None:
        reports: list[StorageError] = []
        committer = self.make(loop, committers, 3600, report=reports.append)
        log = MemoryLog()
        committer.request(log, told("a"))
        log.close()
        committer.stop()

        assert reports == []
        assert told.calls == [("a", None)]

    def test_stop_syncs_what_is_due_later_and_reports_failure(
        self, loop: Loop, told: Told, committers: list[Committer]
    ) -> None:
        failure, reports = StorageError("at the end"), list[StorageError]()
        committer = self.make(loop, committers, 3600, report=reports.append)
        well, ill = OpenLog(), OpenLog(failure)
        committer.request(well, told("a"))
        committer.request(ill, told("b"))
        committer.stop()

        assert well.covered == [0]
        assert reports == [failure]


class TestNever:
    def test_everybody_is_told_soon_and_nothing_is_synced(self, loop: Loop, told: Told) -> None:
        committer = ThreadCommitter(loop.call_soon_threadsafe, SyncPolicy.NEVER)
        log = OpenLog()
        committer.request(log, told("a"))

        assert told.calls == []
        loop.run_one()
        committer.stop()
        assert told.calls == [("a", None)]
        assert log.covered == []


class TestStop:
    @pytest.mark.parametrize("closed", [False, True])
    def test_all_who_wait_are_synced_and_told(
        self, group: ThreadCommitter, loop: Loop, told: Told, closed: bool
    ) -> None:
        """Also when the loop that should tell them is closed."""
        log, other = GatedLog(), OpenLog()
        group.request(log, told("a"))
        log.wait_for_sync()
        group.request(other, told("b"))
        group.request(log, told("c"))
        loop.closed = closed
        log.gate.release(2)

        group.stop()

        assert told.names == ["a", "b", "c"]
        assert (len(log.covered), len(other.covered)) == (2, 1)
        while not loop.calls.empty():
            loop.run_one()
        assert told.names == ["a", "b", "c"]

    def test_nothing_is_taken_afterwards(self, group: ThreadCommitter, told: Told) -> None:
        group.stop()
        group.stop()

        with pytest.raises(LogClosed):
            group.request(MemoryLog(), told("late"))

    def test_the_worker_is_gone(self, group: ThreadCommitter, loop: Loop, told: Told) -> None:
        log = OpenLog()
        group.request(log, told("a"))
        group.stop()

        (worker,) = log.threads
        assert not worker.is_alive()


class TestInline:
    def test_told_before_request_returns(self, told: Told) -> None:
        failure = StorageError("no space left")
        committer: Committer = InlineCommitter()
        log = OpenLog(failure)
        committer.request(log, told("a"))
        committer.request(log, told("b"))
        committer.stop()

        assert told.calls == [("a", failure), ("b", None)]


def test_with_a_real_loop() -> None:
    async def publish(count: int) -> list[StorageError | None]:
        loop = asyncio.get_running_loop()
        committer = ThreadCommitter(loop.call_soon_threadsafe)
        log = OpenLog()
        answers = []
        for _ in range(count):
            log.put()
            answer: asyncio.Future[StorageError | None] = loop.create_future()
            committer.request(log, partial(asyncio.Future.set_result, answer))
            answers.append(answer)
            if len(answers) % 100 == 0:
                await asyncio.sleep(0)
        results = await asyncio.gather(*answers)
        committer.stop()
        assert log.covered[-1] == count
        return results

    assert asyncio.run(publish(2000)) == [None] * 2000


class HandLoop(Loop):
    """One whose `call_soon` is run by hand too: at the end of a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, function: Callable[[], None]) -> None:
        self.soon.append(function)

    def end_turn(self) -> None:
        due, self.soon = self.soon, []
        for function in due:
            function()


class SlowLog(OpenLog):
    """Its syncs take so long by the committer's clock."""

    def __init__(self, *seconds: float) -> None:
        super().__init__()
        self.seconds = list(seconds)
        self.now = 0.0
        self.bytes = 0

    @property
    def unsynced(self) -> int:
        return self.bytes

    def sync(self) -> int:
        self.now += self.seconds.pop(0) if self.seconds else 0.0
        return super().sync()


class TestOwnersThread:
    """Where a lone, small and quick sync is done without the worker."""

    @pytest.fixture
    def loop(self) -> HandLoop:
        return HandLoop()

    @pytest.fixture
    def log(self) -> SlowLog:
        return SlowLog()

    @pytest.fixture
    def group(self, loop: HandLoop, log: SlowLog, committers: list[Committer]) -> ThreadCommitter:
        committer = ThreadCommitter(
            loop.call_soon_threadsafe, call_soon=loop.call_soon, clock=lambda: log.now
        )
        committers.append(committer)
        return committer

    @staticmethod
    def by_worker(group: ThreadCommitter, log: SlowLog, loop: HandLoop, times: int) -> None:
        """So many syncs, of which the worker did every one."""
        for _ in range(times):
            log.threads.clear()
            told: list[object] = []
            group.request(log, told.append)
            loop.run_one()
            assert told == [None]
            assert threading.current_thread() not in log.threads
            assert not loop.soon

    @staticmethod
    def by_owner(group: ThreadCommitter, log: SlowLog, loop: HandLoop, error: bool = False) -> None:
        log.threads.clear()
        told: list[object] = []
        group.request(log, told.append)
        assert not told
        assert not log.threads
        loop.end_turn()
        assert [answer is not None for answer in told] == [error]
        assert log.threads == {threading.current_thread()}

    def test_after_quick_ones_by_the_worker(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        for _ in range(5):
            self.by_owner(group, log, loop)

    def test_a_slow_one_asks_for_as_much_proof_as_it_was_slow(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        log.seconds = [10 * QUICK_S]
        self.by_owner(group, log, loop)
        self.by_worker(group, log, loop, 10 * PROOF)
        self.by_owner(group, log, loop)

    def test_one_that_stays_slow_is_never_the_owners(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop
    ) -> None:
        log.seconds = [1.5 * QUICK_S] * 100
        self.by_worker(group, log, loop, 100)

    def test_requests_of_one_turn_share_it(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop, told: Told
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        count = len(log.covered)
        for name in "abc":
            log.put()
            group.request(log, told(name))
        loop.end_turn()

        assert told.names == ["a", "b", "c"]
        assert len(log.covered) == count + 1
        assert log.covered[-1] == log.written

    def test_where_the_owner_says_when_a_turn_ends_it_is_done_then(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop, told: Told
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        log.threads.clear()
        group.begin_turn()
        for name in "abc":
            log.put()
            group.request(log, told(name))
        assert not loop.soon
        assert not told.names
        group.end_turn(is_last=True)

        assert told.names == ["a", "b", "c"]
        assert log.threads == {threading.current_thread()}
        assert not loop.soon
        group.end_turn(is_last=True)  # finds nothing to do
        self.by_owner(group, log, loop)

    def test_who_is_not_the_last_leaves_it_to_the_loop(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop, told: Told
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        group.begin_turn()
        group.request(log, told("a"))
        group.end_turn(is_last=False)
        assert not told.names
        loop.end_turn()

        assert told.names == ["a"]

    def test_what_is_asked_for_by_whom_is_told_waits_for_the_loop(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop, told: Told
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        group.begin_turn()
        group.request(log, lambda _error: group.request(log, told("next")))
        group.end_turn(is_last=True)
        assert not told.names
        loop.end_turn()

        assert told.names == ["next"]

    def test_several_logs_are_for_the_worker(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop, told: Told
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        others = [log, OpenLog(), OpenLog()]
        log.threads.clear()
        for name, other in zip("abc", others, strict=True):
            group.request(other, told(name))
        loop.end_turn()
        loop.run_until(lambda: len(told.calls) == 3)

        assert told.names == ["a", "b", "c"]
        assert not any(threading.current_thread() in other.threads for other in others)

    def test_a_large_one_is_for_the_worker(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop, told: Told
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        log.bytes = FEW_BYTES + 1
        self.by_worker(group, log, loop, 1)
        log.bytes = 0
        log.threads.clear()
        group.request(log, told("grows"))
        log.bytes = FEW_BYTES + 1
        loop.end_turn()
        loop.run_until(lambda: told.names == ["grows"])
        assert threading.current_thread() not in log.threads

    def test_not_while_the_worker_is_at_it(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop, told: Told
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        slow = GatedLog()
        slow.errors = []
        log.bytes = FEW_BYTES + 1
        group.request(slow, told("worker"))
        group.request(log, told("next"))  # two of them: the worker begins
        loop.end_turn()
        slow.wait_for_sync()
        log.bytes = 0
        group.request(log, told("last"))

        assert not loop.soon
        slow.gate.release()
        loop.run_until(lambda: told.names == ["worker", "next", "last"])

    def test_a_failure_is_told(self, group: ThreadCommitter, log: SlowLog, loop: HandLoop) -> None:
        self.by_worker(group, log, loop, PROOF)
        log.errors = [StorageError("disk")]
        self.by_owner(group, log, loop, error=True)

    def test_a_stop_before_the_end_of_the_turn_tells(
        self, group: ThreadCommitter, log: SlowLog, loop: HandLoop, told: Told
    ) -> None:
        self.by_worker(group, log, loop, PROOF)
        group.request(log, told("a"))
        group.stop()
        assert told.calls == [("a", None)]
        loop.end_turn()  # finds nothing to do

    @pytest.mark.parametrize("policy", [SyncPolicy.INTERVAL, SyncPolicy.NEVER])
    def test_other_policies_never_sync_there(self, policy: SyncPolicy, loop: HandLoop, told: Told) -> None:
        committer = ThreadCommitter(loop.call_soon_threadsafe, policy, 3600, call_soon=loop.call_soon)
        logs = [OpenLog() for _ in range(2 * PROOF)]
        for log in logs:
            committer.request(log, told("a"))
        loop.end_turn()

        assert told.names == ["a"] * len(logs)
        assert all(not log.covered for log in logs)
        committer.stop()


@pytest.mark.parametrize("policy", [SyncPolicy.INTERVAL, SyncPolicy.NEVER])
class TestTurnsWithoutSyncs:
    """Where nobody waits for a disk, who asks in a turn is told in it, without a round of the loop."""

    @pytest.fixture
    def loop(self) -> HandLoop:
        return HandLoop()

    @pytest.fixture
    def committer(self, policy: SyncPolicy, loop: HandLoop, committers: list[Committer]) -> ThreadCommitter:
        committer = ThreadCommitter(loop.call_soon_threadsafe, policy, 3600, call_soon=loop.call_soon)
        committers.append(committer)
        return committer

    @pytest.mark.parametrize("is_last", [False, True])
    def test_whoever_asks_is_told_at_the_end_of_the_turn(
        self, committer: ThreadCommitter, loop: HandLoop, told: Told, is_last: bool
    ) -> None:
        committer.begin_turn()
        for name in "abc":
            committer.request(OpenLog(), told(name))
        assert told.calls == []
        committer.end_turn(is_last=is_last)

        assert told.names == ["a", "b", "c"]
        assert not loop.soon
        assert loop.calls.empty()

    def test_outside_of_turns_the_loop_tells_and_no_other_thread_wakes_it(
        self, committer: ThreadCommitter, loop: HandLoop, told: Told
    ) -> None:
        committer.request(OpenLog(), told("a"))
        committer.request(OpenLog(), told("b"))
        assert told.calls == []
        assert loop.calls.empty()
        loop.end_turn()

        assert told.names == ["a", "b"]

    def test_what_is_asked_for_by_whom_is_told_waits_for_the_loop(
        self, committer: ThreadCommitter, loop: HandLoop, told: Told
    ) -> None:
        log = OpenLog()
        committer.begin_turn()
        committer.request(log, lambda _error: committer.request(log, told("next")))
        committer.end_turn(is_last=True)
        assert told.calls == []
        loop.end_turn()

        assert told.names == ["next"]
