"""A shard's life at several servers of one bucket, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pytest
from shard_model import Reads

from harness.memory_objects import FAILS, HANGS, PROMPT, Fate, MemoryObjects
from harness.virtual_loop import run
from headrace.bucket.errors import NotOurs
from headrace.bucket.keys import ShardKeys
from headrace.bucket.opening import COMMIT_LIMITS
from headrace.bucket.owner_term import TELL_AFTER_S, TELL_SOON_BYTES, TELL_SOON_S
from headrace.bucket.owner_watch import BEAT_S
from headrace.bucket.place import ShardPlace
from headrace.bucket.port import Beat
from headrace.bucket.request_counts import RequestCounts
from headrace.bucket.requests import LIMITS, BucketRequests
from headrace.bucket.shard import BEGIN_S, RELEASE_S, STANDBY_END_S, Role, Shard
from headrace.bucket.wal_object import Kind, WalObject
from headrace.conf.bucket_options import BucketOptions
from headrace.errors import StorageError
from headrace.log.committer import InlineCommitter
from headrace.log.filesystem import RealFileSystem
from headrace.log.port import NewMessage, SyncPolicy
from headrace.log.store import FileStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.memory_objects import Request
    from headrace.log.committer import Committer
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import MessageLog

KEYS = ShardKeys("jetstream")
MAX_LAG_S = 10.0
PUBLISHED = 200
"""Messages one behind the other: several signs of life come between them."""
LATENCY_S = 0.03
"""Of a store that is far away."""


class NoReads:
    """The bucket for threads, where nothing is to be read."""

    location = "memory"

    def get_range(self, key: str, start: int, end: int) -> bytes:
        raise AssertionError(f"{key} was read from {start} to {end}")


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


def _with_limits(objects: MemoryObjects) -> BucketRequests:
    """Return a store whose requests end some time, as those of a server do."""
    return BucketRequests(objects, Random(1).random, {**LIMITS, "create": COMMIT_LIMITS})


class Server:
    """A server with one log in the shard; `peers` hear what it says."""

    def __init__(
        self,
        name: str,
        directory: Path,
        objects: dict[str, Any],
        peers: list[Server],
        *,
        is_alone: bool = True,
        commit: Literal["bucket", "disk"] = "bucket",
        store: MemoryObjects | None = None,
        reads: Reads | None = None,
    ) -> None:
        self.name = name
        self.directory = directory / name
        self.reads = reads
        self.peers = peers
        self.log: MessageLog | None = None
        self.reasons: list[str | None] = []
        self.is_cut = False
        self.loses_objects = False
        """True: the WAL objects that it tells the others of get lost."""
        self.tells_no_objects = False
        self.objects = store or MemoryObjects(lambda _: Fate(0.0025, 0.0025), objects)
        self._store: FileStore | None = None
        self._committer: Committer | None = None
        place = ShardPlace(
            KEYS,
            self.objects if commit == "bucket" else _with_limits(self.objects),
            reads or NoReads(),  # type: ignore[arg-type]  # whole files are all here
            self.directory,
            RealFileSystem(),
            name,
            "",
            BucketOptions(url="memory", commit=commit, max_lag=MAX_LAG_S),
            lambda: 0,
            Random(name),
            RequestCounts(0.0),
            at_once,
            InlineCommitter,
        )
        self.shard = Shard(place, self, logging.getLogger(name), is_alone=is_alone)

    async def promoted(self, files: FileSystem, committer: Committer) -> None:
        self._store = FileStore(self.directory, filesystem=files, sync=SyncPolicy.NEVER)
        self._committer = committer
        self.log = self._store.open(b"log")

    async def demoted(self, reason: str | None) -> None:
        self.reasons.append(reason)
        self.log = None
        if self._store is not None and reason is None:
            self._store.close()
        self._store = None

    def tell(self, beat: Beat) -> None:
        for peer in self.peers:
            if peer is not self and not peer.is_cut and not self.is_cut:
                peer.shard.heard(beat, self.name)

    def tell_object(self, server_id: str, sealed: bytes) -> bool:
        for peer in self.peers:
            if (
                peer.name == server_id
                and not peer.is_cut
                and not self.is_cut
                and not self.loses_objects | self.tells_no_objects
            ):
                peer.shard.heard_object(sealed)
        return not self.tells_no_objects

    async def publish(self, text: bytes) -> int:
        """Append, and return the sequence once it is committed."""
        assert self.log is not None
        assert self._committer is not None
        sequence = self.log.append([NewMessage(b"s", text)])
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(error: Exception | None) -> None:
            done.set_exception(error) if error is not None else done.set_result(None)

        self._committer.request(self.log, told)
        await done
        return sequence

    def texts(self) -> list[bytes]:
        assert self.log is not None
        return [message.payload for message in self.log.read_from(1).messages]


def servers(directory: Path, *names: str, commit: Literal["bucket", "disk"] = "bucket") -> list[Server]:
    objects: dict[str, Any] = {}
    made: list[Server] = []
    for name in names:
        made.append(Server(name, directory, objects, made, is_alone=False, commit=commit))
    return made


async def owner_of(some: list[Server], but: Server | None = None) -> Server:
    while True:
        for server in some:
            if server.shard.role is Role.OWNER and server is not but:
                return server
        await asyncio.sleep(0.01)


async def settled(
    directory: Path, commit: Literal["bucket", "disk"] = "bucket"
) -> tuple[list[Server], Server]:
    """Three servers, of which one owns the shard and the others have read that."""
    three = servers(directory, "a", "b", "c", commit=commit)
    for server in three:
        await server.shard.start()
    first = await owner_of(three)
    await first.publish(b"one")
    await asyncio.sleep(0.5)
    return three, first


def test_a_server_alone_owns_the_shard_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        server = Server("a", tmp_path, {}, [])
        await server.shard.start()
        await server.shard.settled()
        assert asyncio.get_running_loop().time() < 0.1
        assert await server.publish(b"one") == 1
        status = server.shard.status()
        assert (status.role, status.owner, status.epoch, status.lag_bytes) == ("owner", "a", 1, 0)
        assert status.commits.count >= 1
        await server.shard.stop()
        assert server.reasons == [None]

    run(main())


def test_a_server_alone_takes_over_from_one_that_released_nothing(tmp_path: Path) -> None:
    """As after kill -9. Where the other lives all the same, the two do not take turns."""

    async def main() -> None:
        objects: dict[str, Any] = {}
        first, second = Server("a", tmp_path, objects, []), Server("b", tmp_path, objects, [])
        await first.shard.start()
        await first.shard.settled()
        await first.publish(b"one")
        await second.shard.start()
        await second.shard.settled()
        await owner_of([second])
        assert asyncio.get_running_loop().time() < 1.0
        assert second.texts() == [b"one"]
        await asyncio.sleep(30)
        assert (first.shard.role, second.shard.role) == (Role.STANDBY, Role.OWNER)
        assert len(first.reasons) == 1
        assert second.reasons == []
        await first.shard.stop()
        await second.shard.stop()

    run(main())


def test_a_server_alone_claims_behind_a_late_put_of_the_one_before_it(tmp_path: Path) -> None:
    """The put arrives between the last look and the fence. It says nothing of an owner that lives."""

    async def main() -> None:
        objects: dict[str, Any] = {}
        first, second = Server("a", tmp_path, objects, []), Server("b", tmp_path, objects, [])
        await first.shard.start()
        await first.shard.settled()
        await first.publish(b"one")

        def late(seconds: float) -> Callable[[Request], Fate]:
            late_ones = iter([Fate(seconds, 0.0025)])
            prompt = Fate(0.0025, 0.0025)
            return lambda request: next(late_ones, prompt) if request.operation == "create" else prompt

        first.objects.fate, second.objects.fate = late(0.5), late(1.0)
        putting = asyncio.create_task(first.publish(b"two"))
        await asyncio.sleep(0)
        await second.shard.start()
        await owner_of([second])
        assert asyncio.get_running_loop().time() < 5.0
        await putting
        assert second.texts() == [b"one", b"two"]
        await first.shard.stop()
        await second.shard.stop()

    run(main())


def test_an_empty_disk_starts_with_everything(tmp_path: Path) -> None:
    async def main() -> None:
        objects: dict[str, Any] = {}
        for name in ("a", "b", "c"):
            server = Server(name, tmp_path, objects, [])
            await server.shard.start()
            await server.shard.settled()
            await server.publish(name.encode())
            await server.shard.stop()
        last = Server("d", tmp_path, objects, [])
        await last.shard.start()
        await last.shard.settled()
        assert last.texts() == [b"a", b"b", b"c"]
        await last.shard.stop()

    run(main())


def test_one_of_three_owns_and_hands_over(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await first.shard.step_down()
        second = await owner_of(three, first)
        assert loop.time() - began < 1.0
        assert second.texts() == [b"one"]
        await second.publish(b"two")
        for server in three:
            await server.shard.stop()

    run(main())


def test_servers_that_hear_an_idle_owner_ask_the_bucket_for_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        asked = [len(server.objects.requests) for server in three]
        await asyncio.sleep(100)
        for server, before in zip(three, asked, strict=True):
            later = [request.operation for request in server.objects.requests[before:]]
            assert set(later) == ({"head"} if server is first else set())
            assert len(later) <= 100
        await first.publish(b"two")
        await asyncio.sleep(0.1)
        assert {server.shard.status().number for server in three} == {first.shard.status().number}
        for server in three:
            await server.shard.stop()

    run(main())


def test_a_server_without_a_disk_has_what_opening_reads_when_it_is_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.bucket.snapshots.WAL_OBJECTS", 20)

    async def main() -> None:
        objects: dict[str, Any] = {}
        first = Server("a", tmp_path, objects, [])
        await first.shard.start()
        await first.shard.settled()
        for _ in range(100):
            await first.publish(b"text")
        assert first.shard.status().snapshot > 50
        assert first.shard._term is not None
        assert len(first.shard._term._tasks) <= 3, "what goes on, and nothing of snapshots that are taken"
        texts = first.texts()
        await first.shard.stop()
        reads = Reads(first.objects)
        far = MemoryObjects(lambda _: Fate(LATENCY_S / 2, LATENCY_S / 2), objects)
        second = Opening("b", tmp_path, objects, [], store=far, reads=reads)
        began = asyncio.get_running_loop().time()
        await second.shard.start()
        await second.shard.settled()
        took = asyncio.get_running_loop().time() - began
        assert took <= 15 * LATENCY_S, "whatever is asked for one after the other"
        assert second.texts() == texts
        assert second.asked == [len(reads.requests)] * 2 != [0, 0]
        await second.shard.stop()

    run(main())


def test_a_server_that_replaces_another_has_everything_when_it_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood by on an empty disk for a while; then the owner is gone, with its disk."""
    monkeypatch.setattr("headrace.bucket.snapshots.WAL_OBJECTS", 20)

    async def main() -> None:
        objects: dict[str, Any] = {}
        peers: list[Server] = []
        first = Server("a", tmp_path, objects, peers, is_alone=False)
        peers.append(first)
        await first.shard.start()
        await owner_of(peers)
        for _ in range(100):
            await first.publish(b"text")
        texts = first.texts()
        reads = Reads(first.objects)
        second = Opening("b", tmp_path, objects, peers, is_alone=False, reads=reads)
        peers.append(second)
        await second.shard.start()
        assert second.shard.status().absent_bytes > 0
        while (status := second.shard.status()).cache_state != "whole":
            await asyncio.sleep(0.1)
            assert asyncio.get_running_loop().time() < 20
        assert (status.role, status.absent_bytes, status.cache_trouble) == ("standby", 0, "")
        assert status.filled_bytes == sum(end - start for _, start, end in reads.requests) > 0
        asked = len(reads.requests)
        first.is_cut = True
        first.objects.fate = lambda _: HANGS
        await owner_of([second])
        assert second.asked == [asked, asked]
        assert second.texts() == texts
        assert second.shard.status().cache_state in ("filling", "whole"), "an owner fills its disk, too"
        second.shard.limit_filling(0)
        await asyncio.sleep(60)
        assert second.shard.status().cache_state == "off"
        first.objects.fate = lambda _: PROMPT
        for server in peers:
            await server.shard.stop()

    run(main())


