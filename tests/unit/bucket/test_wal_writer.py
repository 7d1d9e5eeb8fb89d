"""The owner's writer: order, budget, failures, and the end of ownership."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from bucket_makers import KEYS, Bucket, Reader, commit, fence, log_until, wall_ns, writer_of

from harness.memory_objects import (
    ANSWER_LOST,
    FAILS,
    HANGS,
    HANGS_AFTERWARDS,
    PROMPT,
    Answer,
    Fate,
    Request,
)
from harness.virtual_loop import VirtualLoop, run
from headrace.bucket import writer as writer_module
from headrace.bucket.budget import LONGEST_DISTANCE_S, PAYBACK
from headrace.bucket.claim import MOST_IN_FLIGHT, Claim, claim
from headrace.bucket.errors import BucketError, DamagedObject, Overtaken
from headrace.bucket.follower import Point
from headrace.bucket.wal_object import Kind, WalObject
from headrace.bucket.writer import LONGEST_PAUSE_S, PROVE_EVERY_S, WalWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Taken(NamedTuple):
    parts: list[bytes]
    position: int
    is_last: bool


class Source:
    """Texts that wait to be committed; positions count them."""

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.position = 0
        self.most = 10**9
        """Texts in one object."""
        self.looks = 0
        """Calls of `take`."""
        self.watched = 10**9

    @property
    def pending_bytes(self) -> int:
        return sum(map(len, self.waiting))

    def watch(self, size: int) -> None:
        self.watched = size

    def take(self, most_bytes: int) -> Taken | None:
        assert most_bytes > 0
        self.looks += 1
        count = min(len(self.waiting), self.most)
        if not count:
            return None
        self.position += count
        taken = [self.waiting.popleft() for _ in range(count)]
        return Taken(taken, self.position, not self.waiting)


class Owner:
    """A writer with all that it tells. The log has the numbers up to `last` already."""

    def __init__(self, bucket: Bucket, last: int = 16, **options: Any) -> None:
        self.bucket = bucket
        self.source = Source()
        self.commits: list[tuple[int, int]] = []
        self.times: list[float] = []
        self.has_committed = asyncio.Event()
        self.when_committed: Callable[[], object] = lambda: None
        self.lost: list[BucketError] = []
        self.trouble: list[str | None] = []
        self.loop = asyncio.get_running_loop()
        made = Claim(1, writer_of(1), last + 1, 1, self.loop.time())
        options = {"wall_ns": wall_ns, "jitter": Random(1).random, **options}
        self.writer = WalWriter(
            bucket,
            KEYS,
            made,
            self.source,
            committed=self._committed,
            lost=self.lost.append,
            trouble=self.trouble.append,
            **options,
        )
        self.writer.start()

    def _committed(self, position: int, number: int) -> None:
        assert not self.lost, "nothing is told behind the end"
        assert self.bucket.at(number) is not None
        self.commits.append((position, number))
        self.times.append(self.loop.time())
        self.has_committed.set()
        self.when_committed()

    def record(self, *texts: bytes) -> None:
        if not self.source.waiting:
            self.writer.kick()
        self.source.waiting.extend(texts)
        if self.source.pending_bytes >= self.source.watched:
            self.source.watched = 10**9
            self.writer.look()

    async def record_each_ms(self, count: int) -> None:
        for number in range(count):
            self.record(f"<{number}>".encode())
            await asyncio.sleep(0.001)

    def texts(self) -> bytes:
        """Everything that a reader of the bucket gets."""
        reader = Reader(self.bucket, Point(16, 1, writer_of(1)))
        return b"".join(self.bucket_objects(reader))

    def bucket_objects(self, reader: Reader) -> list[bytes]:
        number = reader.point.number + 1
        found = []
        while (one := self.bucket.at(number)) is not None:
            found.append(one.payload)
            number += 1
        return found


def slow(_request: Request) -> Fate:
    return Fate(0.01, 0.01)


def of_puts(fate: Fate) -> Callable[[Request], Fate]:
    return lambda request: fate if request.operation == "create" else PROMPT


def test_what_is_recorded_in_one_turn_is_one_object() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow))
        owner.record(b"a")
        owner.record(b"b", b"c")
        await owner.writer.drain()
        assert owner.commits == [(3, 17)]
        assert owner.bucket.at(17) == WalObject("js", 1, writer_of(1), 17, Kind.COMMIT, wall_ns(), b"abc")
        assert owner.times == [0.02]

    run(main())


def test_owner_looks_once_for_what_one_put_takes() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow))
        await asyncio.sleep(0.1)
        before = owner.source.looks
        owner.record(b"a")
        await asyncio.sleep(1)
        assert owner.commits == [(1, 17)]
        assert owner.source.looks == before + 1
        owner.source.most = 1
        owner.record(b"b", b"c")  # two objects, and nobody tells of the second
        await asyncio.sleep(1)
        assert owner.commits[1:] == [(2, 18), (3, 19)]
        assert owner.source.looks == before + 3
        owner.writer.stop()

    run(main())


def test_puts_are_under_way_together_and_then_groups_grow() -> None:
    """One text a millisecond, and a put takes 20: four go at once, then each end begins the next."""

    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow))
        await owner.record_each_ms(100)
        assert owner.writer.in_flight == 4
        await owner.writer.drain()
        assert owner.texts() == b"".join(b"<%d>" % number for number in range(100))
        assert owner.bucket.count("create") < 24
        assert [number for _, number in owner.commits] == list(range(17, owner.writer.next_number))
        assert owner.commits[-1][0] == 100

    run(main())


@pytest.mark.parametrize("in_flight", [1, 2, 4, 16])
@pytest.mark.parametrize("seed", range(10))
def test_commits_are_told_in_order_whatever_arrives_first(in_flight: int, seed: int) -> None:
    chance = Random(seed)

    def fate(request: Request) -> Fate:
        if request.operation == "create":
            (owner,) = owners
            under_way = owner.writer.next_number - 1 - owner.writer.durable
            assert under_way <= MOST_IN_FLIGHT
            assert owner.writer.in_flight <= in_flight
        return Fate(chance.random() * 0.05, chance.random() * 0.05)

    async def main() -> None:
        owner = Owner(Bucket(log_until(16), fate), puts_in_flight=in_flight, puts_per_second=1e6)
        owners.append(owner)
        await owner.record_each_ms(300)
        await owner.writer.drain()
        assert owner.texts() == b"".join(b"<%d>" % number for number in range(300))
        assert owner.commits == sorted(owner.commits)
        assert [number for _, number in owner.commits] == list(range(17, owner.writer.next_number))
        assert owner.writer.durable == owner.writer.next_number - 1

    owners: list[Owner] = []
    run(main())


def test_puts_are_spread_over_the_time_that_one_takes() -> None:
    """A burst comes in pieces: its first ones do not begin four puts that all others wait for."""

    async def main() -> None:
        begun: list[float] = []

        def fate(request: Request) -> Fate:
            if request.operation == "create":
                begun.append(owner.loop.time())
            return Fate(0.01, 0.01)

        owner = Owner(Bucket(log_until(16)), puts_per_second=1e6)
        owner.bucket.fate = fate
        for _ in range(100):  # one at a time: its time becomes known, and it never waits
            owner.record(b"x")
            since = owner.loop.time()
            await owner.writer.drain()
            assert owner.loop.time() - since == pytest.approx(0.02)
        begun.clear()
        since = owner.loop.time()
        await owner.record_each_ms(20)
        assert len(begun) == 4
        assert begun[0] == since
        assert all(later - before == pytest.approx(0.005, abs=2e-4) for before, later in pairwise(begun))
        await owner.writer.drain()

    run(main())


BURST = [bytes(4000)] * 32
"""What a publisher sends again when it is confirmed."""


async def publish_in_turns(owner: Owner, turns: int, *, pieces: int) -> None:
    """Let a publisher send BURST again each time that it is confirmed, a quarter each millisecond; so many
    pieces of four, 0: all at once."""
    for _ in range(turns):
        if not pieces:
            owner.record(*BURST)
        for piece in range(pieces):
            owner.record(*BURST[piece * 8 : piece * 8 + 8])
            await asyncio.sleep(0.001)
        await owner.writer.drain()


def test_what_is_sent_again_as_a_burst_is_one_put() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow), puts_in_flight=1, puts_per_second=1e6)
        await publish_in_turns(owner, 10, pieces=0)
        before, since = owner.writer.puts, owner.loop.time()
        await publish_in_turns(owner, 20, pieces=4)
        assert owner.writer.puts - before == 20
        assert owner.loop.time() - since == pytest.approx(20 * 0.023, abs=0.01), "no longer than it must"

    run(main())


def test_the_rest_of_a_burst_that_does_not_come_is_waited_for_a_little() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow), puts_in_flight=1, puts_per_second=1e6)
        await publish_in_turns(owner, 10, pieces=0)
        for pieces, wait in ((2, 0.005), (1, 0.005), (1, 0.0)):
            since = owner.loop.time()
            await publish_in_turns(owner, 1, pieces=pieces)
            assert owner.loop.time() - since == pytest.approx(wait + 0.02, abs=0.002)

    run(main())


def test_a_put_that_took_very_long_holds_the_next_ones_up_for_little() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16)), puts_per_second=1e6)
        owner.bucket.fate = of_puts(Fate(30.0, 30.0))
        owner.record(b"x")
        await owner.writer.drain()
        owner.record(b"x")
        await asyncio.sleep(0)
        owner.record(b"y")
        await asyncio.sleep(LONGEST_DISTANCE_S + 0.001)
        assert owner.writer.in_flight == 2

    run(main())


def test_numbers_beyond_an_unconfirmed_one_are_bounded() -> None:
    """The first put hangs; the others end, and yet no number beyond what a new owner fills is used."""

    async def main() -> None:
        bucket = Bucket(log_until(16))
        bucket.fate = lambda request: HANGS if request[:2] == ("create", KEYS.wal(17)) else PROMPT
        owner = Owner(bucket, puts_per_second=1e6)
        await owner.record_each_ms(100)
        assert owner.writer.next_number == 17 + MOST_IN_FLIGHT
        assert owner.writer.pending == MOST_IN_FLIGHT
        assert owner.writer.in_flight == 1
        assert owner.commits == []

    run(main())


@pytest.mark.parametrize(("is_late", "least", "tokens"), [(False, 35, 1), (True, 90, 2)])
def test_puts_beside_the_log_are_within_its_budget(*, is_late: bool, least: int, tokens: int) -> None:
    """As many wait as ever may: the log's tokens come a little later each; where they are late, one later."""

    async def main() -> None:
        owner = Owner(Bucket(log_until(16)), puts_per_second=50.0, burst=20)
        beside: list[float] = []

        async def put_on() -> None:
            while True:
                await owner.writer.admit(is_late=is_late)
                beside.append(owner.loop.time())

        began = owner.loop.time()
        putting = [asyncio.create_task(put_on()) for _ in range(4)]
        await owner.record_each_ms(4000)
        taken = owner.loop.time() - began
        for task in putting:
            task.cancel()
        assert owner.writer.puts + len(beside) <= 20 + 50 * taken + 1
        assert len(beside) >= least
        gaps = [later - sooner for sooner, later in pairwise(owner.times)]
        assert max(gaps) <= tokens * (1 + 1 / PAYBACK) / 50 + 0.002
        owner.writer.stop()

    run(main())


