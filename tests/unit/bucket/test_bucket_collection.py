"""Deleting in a bucket: what a retained snapshot needs stays, fences and milestones stay, the rest goes."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest
from shard_model import KEYS, SECOND, Owner, Reader, manifests

from harness import depth
from harness.memory_objects import FAILS, PROMPT, START_NS, Fate, MemoryObjects, Request
from harness.virtual_loop import run
from headrace.bucket.collection import SPACING_S, Collector
from headrace.bucket.keys import MILESTONE
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.bucket.manifest import Manifest

HISTORY_S = 3600.0


async def snapshot(owner: Owner) -> Manifest:
    """Take a snapshot while WAL objects are written each 10 ms."""
    taking = asyncio.create_task(owner.snapshotter.take())
    while not taking.done():
        await asyncio.sleep(0.01)
        owner.commit()
    return taking.result()


def skip(owner: Owner, number: int) -> None:
    """Write empty WAL objects up to a number."""
    while owner.number < number:
        owner.commit()


def collector_of(owner: Owner, *, is_owner: Callable[[], bool] = lambda: True) -> Collector:
    async def prove() -> bool:
        return is_owner()

    return Collector(
        owner.store, KEYS, owner.snapshotter, fences=owner.fences, history_s=HISTORY_S, prove=prove
    )


def wal_numbers(store: MemoryObjects) -> set[int]:
    found = {KEYS.number_of(key) for key in store.objects if key.startswith(KEYS.wal_prefix)}
    return {number for number in found if number is not None}


def segments(store: MemoryObjects) -> set[str]:
    prefix = f"{KEYS.segments_prefix}/"
    return {key.removeprefix(prefix) for key in store.objects if key.startswith(prefix)}


def test_what_is_superseded_goes_when_it_is_old_enough(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        collector = collector_of(owner)
        owner.fences.append(7)
        file = owner.make("f", b"1" * 100)
        first = await snapshot(owner)
        skip(owner, 2 * MILESTONE + 5)
        owner.unlink(file)
        owner.make("g", b"2" * 100)
        second = await snapshot(owner)
        before = set(store.objects)
        await asyncio.sleep(HISTORY_S - 1)
        assert not await collector.collect()
        assert set(store.objects) == before
        await asyncio.sleep(2)
        assert not await collector.collect()
        assert list(manifests(store)) == [second.number]
        assert segments(store) == set(second.objects())
        assert min(wal_numbers(store) - {7, MILESTONE}) == 2 * MILESTONE
        assert {7, MILESTONE} < wal_numbers(store)
        assert first.number not in wal_numbers(store)
        assert Reader(store, second).read_to(owner.number).contents() == owner.contents()
        assert owner.snapshotter.collected == 2 * MILESTONE
        assert (await snapshot(owner)).collected == 2 * MILESTONE

    run(main())


def test_nothing_goes_before_the_first_snapshot_of_a_term_is_old(tmp_path: Path) -> None:
    """A listing may not have what an earlier owner made; once it is superseded for long enough, it may go."""

    async def main() -> None:
        store = MemoryObjects()
        earlier = Owner(tmp_path, store)
        earlier.make("f", b"1" * 100)
        await snapshot(earlier)
        skip(earlier, MILESTONE + 1)
        reader = Reader(store).read_to(earlier.number)
        term = earlier.term._replace(epoch=2, writer=b"2" * 16)
        owner = Owner(tmp_path, store, term=term, tree=reader.tree, number=earlier.number)
        collector = collector_of(owner)
        await asyncio.sleep(2 * HISTORY_S)
        assert not await collector.collect()
        await snapshot(owner)
        await asyncio.sleep(HISTORY_S - 1)
        before = set(store.objects)
        assert not await collector.collect()
        assert set(store.objects) == before
        await asyncio.sleep(2)
        await collector.collect()
        assert len(manifests(store)) == 1

    run(main())


def test_an_owner_that_lost_the_shard_deletes_no_segments(tmp_path: Path) -> None:
    """It slept; what the later owner has stored since is in none of its manifests."""

    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        is_owner = True
        collector = collector_of(owner, is_owner=lambda: is_owner)
        owner.make("f", b"1" * 100)
        await snapshot(owner)
        await asyncio.sleep(2 * HISTORY_S)
        store.objects[KEYS.segment("later-1")] = b"of a later owner", START_NS
        is_owner = False
        await collector.collect()
        assert "later-1" in segments(store)
        is_owner = True
        await collector.collect()
        assert "later-1" not in segments(store), "it would be taken for one of an earlier owner"

    run(main())


def test_a_segment_that_is_being_stored_stays(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        collector = collector_of(owner)
        owner.make("f", b"1" * 100)
        await snapshot(owner)
        await asyncio.sleep(2 * HISTORY_S)
        owner.make("g", b"2" * 100)
        taking = asyncio.create_task(owner.snapshotter.take())
        await asyncio.sleep(0.01)
        owner.commit()
        await asyncio.sleep(0.01)  # stored, and SnapshotTaken is not committed
        assert len(segments(store)) == 2
        await collector.collect()
        owner.commit()
        manifest = await taking
        assert Reader(store, manifest).contents() == owner.contents()

    run(main())


def test_mostly_dead_objects_are_told_to_the_next_snapshot(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        collector = collector_of(owner)
        owner.make("stays", b"1" * 1000)
        gone = owner.make("goes", b"2" * 1001)
        first = await snapshot(owner)
        await asyncio.sleep(2 * HISTORY_S)
        await collector.collect()
        assert not owner.snapshotter.dying
        owner.unlink(gone)
        await snapshot(owner)
        await collector.collect()
        assert owner.snapshotter.dying == frozenset(first.objects())
        third = await snapshot(owner)
        assert not third.objects().keys() & first.objects().keys()

    run(main())


def test_a_round_deletes_so_much_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.bucket.collection.BATCH", 100)

    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        collector = collector_of(owner)
        skip(owner, 3 * MILESTONE)
        await snapshot(owner)
        await asyncio.sleep(2 * HISTORY_S)
        assert await collector.collect()
        assert owner.snapshotter.collected == 2 * MILESTONE + 1
        assert not await collector.collect()
        assert owner.snapshotter.collected == 3 * MILESTONE

    run(main())


def test_it_runs_by_itself_and_asks_for_nothing_when_there_is_nothing_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        collector = collector_of(owner)
        running = asyncio.create_task(collector.run())
        file = owner.make("f", b"1" * 100)
        await snapshot(owner)
        owner.unlink(file)
        second = await snapshot(owner)
        store.fate = lambda _request: FAILS
        await asyncio.sleep(SPACING_S + 1)
        assert collector.trouble is not None
        store.fate = lambda _request: PROMPT
        await asyncio.sleep(HISTORY_S + 3 * SPACING_S)
        assert collector.trouble is None
        assert list(manifests(store)) == [second.number]
        assert not segments(store)
        quiet = len(store.requests)
        await asyncio.sleep(24 * HISTORY_S)
        assert len(store.requests) == quiet
        running.cancel()

    run(main())


@pytest.mark.parametrize("seed", depth.seeds(100))
def test_a_store_can_be_read_from_every_retained_snapshot(tmp_path: Path, seed: int) -> None:
    """Random files, snapshots, rounds of deleting, and requests that fail or whose answers are lost."""
    random = Random(seed)

    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        collector = collector_of(owner)
        made: list[tuple[Manifest, float]] = []

        def fate(_request: Request) -> Fate:
            for _ in range(random.randrange(3)):
                owner.anything(random, 2000)
            if random.random() < 0.1:
                return Fate(has_effect=random.random() < 0.5, answer=FAILS.answer)
            return PROMPT

        for _ in range(12):
            owner.anything(random, 2000)
            if random.random() < 0.3:
                skip(owner, owner.number + random.choice([10, MILESTONE]))
            store.fate = fate
            try:
                taken = await snapshot(owner)
                made.append((taken, asyncio.get_running_loop().time()))
                await asyncio.sleep(random.choice([1.0, HISTORY_S / 3, HISTORY_S * 1.1]))
                await collector.collect()
            except StoreError:
                pass
            store.fate = lambda _request: PROMPT
            owner.commit()
            now = asyncio.get_running_loop().time()
            for (manifest, _), (_, superseded) in pairwise([*made, (made[-1][0], now)] if made else []):
                if now - superseded >= HISTORY_S - 1:
                    continue  # it may be gone
                assert manifests(store)[manifest.number] == manifest
                reader = Reader(store, manifest).read_to(manifest.settled)
                assert reader.contents() == owner.states[manifest.settled]
                assert reader.read_to(owner.number).contents() == owner.contents()
        await snapshot(owner)
        await asyncio.sleep(2 * HISTORY_S)
        while await collector.collect():
            pass
        (last,) = manifests(store).values()
        assert segments(store) == set(last.objects())
        kept = last.number // MILESTONE * MILESTONE
        assert all(number % MILESTONE == 0 for number in wal_numbers(store) if number < kept)

    run(main())


def test_times_are_those_of_the_store(tmp_path: Path) -> None:
    """The loop's clock and the wall clock may say what they will when a snapshot was made."""

    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        collector = collector_of(owner)
        owner.make("f", b"1")
        first = await snapshot(owner)
        second = await snapshot(owner)
        for manifest, age_s in ((first, 10 * HISTORY_S), (second, HISTORY_S / 2)):
            key = KEYS.snapshot(manifest.number)
            store.objects[key] = store.objects[key][0], START_NS - int(age_s * SECOND)
        await asyncio.sleep(HISTORY_S / 4)
        await collector.collect()
        assert list(manifests(store)) == [first.number, second.number]
        await asyncio.sleep(HISTORY_S)
        await collector.collect()
        assert list(manifests(store)) == [second.number]

    run(main())
