"""The committer of a shard: who is told when, and with what."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from harness.virtual_loop import VirtualLoop, run
from headrace.bucket.changes import Create
from headrace.bucket.committer import PROOF_S, PROVEN_S, BucketCommitter
from headrace.bucket.journal import Journal
from headrace.errors import LogClosed
from headrace.log.memory import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.errors import StorageError
    from headrace.log.port import Done


class Bench:
    """A committer, and what those who waited were told, in order."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.committer = BucketCommitter(self.journal)
        self.log = MemoryLog()
        self.told: list[tuple[object, str | None]] = []

    def ask(self, name: object) -> None:
        self.committer.request(self.log, self.telling(name))

    def telling(self, name: object) -> Done:
        def done(error: StorageError | None) -> None:
            self.told.append((name, None if error is None else str(error)))

        return done

    def record(self) -> None:
        self.journal.record(Create("f"))


def benched(main: Callable[[Bench], object]) -> None:
    """Run a test on a loop in virtual time."""

    async def body() -> None:
        outcome = main(Bench())
        if asyncio.iscoroutine(outcome):
            await outcome

    run(body())


def test_who_waits_is_told_when_the_bucket_has_it() -> None:
    async def main(bench: Bench) -> None:
        bench.record()
        bench.ask(1)
        bench.ask(2)
        bench.record()
        bench.ask(3)
        await asyncio.sleep(0)
        bench.committer.reached(1)
        assert bench.told == [(1, None), (2, None)]
        bench.committer.reached(2)
        assert bench.told == [(1, None), (2, None), (3, None)]

    benched(main)


def test_in_a_turn_who_waits_is_told_at_its_end_in_order() -> None:
    async def main(bench: Bench) -> None:
        bench.record()
        bench.ask("before")
        bench.committer.begin_turn()
        bench.committer.reached(1)
        bench.ask("in it")
        assert bench.told == []
        bench.committer.end_turn(is_last=True)
        assert bench.told == [("before", None), ("in it", None)]

    benched(main)


def test_what_is_durable_already_is_told_at_the_end_of_the_turn() -> None:
    async def main(bench: Bench) -> None:
        bench.record()
        bench.committer.reached(1)
        bench.committer.begin_turn()
        bench.ask("in a turn")
        assert bench.told == []
        bench.committer.end_turn(is_last=False)
        assert bench.told == [("in a turn", None)]
        bench.ask("outside")
        await asyncio.sleep(0)
        assert bench.told[1:] == [("outside", None)]

    benched(main)


def test_who_waits_too_long_is_told_and_the_bucket_may_have_it_later() -> None:
    async def main(bench: Bench) -> None:
        bench.record()
        bench.ask("early")
        await asyncio.sleep(2)
        bench.record()
        bench.ask("late")
        await asyncio.sleep(1.9)
        assert bench.told == []
        await asyncio.sleep(0.2)
        assert bench.told == [("early", "the bucket has not confirmed this within 4 s")]
        bench.committer.reached(2)
        await asyncio.sleep(10)
        assert bench.told[1:] == [("late", None)]

    benched(main)


def test_who_waits_is_told_while_the_owner_may_still_speak() -> None:
    """An error that is said when the last proof is too old would be held back until the bucket answers."""

    async def main(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        proofs = [loop.time()]
        bench.committer = BucketCommitter(bench.journal, proved_at=lambda: proofs[-1])
        bench.record()
        bench.ask("while the bucket answers")
        await asyncio.sleep(1)
        proofs.append(loop.time())
        await asyncio.sleep(1)
        assert bench.told == [], "it was proven meanwhile"
        bench.ask("as it went")
        await asyncio.sleep(PROOF_S - 1 - 0.1)
        late = "the bucket does not answer, and has not confirmed this"
        assert bench.told == [("while the bucket answers", late), ("as it went", late)]
        proofs.append(loop.time())
        bench.ask("when it was back")
        bench.committer.reached(1)
        await asyncio.sleep(10)
        assert bench.told[2:] == [("when it was back", None)]

    assert PROVEN_S < PROOF_S
    benched(main)


def test_after_a_loss_nobody_is_told_yes() -> None:
    async def main(bench: Bench) -> None:
        bench.record()
        bench.ask(1)
        bench.committer.fail("another server owns the shard")
        bench.record()
        bench.ask(2)
        bench.committer.reached(2)
        await asyncio.sleep(10)
        assert bench.told == [(n, "another server owns the shard") for n in (1, 2)]

    benched(main)


def test_a_stop_tells_all_at_once() -> None:
    def main(bench: Bench) -> None:
        bench.record()
        bench.ask(1)
        bench.committer.reached(1)
        bench.record()
        bench.ask(2)
        bench.committer.stop()
        assert bench.told == [
            (1, None),
            (2, "the server ends, and the bucket has not confirmed this yet"),
        ]
        bench.committer.stop()
        with pytest.raises(LogClosed):
            bench.ask(3)
        assert len(bench.told) == 2

    benched(main)


def test_what_is_told_may_ask_again() -> None:
    async def main(bench: Bench) -> None:
        bench.record()

        def again(error: StorageError | None) -> None:
            assert error is None
            bench.record()
            bench.ask("again")

        bench.committer.request(bench.log, again)
        bench.committer.reached(1)
        await asyncio.sleep(0)
        assert bench.told == []
        bench.committer.reached(2)
        await asyncio.sleep(0)
        assert bench.told == [("again", None)]

    benched(main)


def test_a_mistake_of_one_does_not_keep_the_others_waiting() -> None:
    async def main(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        bench.record()
        failure = RuntimeError("a mistake")

        def fail(_: StorageError | None) -> None:
            raise failure

        bench.committer.request(bench.log, fail)
        bench.ask("other")
        bench.committer.reached(1)
        await asyncio.sleep(1)
        assert [mistake["exception"] for mistake in loop.mistakes] == [failure]
        loop.mistakes.clear()
        assert bench.told == [("other", None)]

    benched(main)