def test_puts_beside_a_log_that_wants_no_token_have_all() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16)), puts_per_second=50.0, burst=20)
        await owner.record_each_ms(1000)
        await owner.writer.admit()
        await owner.writer.drain()
        began = owner.loop.time()
        for _ in range(10):
            await owner.writer.admit()
        assert owner.loop.time() - began <= 11 * 1.25 / 50
        owner.writer.stop()

    run(main())


def test_budget_bounds_the_puts_of_a_load_that_goes_on() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16)), puts_per_second=50.0, burst=20)
        await owner.record_each_ms(1000)
        assert owner.writer.waits_for_budget
        assert 65 <= owner.bucket.count("create") <= 71
        await owner.writer.drain()
        assert owner.texts() == b"".join(b"<%d>" % number for number in range(1000))
        assert not owner.writer.waits_for_budget

    run(main())


def test_puts_beside_the_log_have_the_burst_and_end_with_the_writer() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16)), puts_per_second=1.0, burst=3)
        began = owner.loop.time()
        await asyncio.gather(*(owner.writer.admit() for _ in range(3)))
        assert owner.loop.time() == began
        gone, waiting = (asyncio.create_task(owner.writer.admit()) for _ in range(2))
        await asyncio.sleep(0.5)
        gone.cancel()
        await asyncio.sleep(0.6)
        assert waiting.done(), "who has gone takes no token"
        waiting = asyncio.create_task(owner.writer.admit())
        await asyncio.sleep(0.1)
        owner.writer.stop()
        for late in (waiting, owner.writer.admit()):
            with pytest.raises(BucketError, match="stopped"):
                await late

    run(main())


