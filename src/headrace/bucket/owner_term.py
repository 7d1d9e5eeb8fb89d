"""A term: from the fence of an owner until it gives the shard up, or another server has taken it.

Here lives what an owner has, put together: the files that services write, the journal of their changes,
the writer of the WAL, snapshots and the collection of what nobody needs. Never here: when a term begins
(`shard`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.bucket.capture import CapturingFileSystem
from headrace.bucket.collection import Collector
from headrace.bucket.owner_watch import SILENCE_S
from headrace.bucket.peers import HeardServer
from headrace.bucket.snapshots import Snapshotter, Term
from headrace.bucket.status import StandbyStatus
from headrace.bucket.told_objects import ObjectTeller
from headrace.bucket.writer import WalWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.bucket.claim import Claim
    from headrace.bucket.commits import Commits
    from headrace.bucket.errors import BucketError
    from headrace.bucket.manifest import Manifest
    from headrace.bucket.place import ShardPlace
    from headrace.bucket.port import Beat
    from headrace.bucket.replica import Replica
    from headrace.bucket.status import ShardStatus
    from headrace.log.filesystem import FileSystem

ALIVE_S: Final = 1.0
"""Seconds between two objects that say, where no peer hears it, that the owner lives."""
TELL_AFTER_S: Final = 0.02
"""Seconds from a commit until those that stand by are told of it, and of all that came meanwhile: several at
once cost both sides little more than one. Who takes over meanwhile reads the rest from the bucket."""
TELL_SOON_S: Final = 0.002
"""The same where much waits to be told: first those are answered who wait, and what they send next is on its
way to the bucket. Then there is time."""
TELL_SOON_BYTES: Final = 256 << 10
"""Bytes that are much."""
FORGOTTEN_S: Final = 60.0
"""Seconds of silence after which a server is not shown any more among those that stand by."""


class OwnerTerm:
    """The parts of one term. `commits`: what acknowledged means in it; they are the term's to stop. `tell`:
    called when something was committed that not all were told.

    `tell_object`: sends a sealed object to a server (`ShardHost`).

    `is_alone`: there are no peers, so nobody has to be told in the bucket that the owner lives.
    """

    def __init__(
        self,
        place: ShardPlace,
        replica: Replica,
        claim: Claim,
        commits: Commits,
        tell: Callable[[], object],
        *,
        tell_object: Callable[[str, bytes], bool],
        is_alone: bool,
    ) -> None:
        self.epoch: Final = claim.epoch
        self.is_closed: Final = asyncio.Event()
        """Set when everything of the term is closed."""
        self.peers: Final[dict[str, HeardServer]] = {}
        """The last signs of life of the other servers, by server id."""
        self.trouble: str | None = None
        """Why requests fail now; None: they do not."""
        self.cache_trouble: str | None = None
        """Why local files could not be kept for the next start; None: they could."""
        self._loop: Final = asyncio.get_running_loop()
        self._ended: Final[asyncio.Future[str | None]] = self._loop.create_future()
        self._tell: Final = tell
        self._teller: Final = ObjectTeller(place.keys.shard, claim.epoch, claim.writer, tell_object)
        self._untold: Final[deque[tuple[int, bytes]]] = deque()
        """Objects that were confirmed, and that nobody was told of."""
        self._untold_bytes = 0
        self._telling: asyncio.TimerHandle | None = None
        self._trouble_since = 0.0
        self._heard_at = self._loop.time()
        self._seen_bytes = 0
        self._stored_bytes = 0
        self._cache: Final = replica.cache
        self._commits: Final = commits
        self.journal: Final = commits.journal
        self.committer: Final = commits.committer
        self.writer: Final = self._wal_writer(place, claim)
        self.files: Final[FileSystem] = CapturingFileSystem(
            place.files, place.directory, replica.tree, self.journal, replica.cache
        )
        self.snapshots: Final = self._snapshotter(place, replica, claim)
        self._collector: Final = Collector(
            place.store,
            place.keys,
            self.snapshots,
            fences=replica.fences,
            history_s=place.options.history,
            prove=self.writer.prove,
            collected=replica.collected,
        )
        self._collect_after: Final = self.snapshots.when_taken
        self.snapshots.when_taken = self._note_snapshot
        self._is_alone: Final = is_alone
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        """The tasks of the term: some last as long as it, some for a moment with each snapshot."""

    def _wal_writer(self, place: ShardPlace, claim: Claim) -> WalWriter:
        return WalWriter(
            place.store,
            place.keys,
            claim,
            self._commits.source,
            covered=self._commits.covered,
            puts_in_flight=place.options.puts_in_flight,
            puts_per_second=place.options.puts_per_second,
            wall_ns=place.wall_ns,
            jitter=place.random.random,
            committed=self._committed,
            confirmed=self._confirmed,
            lost=self._lost,
            trouble=self._note_trouble,
            offload=place.offload,
        )

    def _snapshotter(self, place: ShardPlace, replica: Replica, claim: Claim) -> Snapshotter:
        return Snapshotter(
            place.store,
            place.keys,
            Term(place.keys.shard, claim.epoch, claim.writer),
            tree=replica.tree,
            recorder=self.journal,
            files=place.files,
            directory=place.directory,
            fences=replica.fences,
            wall_ns=place.wall_ns,
            admit=self.writer.admit,
            latest=replica.snapshot,
            offload=place.offload,
        )

    def start(self) -> None:
        """Begin to write, to take snapshots and to collect."""
        self._commits.start(self.writer)
        self.writer.start()
        self._run(self.snapshots.run())
        self._run(self._collector.run())
        if not self._is_alone:
            self._run(self._say_alive())

    def _run(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Forget a task that has ended; have the server hear of a mistake in this program."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "a part of an owner ended", "exception": error})

    async def ended(self) -> str | None:
        """Wait for the end; return why the shard is lost, None if it is to be given up in order."""
        return await asyncio.shield(self._ended)

    def end(self, reason: str | None) -> None:
        """Have the term end. A shard that is lost stays lost, whatever is asked for afterwards."""
        if not self._ended.done():
            self._ended.set_result(reason)

    def lose(self, reason: str) -> None:
        """End the term at once: nothing is committed, and nobody is told that anything was."""
        self.journal.end(reason)
        self._commits.fail(reason)
        self.end(reason)

    async def release(self) -> None:
        """Commit what is recorded, and give the shard up: whoever reads of it may claim it at once.

        Raises: BucketError if it was lost meanwhile.
        """
        await self._commits.flush()
        await self.writer.release()
        self.tell_objects()
        await self._commits.settle()

    async def close(self) -> None:
        """Stop everything that is under way. Nothing is told any more, and no file is changed."""
        self.writer.stop()
        self.journal.end("this server does not own the shard any more")
        self._commits.stop()
        if self._telling is not None:
            self._telling.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.is_closed.set()

    @property
    def lag_bytes(self) -> int:
        """Bytes of changes that the bucket does not have."""
        return self._commits.lag()[1]

    def heard(self, server_id: str, name: str, beat: Beat, now: float) -> None:
        """Take what another server said; those that have been silent for long are forgotten."""
        self._heard_at = now
        if server_id not in self.peers:
            for gone in [each for each, peer in self.peers.items() if now - peer.at > FORGOTTEN_S]:
                del self.peers[gone]
        self.peers[server_id] = HeardServer(name or server_id, beat, now)
        self._teller.heard(server_id, now)

    def shown_in(self, status: ShardStatus, now: float) -> ShardStatus:
        """Return a status with what the owner knows."""
        writer, latest = self.writer, self.snapshots.latest
        lag_s, lag_bytes = self._commits.lag()
        trouble = self.trouble or self.snapshots.trouble or self._collector.trouble or self.cache_trouble
        return replace(
            status,
            epoch=self.epoch,
            number=writer.durable,
            snapshot=status.snapshot if latest is None else latest.number,
            lag_s=lag_s,
            lag_bytes=lag_bytes,
            behind=0,
            stored_bytes=self._stored_bytes,
            commits=writer.times.histogram(),
            standbys=tuple(
                StandbyStatus(peer.name, max(writer.durable - peer.beat.number, 0), now - peer.at)
                for peer in self.peers.values()
                if now - peer.at <= FORGOTTEN_S
            ),
            trouble=trouble or status.trouble,
            trouble_s=now - self._trouble_since if self.trouble else status.trouble_s,
            last_error=self._commits.last_refusal or status.last_error,
        )

    # -- what the writer tells ------------------------------------------------------------------------

    def _committed(self, position: int, number: int) -> None:
        size, self._seen_bytes = self.writer.bytes - self._seen_bytes, self.writer.bytes
        self._commits.reached(position)
        self.snapshots.committed(position, number, size)

    def _confirmed(self, number: int, data: bytes) -> None:
        was_much = self._untold_bytes >= TELL_SOON_BYTES
        self._untold.append((number, data))
        self._untold_bytes += len(data)
        is_much = self._untold_bytes >= TELL_SOON_BYTES
        if self._telling is not None and is_much and not was_much:
            self._telling.cancel()
            self._telling = None
        if self._telling is None:
            wait = TELL_SOON_S if is_much else TELL_AFTER_S
            self._telling = self._loop.call_later(wait, self._tell_in_time)

    def _tell_in_time(self) -> None:
        if not self.tell_objects():
            self._tell()

    def tell_objects(self) -> bool:
        """Tell those that stand by of what was confirmed; False if one of them was not told of everything.

        It comes before a sign of life, which says how far the log is: who lacks something asks the bucket.
        """
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self._untold_bytes = 0
        now, is_told = self._loop.time(), True
        lately = [each for each, peer in self.peers.items() if now - peer.at <= SILENCE_S]
        while self._untold:
            number, data = self._untold.popleft()
            is_told &= self._teller.confirmed(number, data, now).issuperset(lately)
        return is_told

    def _lost(self, error: BucketError) -> None:
        self.lose(str(error))

    def _note_trouble(self, reason: str | None) -> None:
        if self.trouble is None:
            self._trouble_since = self._loop.time()
        self.trouble = reason
        self._commits.note_trouble(reason)

    def _note_snapshot(self, manifest: Manifest) -> None:
        """Have local files that are in the bucket now be known for the next start, or make room."""
        self._stored_bytes = sum(extent.size for file in manifest.files for extent in file.extents)
        self._collect_after(manifest)
        self._run(self._tidy_cache())

    async def _tidy_cache(self) -> None:
        try:
            self._cache.make_room()
            await self._cache.save()
        except OSError as error:  # the next snapshot tries again; a start takes longer until then
            self.cache_trouble = f"local files: {error.strerror or error}"
        else:
            self.cache_trouble = None

    async def _say_alive(self) -> None:
        """Commit an empty object now and then while no peer is heard: others read of it that it lives."""
        while True:
            await asyncio.sleep(ALIVE_S)
            if self._loop.time() - self._heard_at > SILENCE_S:
                self.writer.touch()
