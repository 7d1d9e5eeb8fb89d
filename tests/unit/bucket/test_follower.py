"""A reader of the log believes each object, passes it over, or says that it cannot go on."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from bucket_makers import KEYS, Bucket, Reader, commit, fence, log_until, release, writer_of

from harness.memory_objects import FAILS, PROMPT, Fate, Request
from harness.virtual_loop import run
from headrace.bucket import follower as followers
from headrace.bucket import keys
from headrace.bucket.errors import Behind, DamagedObject, NewerFormat
from headrace.bucket.follower import CHECK_EVERY_S, READ_AHEAD, Point
from headrace.bucket.wal_object import WalObject
from headrace.objects.errors import StoreError


def caught_up(bucket: Bucket, point: Point = Point()) -> Reader:  # noqa: B008  # a constant
    reader = Reader(bucket, point)
    run(reader.catch_up())
    return reader


def test_empty_log_has_nothing() -> None:
    reader = caught_up(Bucket())

    assert reader.point == Point(0, 0, b"")
    assert reader.applied == []


def test_all_of_one_owner_is_applied_in_order() -> None:
    made = log_until(50)

    reader = caught_up(Bucket(made))

    assert reader.applied == made
    assert reader.point == Point(50, 1, writer_of(1))


def test_reading_to_a_number_asks_for_nothing_behind_it() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(60))
        reader = Reader(bucket)
        assert await reader.read_on(3)
        assert await reader.read_on(50)
        assert not await reader.read_on(50)
        assert [int(request.key[-20:]) for request in bucket.requests] == list(range(1, 51))
        assert reader.numbers == list(range(1, 51))
        assert await reader.read_on()
        assert not await reader.read_on()
        assert reader.numbers == list(range(1, 61))

    run(main())


def test_reading_to_a_number_that_is_not_there_ends_before_it() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(4))
        reader = Reader(bucket)
        assert await reader.read_on(6)
        assert not await reader.read_on(6)
        bucket.write(commit(5))
        assert await reader.read_on(6)
        assert reader.numbers == [1, 2, 3, 4, 5]

    run(main())


def test_reading_begins_behind_the_point() -> None:
    assert caught_up(Bucket(log_until(9)), Point(6, 1, writer_of(1))).numbers == [7, 8, 9]


def test_objects_of_an_earlier_owner_behind_a_fence_are_passed_over() -> None:
    bucket = Bucket([*log_until(4), fence(5, 2), commit(6, 1), commit(7, 2, b""), commit(8, 1), commit(9, 2)])

    reader = caught_up(bucket)

    assert reader.numbers == [1, 2, 3, 4, 5, 7, 9]
    assert reader.point == Point(9, 2, writer_of(2))


def test_objects_behind_a_missing_one_are_not_read() -> None:
    assert caught_up(Bucket([*log_until(4), commit(6), commit(7)])).numbers == [1, 2, 3, 4]


def test_release_is_told_until_somebody_takes_over() -> None:
    async def main() -> None:
        bucket = Bucket([*log_until(3), release(4)])
        reader = Reader(bucket)
        assert not reader.is_released
        await reader.catch_up()
        assert reader.is_released
        bucket.write(fence(5, 2))
        await reader.catch_up()
        assert not reader.is_released

    run(main())


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(commit(5, 2), id="commit of an epoch without a fence"),
        pytest.param(fence(5, 3), id="fence that leaves out an epoch"),
        pytest.param(fence(5, 1), id="second fence of an epoch"),
        pytest.param(fence(5, 1, b"other writer 16b"), id="another writer's fence of an epoch"),
        pytest.param(
            WalObject("js", 1, b"other writer 16b", 5, commit(5).kind, 0, b""), id="another writer's commit"
        ),
        pytest.param(release(5, 2), id="release by who is no owner"),
    ],
)
def test_object_that_no_owner_writes_is_damage(found: WalObject) -> None:
    reader = Reader(Bucket([*log_until(4), found, commit(6)]))

    with pytest.raises(DamagedObject, match="object 5 of shard js"):
        run(reader.catch_up())
    assert reader.point.number == 4
    assert reader.numbers == [1, 2, 3, 4]


def test_damaged_object_is_never_passed_over() -> None:
    bucket = Bucket(log_until(6))
    data, time_ns = bucket.objects[KEYS.wal(4)]
    bucket.objects[KEYS.wal(4)] = data[:-1] + b"?", time_ns
    reader = Reader(bucket)

    for _ in range(2):
        with pytest.raises(DamagedObject, match="object 4 of shard js"):
            run(reader.catch_up())
    assert reader.numbers == [1, 2, 3]


def test_later_format_stops_the_reader() -> None:
    bucket = Bucket(log_until(2))
    data = WalObject("js", 1, writer_of(1), 3, commit(3).kind, 0, b"").pack()
    from headrace.engine.records import crc32c

    newer = b"\xff\xff" + data[10:]
    bucket.objects[KEYS.wal(3)] = data[:4] + crc32c(newer).to_bytes(4, "little") + newer, 0

    with pytest.raises(NewerFormat, match="format 65535"):
        run(Reader(bucket).catch_up())


@pytest.mark.parametrize("at", range(12))
def test_failed_request_can_be_tried_again(at: int) -> None:
    def fate(_request: Request) -> Fate:
        return FAILS if len(bucket.requests) == at + 1 else PROMPT

    bucket = Bucket(log_until(5), fate)
    reader = Reader(bucket)

    async def main() -> None:
        while len(bucket.requests) <= at:
            try:
                await reader.catch_up()
            except StoreError:
                assert len(bucket.requests) > at
        await reader.catch_up()

    run(main())

    assert reader.applied == log_until(5)


def test_what_could_not_be_applied_is_read_again() -> None:
    bucket = Bucket(log_until(3))
    applied: list[int] = []

    def apply(found: WalObject) -> None:
        applied.append(found.number)
        if applied.count(2) == 1 and found.number == 2:
            raise OSError("no room")

    reader = followers.WalFollower(bucket, KEYS, Point(), apply)

    async def main() -> None:
        with pytest.raises(OSError, match="no room"):
            await reader.catch_up()
        assert reader.point.number == 1
        await reader.catch_up()

    run(main())

    assert applied == [1, 2, 2, 3]


def test_many_objects_are_asked_for_at_once() -> None:
    """Each request takes 10 ms: one behind the other, 300 would take 3 s."""

    async def main() -> float:
        bucket = Bucket(log_until(300), lambda request: Fate() if request.operation == "get" else PROMPT)
        reader = Reader(bucket)
        await reader.catch_up()
        assert reader.applied == log_until(300)
        assert bucket.count("get") <= 300 + READ_AHEAD
        return asyncio.get_running_loop().time()

    assert run(main()) < 0.3


def test_of_large_objects_fewer_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.bucket.follower.READ_AHEAD_BYTES", 3000)

    async def main() -> float:
        log = [fence(1, 1), *(commit(number, payload=bytes(1000)) for number in range(2, 61))]
        bucket = Bucket(log, lambda request: Fate() if request.operation == "get" else PROMPT)
        reader = Reader(bucket)
        await reader.catch_up()
        assert reader.applied == log
        return asyncio.get_running_loop().time()

    assert 0.2 <= run(main()) < 0.3  # three in 10 ms


def test_order_of_answers_does_not_matter() -> None:
    chance = Random(1)
    bucket = Bucket(log_until(200), lambda _request: Fate(chance.random(), chance.random()))

    assert caught_up(bucket).applied == log_until(200)


# -- what was deleted ---------------------------------------------------------------------------------


def deleted_until(number: int, last: int) -> Bucket:
    """A bucket whose owner has deleted all objects before a number, but milestones and its fence."""
    bucket = Bucket(log_until(last))
    bucket.remove(one for one in range(2, number) if one % keys.MILESTONE)
    return bucket


@pytest.mark.parametrize("last_read", [0, 1, 41, 998, 1000, 1001, 1998])
def test_reader_that_slept_past_the_deletion_is_told(last_read: int) -> None:
    point = Point(last_read, 1, writer_of(1)) if last_read else Point()

    with pytest.raises(Behind, match="is deleted"):
        caught_up(deleted_until(2000, 2003), point)


@pytest.mark.parametrize("last_read", [999, 1999, 2000, 2003])
def test_reader_that_misses_nothing_goes_on(last_read: int) -> None:
    bucket = deleted_until(2000, 2003) if last_read > 1000 else deleted_until(1000, 1003)

    reader = caught_up(bucket, Point(last_read, 1, writer_of(1)))

    assert reader.point.number == (2003 if last_read > 1000 else 1003)


def test_log_that_goes_on_while_it_is_asked_about_is_no_deletion() -> None:
    """Object 999 is missing; when the milestone is looked for, both are there."""

    def fate(request: Request) -> Fate:
        if request == ("head", KEYS.wal(1000), request.at):
            for made in log_until(1002)[998:]:
                bucket.write(made)
        return PROMPT

    bucket = Bucket(log_until(998), fate)

    assert caught_up(bucket).point.number == 1002


def test_idle_look_costs_one_request_but_now_and_then_two() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(5))
        reader = Reader(bucket)
        await reader.catch_up()
        bucket.requests.clear()
        for _ in range(600):
            assert not await reader.read_on()
            await asyncio.sleep(1.0)
        assert bucket.count("get") == 600
        assert 1 <= bucket.count("head") <= 600 / CHECK_EVERY_S

    run(main())


def test_idle_reader_learns_that_it_slept() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(41))
        reader = Reader(bucket)
        await reader.catch_up()
        await asyncio.sleep(7200.0)
        bucket.objects.update(deleted_until(1000, 1003).objects)
        bucket.remove(range(42, 1000))
        with pytest.raises(Behind):
            await reader.read_on()

    run(main())


def test_void_fence_among_deleted_objects_leads_nobody_astray() -> None:
    """Its objects are of epoch 1, but a standby that slept left a fence of epoch 2 where one was deleted."""
    for still_there in (range(43, 1003), range(43, 60), range(500, 1003)):
        bucket = Bucket(log_until(1002))
        bucket.remove(number for number in range(2, 1000) if number not in still_there)
        bucket.write(fence(42, 2, b"standby that slept"[:16]))

        with pytest.raises(Behind):
            caught_up(bucket, Point(41, 1, writer_of(1)))


@pytest.mark.parametrize("seed", range(300))
def test_reader_is_right_or_knows_that_it_is_not(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of several owners with objects deleted and void fences in their places, read from anywhere.

    A milestone is every tenth number here.
    """
    monkeypatch.setattr(keys, "MILESTONE", 10)
    monkeypatch.setattr(followers, "MILESTONE", 10)
    chance = Random(seed)
    last = chance.randrange(20, 60)
    made, points, epoch = [fence(1, 1)], [Point(), Point(1, 1, writer_of(1))], 1
    for number in range(2, last + 1):
        if chance.random() < 0.1:
            epoch += 1
            made.append(fence(number, epoch))
        else:
            made.append(commit(number, epoch, b"" if number % 10 == 0 else None))
        points.append(Point(number, epoch, writer_of(epoch)))
    bucket = Bucket(made)
    floor = chance.randrange(2, last // 10 * 10)
    deleted = [
        one.number
        for one in made[1:floor]
        if one.kind is commit(1).kind and one.number % 10 and chance.random() < 0.7
    ]
    bucket.remove(deleted)
    for number in deleted:
        if chance.random() < 0.3:
            believed = points[number - 1].epoch + chance.choice((1, 1, 2))
            bucket.write(fence(number, believed, chance.randbytes(16)))
    begin = points[chance.randrange(last)]
    reader = Reader(bucket, begin)

    try:
        run(reader.catch_up())
    except Behind:
        assert deleted[-1:] > [begin.number]
    else:
        assert reader.applied == made[begin.number :]
        assert reader.point == points[-1]