def test_idle_owner_sends_no_puts_and_one_look_a_second() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16)))
        await asyncio.sleep(60.5)
        assert [request.operation for request in owner.bucket.requests] == ["head"] * 60
        assert owner.loop.time() - owner.writer.last_proof <= PROVE_EVERY_S

    run(main())


def test_owner_that_commits_does_not_look() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow))
        for _ in range(50):
            owner.record(b"x")
            await asyncio.sleep(0.1)
        assert owner.bucket.count("head") == 0
        assert owner.loop.time() - owner.writer.last_proof < 0.2

    run(main())


def test_touch_commits_an_empty_object() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow))
        owner.writer.touch()
        await asyncio.sleep(0.5)
        assert owner.bucket.at(17) == commit(17, 1, b"")
        assert owner.commits == [], "nothing of the source is in it"
        assert owner.writer.durable == 17
        owner.record(b"x")
        await asyncio.sleep(0.001)
        owner.writer.touch()  # one is under way
        await owner.writer.drain()
        assert owner.commits == [(1, 18)]
        assert owner.writer.next_number == 19

    run(main())


def test_times_and_counters_are_those_of_commits() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow))
        owner.record(b"x" * 1000)
        await owner.writer.drain()
        writer = owner.writer
        assert (writer.puts, writer.retries) == (1, 0)
        assert writer.bytes == len(owner.bucket.objects[KEYS.wal(17)][0])
        assert writer.times.histogram().total_s == pytest.approx(0.02)
        assert writer.times.histogram().count == 1

    run(main())