class Opening(Server):
    """A server that notes how much was read of the bucket before its log was opened, and after."""

    async def promoted(self, files: FileSystem, committer: Committer) -> None:
        assert self.reads is not None
        self.asked = [len(self.reads.requests)]
        await super().promoted(files, committer)
        self.asked.append(len(self.reads.requests))


def test_servers_that_stand_by_ask_for_each_object_once_where_nobody_tells_them(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        await asyncio.sleep(2)
        number = first.shard.status().number
        first.tells_no_objects = True
        asked = [server.objects.count("get") for server in three]
        for text in range(40):
            await first.publish(b"%d" % text)
        await asyncio.sleep(0.1)
        written = first.shard.status().number - number
        assert written >= 40
        for server, before in zip(three, asked, strict=True):
            if server is not first:
                assert server.shard.status().number == number + written
                assert server.objects.count("get") - before == written
        for server in three:
            await server.shard.stop()

    run(main())


def test_servers_that_stand_by_ask_for_no_object_that_they_are_told_of(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        await asyncio.sleep(2)
        number = first.shard.status().number
        asked = [len(server.objects.requests) for server in three]
        for text in range(PUBLISHED):
            await first.publish(b"%d" % text)
            await asyncio.sleep(text % 7 * TELL_AFTER_S / 3)  # signs of life come at any moment
        await asyncio.sleep(0.1)
        for server, before in zip(three, asked, strict=True):
            if server is not first:
                assert server.shard.status().number == first.shard.status().number >= number + PUBLISHED
                assert len(server.objects.requests) == before
        await first.shard.step_down()
        second = await owner_of(three, first)
        assert second.texts() == [b"one", *(b"%d" % text for text in range(PUBLISHED))]
        for server in three:
            await server.shard.stop()

    run(main())


def test_who_waits_is_answered_before_others_are_told(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        await asyncio.sleep(2 + BEAT_S / 3)
        before = first.shard.status().number
        await first.publish(b"two")
        assert [server.shard.status().number > before for server in three].count(True) == 1
        await asyncio.sleep(2 * TELL_AFTER_S)
        assert len({server.shard.status().number for server in three}) == 1
        for server in three:
            await server.shard.stop()

    run(main())


def test_objects_are_told_together_and_large_ones_soon(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        await asyncio.sleep(2 + BEAT_S / 3)
        before = first.shard.status().number
        behind = [server for server in three if server is not first]
        for text in range(4):
            await first.publish(b"%d" % text)
            assert {server.shard.status().number for server in behind} == {before}
        await asyncio.sleep(TELL_AFTER_S)
        told = first.shard.status().number
        assert {server.shard.status().number for server in three} == {told}
        assert told >= before + 4
        await first.publish(b"small")
        await first.publish(bytes(TELL_SOON_BYTES))
        await asyncio.sleep(TELL_SOON_S)
        assert {server.shard.status().number for server in three} == {first.shard.status().number}
        assert first.shard.status().number >= told + 2
        for server in three:
            await server.shard.stop()

    run(main())


def test_an_object_that_got_lost_on_the_way_is_read_from_the_bucket(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        await asyncio.sleep(2)
        asked = [server.objects.count("get") for server in three]
        number = first.shard.status().number
        first.loses_objects = True
        await first.publish(b"two")
        await asyncio.sleep(2 * TELL_AFTER_S)
        first.loses_objects = False
        lost = first.shard.status().number - number
        assert lost
        await first.publish(b"three")
        await asyncio.sleep(0.1)
        for server, before in zip(three, asked, strict=True):
            if server is not first:
                assert server.shard.status().number == first.shard.status().number
                assert before + lost <= server.objects.count("get") <= before + lost + 1
        for server in three:
            await server.shard.stop()

    run(main())


def test_many_objects_are_read_at_once_by_a_start(tmp_path: Path) -> None:
    async def main() -> None:
        objects: dict[str, Any] = {}
        first = Server("a", tmp_path, objects, [])
        await first.shard.start()
        await first.shard.settled()
        for text in range(300):
            await first.publish(b"%d" % text)
        await first.shard.stop()
        began = asyncio.get_running_loop().time()
        last = Server("d", tmp_path, objects, [])
        await last.shard.start()
        await last.shard.settled()
        assert asyncio.get_running_loop().time() - began < 300 * 0.005 / 4
        assert await last.publish(b"300") == 301
        await last.shard.stop()

    run(main())


def test_a_server_that_hears_no_owner_looks_for_itself(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        for server in three:
            server.is_cut = True
        await first.publish(b"two")
        number = first.shard.status().number
        await asyncio.sleep(1.1)
        assert {server.shard.status().number for server in three} == {number}
        for server in three:
            await server.shard.stop()

    run(main())


def test_next_look_comes_whatever_the_sum_of_its_times_is(tmp_path: Path) -> None:
    """As floats have it, less than a second has gone then."""
    heard = 7.002

    async def main() -> None:
        three, first = await settled(tmp_path)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(heard - 0.001 - loop.time())
        assert heard + 1.0 - heard < 1.0
        second = next(server for server in three if server is not first)
        status = first.shard.status()
        for server in three:
            server.is_cut = True
        beat = Beat(True, status.epoch, status.number)
        loop.call_at(heard, second.shard.heard, beat, first.name)
        await asyncio.sleep(1.1)
        assert second.objects.requests[-1].at == heard + 1.0
        for server in three:
            await server.shard.stop()

    run(main())


def test_a_silent_owner_is_replaced_and_commits_nothing_more(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        first.is_cut = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        second = await owner_of(three, first)
        assert loop.time() - began < 5.0
        await second.publish(b"two")
        await asyncio.sleep(1.5)
        assert first.shard.role is Role.STANDBY
        assert first.reasons[-1] is not None
        assert second.texts() == [b"one", b"two"]
        for server in three:
            await server.shard.stop()

    run(main())


def test_a_release_that_comes_before_a_suspicious_fence_is_no_reason_to_wait(tmp_path: Path) -> None:
    """The owner gives the shard up while another server, which misses it already, makes its fence."""

    async def main() -> None:
        two = servers(tmp_path, "a", "b")
        for server in two:
            await server.shard.start()
        first = await owner_of(two)
        (other,) = (server for server in two if server is not first)
        await first.publish(b"one")
        await asyncio.sleep(0.5)
        other.objects.fate = lambda request: Fate(0.05 if request.operation == "create" else 0.0025, 0.0025)
        other.is_cut = True  # it hears of no release
        loop = asyncio.get_running_loop()
        began = loop.time()
        other.shard.suspect()
        await asyncio.sleep(0.02)  # it has found nothing, and makes its fence
        await first.shard.stop()
        await owner_of([other])
        assert loop.time() - began < 1.0
        assert other.texts() == [b"one"]
        await other.shard.stop()

    run(main())


def test_an_owner_that_is_cut_off_from_the_bucket_alone_is_replaced(tmp_path: Path) -> None:
    """The others hear it all the time: it says no more that it is the owner."""

    async def main() -> None:
        three, first = await settled(tmp_path)
        loop = asyncio.get_running_loop()
        first.objects.fate = lambda _: FAILS
        began = loop.time()
        second = await owner_of(three, first)
        assert loop.time() - began < 5.0
        await second.publish(b"two")
        assert first.log is None, "it answers nobody beside the new owner"
        assert first.shard.role is Role.STANDBY
        first.objects.fate = lambda _: PROMPT
        await asyncio.sleep(5)
        assert first.shard.status().epoch == second.shard.status().epoch
        assert first.shard.status().number == second.shard.status().number
        for server in three:
            await server.shard.stop()

    run(main())


def test_an_owner_whose_bucket_answers_believes_no_other_server(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        epoch = first.shard.status().epoch
        for _ in range(20):
            first.shard.heard(Beat(True, epoch + 1, 10_000), "somebody")
            await asyncio.sleep(0.5)
        assert first.shard.role is Role.OWNER
        assert await first.publish(b"two") == 2
        for server in three:
            await server.shard.stop()

    run(main())


@pytest.mark.parametrize("seconds", [6, 9, 60])
@pytest.mark.parametrize("fate", [FAILS, HANGS], ids=["fails", "hangs"])
@pytest.mark.parametrize("seed", range(4))
def test_an_owner_whose_disk_has_more_than_the_bucket_keeps_the_shard_while_that_is_away_for_all(
    tmp_path: Path, seconds: int, fate: Fate, seed: int
) -> None:
    """Else another server would take over when the bucket is back, without what is on that disk alone."""

    async def main() -> None:
        three, first = await settled(tmp_path, "disk")
        await asyncio.sleep(1 + seed / 4)
        for server in three:
            server.objects.fate = lambda _: fate
        assert await first.publish(b"two") == 2
        await asyncio.sleep(seconds)
        for server in three:
            server.objects.fate = lambda _: PROMPT
        await asyncio.sleep(10)
        assert await owner_of(three) is first
        assert first.texts() == [b"one", b"two"]
        assert first.shard.status().lag_bytes == 0
        for server in three:
            await server.shard.stop()

    run(main())


def test_an_owner_with_more_on_its_disk_that_is_cut_off_alone_is_replaced_when_it_may_be_no_later(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path, "disk")
        loop = asyncio.get_running_loop()
        first.objects.fate = lambda _: FAILS
        await first.publish(b"two")
        began = loop.time()
        second = await owner_of(three, first)
        assert MAX_LAG_S - 1 <= loop.time() - began < MAX_LAG_S + 4
        assert second.texts() == [b"one"]
        assert first.log is None
        first.objects.fate = lambda _: PROMPT
        await asyncio.sleep(5)
        assert [name.name for name in (first.directory / ".bucket").iterdir() if "lost" in name.name] == [
            "backlog.lost-2"
        ]
        for server in three:
            await server.shard.stop()

    run(main())


@pytest.mark.parametrize("commit", ["bucket", "disk"])
def test_a_start_names_the_backlogs_that_were_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, commit: Literal["bucket", "disk"]
) -> None:
    kept = [tmp_path / "a/.bucket" / name for name in ("backlog.lost-7", "backlog.lost-7+")]
    for folder in kept:
        folder.mkdir(parents=True)

    async def main() -> None:
        server = Server("a", tmp_path, {}, [], commit=commit)
        await server.shard.start()
        await server.shard.settled()
        await server.shard.step_down()
        await owner_of([server])
        await server.shard.stop()

    run(main())
    named = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(named) == 1
    assert named[0].startswith("Shard jetstream: ")
    assert all(str(folder) in named[0] and folder.is_dir() for folder in kept)


def test_a_start_without_a_backlog_that_was_set_aside_warns_of_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        server = Server("a", tmp_path, {}, [], commit="disk")
        await server.shard.start()
        await server.shard.settled()
        await server.shard.stop()

    run(main())
    assert not [each for each in caplog.records if each.levelno == logging.WARNING]


def test_positions_go_on_over_servers_that_were_told_of_the_objects(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path, "disk")
        for number in range(5):
            await first.publish(b"%d" % number)
            await asyncio.sleep(1)
        highest = max(_positions(first))
        first.is_cut = True
        for server in three:
            if server is not first:
                server.shard.suspect()
        second = await owner_of(three, first)
        (fence,) = [each for each in _objects(second) if each.kind is Kind.FENCE and each.epoch == 2]
        assert fence.position == highest
        await second.publish(b"more")
        await asyncio.sleep(1)
        assert max(_positions(second)) > highest
        for server in three:
            await server.shard.stop()

    run(main())


def _objects(server: Server) -> list[WalObject]:
    """The log in the bucket, in order."""
    keys = sorted(key for key in server.objects.objects if "/wal/" in key)
    return [
        WalObject.unpack(server.objects.objects[key][0], KEYS.shard, KEYS.number_of(key) or 0) for key in keys
    ]


def _positions(server: Server) -> list[int]:
    return [each.position for each in _objects(server)]


def test_a_server_that_is_gone_is_not_told_of_each_commit(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        gone = next(server for server in three if server is not first)
        await gone.shard.stop()
        await asyncio.sleep(5)
        beats = 0
        tell = first.tell

        def count(beat: Beat) -> None:
            nonlocal beats
            beats += 1
            tell(beat)

        first.tell = count  # type: ignore[method-assign]
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(100):
            await first.publish(b"%d" % number)
        assert beats <= (loop.time() - began) / BEAT_S + 1
        for server in three:
            await server.shard.stop()

    run(main())


class LateObjects(MemoryObjects):
    """Objects whose third answer comes when `is_late` is set."""

    def __init__(self, objects: dict[str, Any]) -> None:
        super().__init__(objects=objects)
        self.is_late = asyncio.Event()

    async def _request(self, operation: str, key: str, effect: Callable[[], Any]) -> Any:
        try:
            return await super()._request(operation, key, effect)
        finally:
            if len(self.requests) == 3:
                await self.is_late.wait()


def test_a_refusal_in_the_moment_in_which_a_start_ends_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        objects = LateObjects({"photo.jpg": (b"", 0)})
        server = Server("a", tmp_path, {}, [], store=objects)
        asyncio.get_running_loop().call_later(BEGIN_S, objects.is_late.set)
        with pytest.raises(NotOurs, match="holds photo"):
            await server.shard.start()
        await server.shard.stop()

    run(main())


def test_servers_that_are_gone_for_long_are_not_shown(tmp_path: Path) -> None:
    async def main() -> None:
        server = Server("a", tmp_path, {}, [], is_alone=False)
        await server.shard.start()
        await owner_of([server])
        for number in range(150):
            server.shard.heard(Beat(False, 1, 1), f"standby {number}")
            await asyncio.sleep(1)
        shown = [each.server for each in server.shard.status().standbys]
        assert shown[-1] == "standby 149"
        assert len(shown) < 100
        await server.shard.stop()

    run(main())


def test_a_suspected_owner_is_replaced_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        first.is_cut = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        for server in three:
            if server is not first:
                server.shard.suspect()
        second = await owner_of(three, first)
        assert loop.time() - began < 0.2
        assert second.texts() == [b"one"]
        for server in three:
            await server.shard.stop()

    run(main())


def test_an_end_waits_for_a_bucket_that_is_away_for_so_long_only(tmp_path: Path) -> None:
    async def main() -> None:
        server = Server("a", tmp_path, {}, [])
        await server.shard.start()
        await server.shard.settled()
        assert await server.publish(b"one") == 1
        server.objects.fate = lambda _: FAILS
        with pytest.raises(StorageError, match="not confirmed"):
            await server.publish(b"two")
        began = asyncio.get_running_loop().time()
        await server.shard.stop()
        assert asyncio.get_running_loop().time() - began < RELEASE_S + 1

    run(main())


def test_a_start_does_not_wait_for_a_bucket_that_does_not_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        server = Server("a", tmp_path, {}, [])
        server.objects.fate = lambda _: FAILS
        await server.shard.start()
        await server.shard.settled()
        assert asyncio.get_running_loop().time() == pytest.approx(BEGIN_S)
        assert "its streams are there when the bucket answers" in caplog.text
        server.shard.suspect()
        await asyncio.sleep(10)
        assert server.objects.count("get") < 20, "it is asked now and then"
        server.objects.fate = lambda _: PROMPT
        await owner_of([server])
        assert await server.publish(b"one") == 1
        assert server.shard.status().trouble == ""
        await server.shard.stop()

    run(main())


def test_a_start_that_hears_nothing_can_be_ended(tmp_path: Path) -> None:
    async def main() -> None:
        server = Server("a", tmp_path, {}, [])
        server.objects.fate = lambda _: HANGS
        await server.shard.start()
        assert server.shard.status().trouble
        await server.shard.stop()
        assert asyncio.get_running_loop().time() <= BEGIN_S + STANDBY_END_S
        assert server.shard.role is Role.STOPPED

    run(main())


def test_a_prefix_of_somebody_else_ends_the_start_and_is_waited_for_afterwards(tmp_path: Path) -> None:
    async def main() -> None:
        server = Server("a", tmp_path, {"photo.jpg": (b"", 0)}, [])
        with pytest.raises(NotOurs, match="holds photo"):
            await server.shard.start()
        await server.shard.stop()

        late = Server("b", tmp_path, {"photo.jpg": (b"", 0)}, [])
        late.objects.fate = lambda _: FAILS
        await late.shard.start()
        late.objects.fate = lambda _: PROMPT
        await asyncio.sleep(2)
        assert "holds photo.jpg" in late.shard.status().trouble
        assert list(late.objects.objects) == ["photo.jpg"]
        await late.shard.stop()

    run(main())


def test_a_server_that_stands_by_ends_though_the_bucket_does_not_answer(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        loop = asyncio.get_running_loop()
        for server in three:
            server.objects.fate = lambda _: HANGS
        first.is_cut = True
        await asyncio.sleep(5)
        for server in three:
            if server is not first:
                began = loop.time()
                await server.shard.stop()
                assert loop.time() - began <= STANDBY_END_S
        await first.shard.stop()

    run(main())


def test_objects_that_are_gone_for_no_newer_snapshot_are_asked_for_now_and_then(tmp_path: Path) -> None:
    async def main() -> None:
        three, first = await settled(tmp_path)
        standby = next(server for server in three if server is not first)
        first.is_cut = True
        for server in three:  # somebody removes the log, and there is no snapshot
            for key in [each for each in server.objects.objects if "/wal/" in each]:
                del server.objects.objects[key]
        server.objects.objects[KEYS.wal(1000)] = (
            WalObject("jetstream", 1, bytes(16), 1000, Kind.COMMIT, 0).pack(),
            0,
        )
        before = len(standby.objects.requests)
        await asyncio.sleep(10)
        assert len(standby.objects.requests) - before < 200
        assert "is deleted" in standby.shard.status().trouble
        for server in three:
            await server.shard.stop()

    run(main())


def test_an_owner_says_when_the_bucket_goes_and_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        server = Server("a", tmp_path, {}, [])
        await server.shard.start()
        await server.shard.settled()
        server.objects.fate = lambda _: FAILS
        await asyncio.sleep(2)
        server.objects.fate = lambda _: PROMPT
        await asyncio.sleep(10)
        assert "answers" not in caplog.text, "a moment is not worth a line"
        server.objects.fate = lambda _: FAILS
        await asyncio.sleep(10)
        assert caplog.text.count("nothing is stored until the bucket answers: head of") == 1
        with pytest.raises(StorageError, match="failed"):
            await server.publish(b"one")
        server.objects.fate = lambda _: PROMPT
        await asyncio.sleep(3)
        assert caplog.text.count("the bucket answers again, after 1") == 1
        assert await server.publish(b"two") == 1
        assert "failed" in server.shard.status().last_error
        await server.shard.stop()

    caplog.set_level(logging.INFO)
    run(main())


async def published_at_once(server: Server) -> int:
    """Publish until the budget is used up; return how many went in."""
    for count in range(1000):
        try:
            await server.publish(b"x")
        except StorageError:
            return count
    return 1000


def test_another_budget_of_puts_holds_for_this_term_and_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        server = Server("a", tmp_path, {}, [])
        await server.shard.start()
        await server.shard.settled()
        server.shard.limit_puts(0.001)  # with the one of before, a token comes each 20 ms
        assert 190 <= await published_at_once(server) <= 200
        await server.shard.step_down()
        assert await owner_of([server]) is server
        assert 190 <= await published_at_once(server) <= 200
        await server.shard.stop()

    run(main())