def test_changes_that_waited_for_the_budget_are_timed_from_their_first() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16)), puts_per_second=1.0, burst=1)
        owner.record(b"x")
        await asyncio.sleep(0.25)
        owner.record(b"y")
        await owner.writer.drain()
        assert owner.writer.times.histogram().total_s == pytest.approx(0.75)

    run(main())


@pytest.mark.parametrize(("per_second", "waited"), [(2.0, 0.25 + 0.5 * 0.75), (0.5, 0.25 + 2.0 * 0.75)])
def test_put_that_waits_for_the_budget_waits_as_long_as_the_new_one_says(
    per_second: float, waited: float
) -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16)), puts_per_second=1.0, burst=1)
        began = owner.loop.time()
        owner.record(b"x")
        await asyncio.sleep(0.25)
        owner.record(b"y")
        await asyncio.sleep(0)
        assert owner.writer.waits_for_budget
        owner.writer.limit_puts(per_second)
        await owner.writer.drain()
        assert owner.times[-1] - began == pytest.approx(waited)

    run(main())


def test_kick_of_another_thread_reaches_the_loop() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16)))
        await asyncio.sleep(0)
        owner.source.waiting.append(b"x")
        await asyncio.to_thread(owner.writer.kick)
        async with asyncio.timeout(60.0):
            await owner.has_committed.wait()
        owner.writer.stop()

    asyncio.run(main())


# -- milestones ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [994, 998, 999, 1000])
def test_milestone_is_empty_and_waits_for_all_before_it(last: int) -> None:
    def fate(request: Request) -> Fate:
        if request[:2] == ("create", KEYS.wal(1000)):
            assert all(KEYS.wal(number) in bucket.objects for number in range(1, 1000))
        return slow(request)

    async def main() -> None:
        owner = Owner(bucket, last)
        await owner.record_each_ms(200)
        await owner.writer.drain()
        assert bucket.at(1000) == commit(1000, 1, b"")
        assert 1000 not in {number for _, number in owner.commits}
        assert owner.commits[-1][0] == 200
        assert [number for _, number in owner.commits] == [
            number for number in range(last + 1, owner.writer.next_number) if number != 1000
        ]

    bucket = Bucket(log_until(last), fate)
    run(main())


def test_milestone_is_put_though_nothing_is_recorded() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(999)), 999)
        await asyncio.sleep(0.1)
        assert owner.bucket.at(1000) is not None
        assert owner.writer.next_number == 1001

    run(main())


def test_release_is_no_milestone() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(999)), 999, puts_per_second=1.0, burst=1)
        await owner.writer.release()
        assert owner.bucket.at(1000) == commit(1000, 1, b"")
        found = owner.bucket.at(1001)
        assert found is not None
        assert found.kind is Kind.RELEASE

    run(main())


# -- failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", [FAILS, ANSWER_LOST], ids=["failed", "answer lost"])
def test_failed_put_is_sent_again_until_it_works(fate: Fate) -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16), of_puts(fate))
        owner = Owner(bucket)
        owner.record(b"a")
        await asyncio.sleep(0.03)
        owner.record(b"b")
        await asyncio.sleep(10.0 if fate is FAILS else 0.005)
        assert owner.commits == []
        assert len(owner.trouble) == 1
        assert "create of" in str(owner.trouble[0])
        bucket.fate = lambda _request: PROMPT
        await owner.writer.drain()
        assert owner.commits == [(1, 17), (2, 18)]
        assert owner.trouble[1:] == [None]
        assert owner.writer.retries > 0

    run(main())


def test_pauses_between_tries_grow_and_differ() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), of_puts(Fate(0.0, 0.0, False, FAILS.answer))))
        owner.record(b"a")
        await asyncio.sleep(60.0)
        times = [request.at for request in owner.bucket.requests if request.operation == "create"]
        pauses = [later - sooner for sooner, later in pairwise(times)]
        assert 0.02 < pauses[0] < 0.051
        assert all(LONGEST_PAUSE_S / 2 <= pause <= LONGEST_PAUSE_S for pause in pauses[7:])
        assert len(set(pauses[7:])) == len(pauses[7:])

    run(main())


def test_trouble_of_puts_is_not_over_when_the_bucket_can_be_read() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), of_puts(FAILS)))
        owner.record(b"a")
        await asyncio.sleep(30.0)
        assert owner.bucket.count("head") > 20
        assert len(owner.trouble) == 1

    run(main())


def test_idle_owner_tells_of_trouble_and_of_its_end() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16), lambda _request: FAILS)
        owner = Owner(bucket)
        await asyncio.sleep(5.5)
        assert len(owner.trouble) == 1
        assert owner.writer.last_proof == 0.0
        bucket.fate = lambda _request: PROMPT
        await asyncio.sleep(1.0)
        assert owner.trouble[1:] == [None]
        assert owner.writer.last_proof == 6.0

    run(main())


def test_put_whose_answer_never_comes_is_found_by_the_proof() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16), of_puts(HANGS_AFTERWARDS))
        owner = Owner(bucket)
        owner.record(b"a")
        await asyncio.sleep(1.1)
        assert owner.commits == [(1, 17)]
        assert owner.writer.in_flight == 0

    run(main())


@pytest.mark.parametrize("seed", range(60))
def test_every_text_is_committed_once_whatever_fails(seed: int) -> None:
    chance = Random(seed)
    fates = (FAILS, ANSWER_LOST, *[Fate(0.001 * n, 0.001 * n) for n in range(1, 15)])

    async def main() -> None:
        bucket = Bucket(log_until(16), lambda _request: chance.choice(fates))
        owner = Owner(bucket, jitter=chance.random)
        await owner.record_each_ms(200)
        await owner.writer.drain()
        assert owner.texts() == b"".join(b"<%d>" % number for number in range(200))
        assert owner.lost == []
        assert owner.commits == sorted(owner.commits)

    run(main())


# -- the end ------------------------------------------------------------------------------------------


def test_drain_waits_until_the_last_is_committed() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow))
        owner.source.most = 1
        owner.record(*[b"%d" % number for number in range(9)])
        await owner.writer.drain()
        assert owner.commits[-1][0] == 9
        assert owner.writer.pending == 0
        await owner.writer.drain()

    run(main())


def test_release_is_the_last_object() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow))
        owner.source.most = 1
        owner.record(b"a", b"b")
        release = asyncio.gather(owner.writer.release(), owner.writer.release())
        await asyncio.sleep(0.045)
        owner.record(b"too late")
        await release
        await asyncio.sleep(5.0)
        reader = Reader(owner.bucket)
        await reader.catch_up()
        assert reader.is_released
        assert reader.changes[-2:] == [b"a", b"b"]
        assert reader.point.number == 19
        assert owner.lost == []
        with pytest.raises(BucketError, match="released"):
            await owner.writer.drain()

    run(main())


def test_nothing_is_told_after_stop() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), slow))
        owner.record(b"a")
        drained = asyncio.ensure_future(owner.writer.drain())
        await asyncio.sleep(0.015)
        owner.writer.stop()
        owner.writer.stop()
        with pytest.raises(BucketError, match="stopped"):
            await drained
        owner.writer.kick()
        owner.writer.touch()
        await asyncio.sleep(10.0)
        assert (owner.commits, owner.lost, owner.trouble) == ([], [], [])
        assert owner.bucket.at(17) is not None, "it was under way"
        assert owner.bucket.count("head") == 0

    run(main())


def test_listener_may_stop_the_writer() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16))
        bucket.fate = lambda request: Fate(0.05) if request.key == KEYS.wal(17) else Fate()
        owner = Owner(bucket)
        owner.source.most = 1
        owner.when_committed = owner.writer.stop
        owner.record(b"a", b"b", b"c")
        await asyncio.sleep(1.0)
        assert owner.commits == [(1, 17)]

    run(main())


@pytest.mark.parametrize("first_missing", range(17, 22))
def test_owner_that_is_overtaken_tells_what_stands_before_the_fence(first_missing: int) -> None:
    """Four puts are under way; those before the fence arrived, and their answers come."""

    async def main() -> None:
        bucket = Bucket(log_until(16))

        def fate(request: Request) -> Fate:
            number = KEYS.number_of(request.key)
            if request.operation == "create" and number == first_missing:
                bucket.write(fence(first_missing, 2))
            return Fate()

        bucket.fate = fate
        owner = Owner(bucket)
        owner.source.most = 1
        owner.record(*[b"%d" % number for number in range(8)])
        await asyncio.sleep(5.0)
        assert [number for _, number in owner.commits] == list(range(17, first_missing))
        assert [type(error) for error in owner.lost] == [Overtaken]
        assert f"object {first_missing} of shard js is of epoch 2" in str(owner.lost[0])
        requests = len(bucket.requests)
        await asyncio.sleep(60.0)
        assert len(bucket.requests) == requests, "it has stopped"
        with pytest.raises(Overtaken):
            await owner.writer.drain()

    run(main())


def test_idle_owner_finds_the_fence_within_a_second() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16))
        owner = Owner(bucket)
        await asyncio.sleep(1.5)
        bucket.write(fence(17, 2))
        await asyncio.sleep(1.0)
        assert [type(error) for error in owner.lost] == [Overtaken]
        assert owner.writer.last_proof == 1.0

    run(main())


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(commit(17, 1, b"somebody's"), id="this epoch"),
        pytest.param(WalObject("js", 0, b"x" * 16, 17, Kind.COMMIT, 0, b""), id="earlier epoch"),
    ],
)
def test_object_that_nobody_may_have_written_ends_the_term(found: WalObject) -> None:
    async def main() -> None:
        bucket = Bucket([*log_until(16), found])
        owner = Owner(bucket)
        owner.record(b"a")
        await asyncio.sleep(1.0)
        assert [type(error) for error in owner.lost] == [DamagedObject]
        assert owner.commits == []

    run(main())


def test_damaged_object_at_its_number_ends_the_term() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16))
        bucket.objects[KEYS.wal(17)] = b"?", 0
        owner = Owner(bucket)
        await asyncio.sleep(1.5)
        assert [type(error) for error in owner.lost] == [DamagedObject]

    run(main())


# -- owners that slept --------------------------------------------------------------------------------


async def overtaken(bucket: Bucket, last: int = 1003) -> None:
    """Another server takes the shard over, goes on, and deletes what its snapshot has."""
    before = bucket.fate
    bucket.fate = lambda _request: PROMPT
    reader = Reader(bucket)
    made = await claim(reader, writer=writer_of(2), owner=b"", wall_ns=wall_ns)
    for number in range(made.next_number, last + 1):
        assert bucket.write(commit(number, 2, b"" if number % 1000 == 0 else None))
    bucket.remove(number for number in range(2, 1000) if number != made.fence)
    bucket.fate = before
    bucket.requests.clear()


def test_owner_that_slept_past_the_deletion_finds_the_fence() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16))
        owner = Owner(bucket)
        await overtaken(bucket)
        owner.record(b"a")
        await asyncio.sleep(0.1)
        assert [type(error) for error in owner.lost] == [Overtaken]
        assert owner.commits == []

    run(main())


def test_put_that_arrived_and_was_deleted_proves_nothing() -> None:
    """The owner slept with a put under way. Sent again it succeeds, in a number that is deleted."""

    async def main() -> None:
        bucket = Bucket(log_until(16), of_puts(HANGS_AFTERWARDS))
        owner = Owner(bucket)
        owner.record(b"a")
        await asyncio.sleep(0.1)
        assert bucket.at(17) is not None
        await overtaken(bucket)
        bucket.fate = of_puts(HANGS)
        await asyncio.sleep(1.0)
        assert owner.writer.last_proof == 0.0
        assert [type(error) for error in owner.lost] == [Overtaken]
        assert "object 17 of shard js is deleted" in str(owner.lost[0])

    run(main())


def test_put_that_is_sent_again_into_a_deleted_number_does_not_end_the_look_that_finds_out() -> None:
    """The look asks before it, and has the answer behind it."""

    def fate(request: Request) -> Fate:
        if request.operation == "head":
            return Fate(0.0, 2.0)
        return PROMPT if request.at > 1.5 else Fate(0.0, 2.0, True, Answer.FAILED)

    async def main() -> None:
        bucket = Bucket(log_until(16), fate)
        owner = Owner(bucket)
        owner.record(b"a")
        await asyncio.sleep(0.1)
        await overtaken(bucket)
        await asyncio.sleep(6.0)
        assert owner.commits == [(1, 17)]
        assert owner.writer.last_proof < 0.1
        assert [type(error) for error in owner.lost] == [Overtaken]

    run(main())


def test_put_that_is_sent_again_proves_no_more_than_at_first() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16), lambda request: FAILS if request.operation != "list" else PROMPT)
        owner = Owner(bucket)
        owner.record(b"a")
        await asyncio.sleep(5.2)
        bucket.fate = lambda request: FAILS if request.operation == "head" else PROMPT
        await owner.writer.drain()
        assert owner.commits == [(1, 17)]
        assert owner.writer.last_proof < 0.1
        bucket.fate = lambda _request: PROMPT
        await asyncio.sleep(1.5)
        assert owner.loop.time() - owner.writer.last_proof <= 1.0

    run(main())


def test_put_that_hangs_does_not_end_the_proofs() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), of_puts(HANGS)))
        owner.record(b"a")
        await asyncio.sleep(10.5)
        assert owner.lost == []
        assert owner.loop.time() - owner.writer.last_proof <= 1.0

    run(main())


# -- a look on request --------------------------------------------------------------------------------


def test_look_on_request_says_if_the_shard_is_still_owned() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16))
        owner = Owner(bucket)
        await asyncio.sleep(0.25)
        assert await owner.writer.prove()
        assert owner.writer.last_proof == 0.25
        bucket.fate = lambda _request: FAILS
        assert not await owner.writer.prove()
        assert owner.lost == []
        bucket.fate = lambda _request: PROMPT
        bucket.write(fence(17, 2))
        assert not await owner.writer.prove()
        assert [type(error) for error in owner.lost] == [Overtaken]

    run(main())


def test_look_that_commits_overtake_finds_no_other_owner() -> None:
    """The number was missing when the store was asked. Before the answer the owner made a milestone."""

    def fate(request: Request) -> Fate:
        return Fate(0.0, 1.0) if request.operation == "head" else Fate(0.05, 0.0)

    async def main() -> None:
        bucket = Bucket(log_until(997), fate)
        owner = Owner(bucket, last=997)
        owner.record(b"a", b"b", b"c")
        owner.source.most = 1
        await asyncio.sleep(0.01)
        assert await owner.writer.prove()
        assert owner.writer.durable > 1000
        assert owner.lost == []
        assert owner.commits[-1] == (3, 1001)

    run(main())


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "taken"])
@pytest.mark.parametrize("fate", [Fate(), FAILS], ids=["works", "fails"])
def test_look_that_ends_after_the_writer_tells_nothing(fate: Fate, is_free: bool) -> None:
    async def main() -> None:
        bucket = Bucket(log_until(16), lambda _request: fate)
        owner = Owner(bucket)
        look = asyncio.ensure_future(owner.writer.prove())
        await asyncio.sleep(0.001)
        if not is_free:
            bucket.write(fence(17, 2))
        owner.writer.stop()
        assert not await look
        assert (owner.lost, owner.trouble) == ([], [])

    run(main())


def test_the_lag_is_that_of_the_oldest_change() -> None:
    async def main() -> None:
        owner = Owner(Bucket(log_until(16), lambda _: Fate(0.2, 0.2)))
        assert owner.writer.lag_s == 0.0
        owner.record(b"a")
        await asyncio.sleep(0.1)
        owner.record(b"b")
        await asyncio.sleep(0.1)
        assert 0.19 < owner.writer.lag_s < 0.21
        assert owner.writer.pending_bytes == 2
        await owner.writer.drain()
        assert (owner.writer.lag_s, owner.writer.pending_bytes) == (0.0, 0)

    run(main())


# ---- large objects ----------------------------------------------------------------------------------


def beside(seconds: Iterator[float]) -> Any:
    """Do work that takes so long each time, on no other thread."""

    async def offload(work: Callable[[], object]) -> object:
        await asyncio.sleep(next(seconds))
        return work()

    return offload


def test_large_objects_are_put_together_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first takes longest; all are told in their order, and have what they are to have."""
    monkeypatch.setattr(writer_module, "LARGE_PAYLOAD", 1)

    async def main() -> None:
        times = itertools.chain([0.3, 0.1], itertools.repeat(0.001))
        owner = Owner(Bucket(log_until(16)), puts_per_second=1e6, offload=beside(times))
        for number in range(12):
            owner.record(b"<%d>" % number, b"-" * (number % 3))
            await asyncio.sleep(0.01)
        assert owner.commits == []
        assert owner.writer.pending_bytes > 0
        await owner.writer.drain()
        assert [position for position, _ in owner.commits] == sorted(p for p, _ in owner.commits)
        assert owner.texts() == b"".join(b"<%d>" % n + b"-" * (n % 3) for n in range(12))

    run(main())


def test_an_owner_that_was_overtaken_while_it_puts_an_object_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_module, "LARGE_PAYLOAD", 1)

    async def main() -> None:
        bucket = Bucket(log_until(16))
        owner = Owner(bucket, offload=beside(itertools.repeat(10.0)))
        owner.record(b"<large>")
        await asyncio.sleep(0.01)
        bucket.objects[KEYS.wal(17)] = fence(17, epoch=2).pack(), 0
        await asyncio.sleep(2 * PROVE_EVERY_S)
        assert [type(error) for error in owner.lost] == [Overtaken]
        await asyncio.sleep(10.0)
        assert bucket.count("create") == 0, "nothing is sent behind the end"

    run(main())


def test_an_owner_that_stops_while_it_puts_an_object_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "LARGE_PAYLOAD", 1)

    async def main() -> None:
        bucket = Bucket(log_until(16))
        owner = Owner(bucket, offload=beside(itertools.repeat(1.0)))
        owner.record(b"<large>")
        await asyncio.sleep(0.5)
        owner.writer.stop()
        await asyncio.sleep(1.0)
        assert bucket.count("create") == 0

    run(main())


def test_an_object_that_cannot_be_put_together_ends_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for it is told: else all would wait for ever, for an owner that goes on to prove itself."""
    monkeypatch.setattr(writer_module, "LARGE_PAYLOAD", 1)

    async def no_memory(_work: Callable[[], object]) -> object:
        raise MemoryError

    async def main() -> None:
        bucket, loop = Bucket(log_until(16)), asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        owner = Owner(bucket, offload=no_memory)
        owner.record(b"<large>")
        with pytest.raises(BucketError, match="object 17 of shard js cannot be put: MemoryError"):
            async with asyncio.timeout(60):
                await owner.writer.drain()
        assert [str(error) for error in owner.lost] == ["object 17 of shard js cannot be put: MemoryError()"]
        assert [type(context["exception"]) for context in loop.mistakes] == [MemoryError]
        loop.mistakes.clear()
        assert bucket.count("create") == 0

    run(main())
