"""One server of a shard with everything in it: the real shard, its snapshots, its local cache and its
collection, and the log of a file store over it. The disk is in memory; it outlives processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.bucket.committer import PROOF_S
from headrace.bucket.place import ShardPlace
from headrace.bucket.requests import BucketRequests
from headrace.bucket.shard import Role, Shard
from headrace.conf.bucket_options import BucketOptions
from headrace.errors import HeadraceError
from headrace.log.port import NewMessage, SyncPolicy
from headrace.log.store import FileStore
from headrace.objects.errors import KeyMissing, StoreError
from headrace.objects.port import ObjectInfo
from headrace.testing.faultfs import MemoryFileSystem
from simulation.bucket.records import Record, Records
from simulation.bucket.server import NOT_OWNER, PAGE, WRONG_LAST, World
from simulation.bucket.store import START_NS, Connection
from simulation.scenario import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.bucket.port import Beat
    from headrace.log.committer import Committer
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import MessageLog
    from simulation.bucket.server import Reply

T = TypeVar("T")

DIRECTORY: Final = Path("/store")
LOG: Final = b"log"
SEGMENT_BYTES: Final = 2048
_silent: Final = logging.getLogger("headrace.simulated")
_silent.propagate = False
_silent.addHandler(logging.NullHandler())


async def at_once(work: Callable[[], T]) -> T:
    return work()


class Reads:
    """The bucket for threads, which a simulation has none of: it answers at once, or not."""

    location = "simulated"

    def __init__(self, world: World, connection: Connection) -> None:
        self._world: Final = world
        self._connection: Final = connection

    def get(self, key: str) -> bytes:
        bucket = self._world.bucket
        if self._connection.is_cut or bucket.is_away or bucket.is_refusing:
            raise StoreError(f"{key}: the store cannot be reached")
        if key not in bucket.objects:
            raise KeyMissing(f"{key} is not there")
        return bucket.objects[key][0]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get(key)[start:end]

    def head(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(self.get(key)))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        for key in sorted(self._world.bucket.objects):
            if key.startswith(f"{prefix}/") and key > after:
                yield ObjectInfo(key, len(self._world.bucket.objects[key][0]))


class Tenure:
    """What is served while the shard is owned: one log, and an index of it."""

    def __init__(self, files: FileSystem, committer: Committer, clock: Callable[[], int]) -> None:
        self.store: Final = FileStore(
            DIRECTORY,
            clock=clock,
            sync=SyncPolicy.NEVER,
            segment_bytes=SEGMENT_BYTES,
            filesystem=files,
            remembers=False,
        )
        self.committer: Final = committer
        self.records: Final = Records()
        try:
            self.log: Final[MessageLog] = self._open()
        except HeadraceError:
            self.close()
            raise
        self.durable = len(self.records.all)

    def close(self) -> None:
        """Close the files. Of a shard that is lost nothing can be written any more."""
        with contextlib.suppress(HeadraceError, OSError):
            self.store.close()

    def _open(self) -> MessageLog:
        """Open the log and index it. Raises: LogError, StorageError."""
        log = self.store.open(LOG)
        page = log.read_from(1, max_messages=100_000, max_bytes=1 << 30)
        for message in page.messages:
            text = message.payload.decode()
            self.records.add(Record(message.sequence, text, message.subject.decode(), text))
        return log


class LogServer:
    """As `server.Server`, over the real shard."""

    speaks_s = PROOF_S
    """Seconds after the last proof of ownership for which requests are answered."""

    def __init__(self, world: World, name: str) -> None:
        self.world: Final = world
        self.name: Final = name
        self.is_isolated = False
        self.skew_ns = int(world.chance.uniform(-3600, 3600) * 1e9)
        self.store = Connection(world.bucket)
        self.disk = MemoryFileSystem()
        self.process = world.loop.process(name)
        self.term: Tenure | None = None
        self.shard: Shard | None = None
        self._starts = 0

    # -- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._starts += 1
        self.term = None
        self.disk.kill()
        self.process = self.world.loop.process(f"{self.name}.{self._starts}")
        self.process.run(self._live())

    def lose_disk(self) -> None:
        """Have an empty disk from the next start on."""
        self.disk = MemoryFileSystem()

    def lose_power(self) -> None:
        """Have of what was not synced what chance says."""
        self.disk.crash(self.world.chance)

    def _place(self) -> ShardPlace:
        world = self.world
        requests = BucketRequests(self.store, world.chance.random)
        return ShardPlace(
            world.keys,
            requests,
            Reads(world, self.store),  # type: ignore[arg-type]
            DIRECTORY,
            self.disk,
            self.name,
            "",
            BucketOptions(url="memory://", history=world.history_s),
            self.wall_ns,
            world.chance,
            requests.counts,
            at_once,  # type: ignore[arg-type]
        )

    async def _live(self) -> None:
        world, place = self.world, self._place()
        is_alone = not any(True for _ in world.peers(self))  # type: ignore[arg-type]
        self.shard = Shard(place, self, _silent, is_alone=is_alone)
        while True:
            try:
                await self.shard.start()
            except HeadraceError as error:
                world.tell(f"{self.name}: {error}")
                await asyncio.sleep(0.5)
            else:
                return

    def wall_ns(self) -> int:
        return START_NS + int(self.world.loop.time() * 1e9) + self.skew_ns

    def suspect(self) -> None:
        if self.shard is not None and self.process.is_alive:
            self.process.call(self.shard.suspect)

    @property
    def is_owner(self) -> bool:
        return (
            self.term is not None
            and self.shard is not None
            and self.shard.role is Role.OWNER
            and self.is_proven
        )

    @property
    def is_proven(self) -> bool:
        return self.shard is not None and self.world.loop.time() - self.shard.last_proof <= self.speaks_s

    # -- what the shard asks for (`ShardHost`) -----------------------------------------------------------

    async def promoted(self, files: FileSystem, committer: Committer) -> None:
        self.world.tell(f"{self.name} owns")
        assert self.shard is not None
        tenure = Tenure(files, committer, self.wall_ns)
        try:
            self.world.serving(self, tenure.records, self.shard.last_proof)  # type: ignore[arg-type]
        except Violation as violation:
            self.world.violate(violation)
        self.term = tenure

    async def demoted(self, reason: str | None) -> None:
        self.world.tell(f"{self.name} is demoted: {reason}")
        term, self.term = self.term, None
        if term is not None and reason is None:
            term.store.close()
        elif term is not None:
            term.close()

    def tell(self, beat: Beat) -> None:
        if not self.is_isolated:
            for peer in self.world.peers(self):  # type: ignore[arg-type]
                self.world.network.send(peer, peer.heard, beat, self.name)  # type: ignore[attr-defined]

    def tell_object(self, server_id: str, sealed: bytes) -> bool:
        if not self.is_isolated:
            for peer in self.world.peers(self):  # type: ignore[arg-type]
                if peer.name == server_id:
                    self.world.network.send_badly(peer, peer.heard_object, sealed)  # type: ignore[attr-defined]
        return True

    def heard_object(self, sealed: bytes) -> None:
        if self.shard is not None:
            self.shard.heard_object(sealed)

    def heard(self, beat: Beat, name: str) -> None:
        if self.shard is not None:
            self.shard.heard(beat, name)

    # -- requests of clients -----------------------------------------------------------------------------

    def publish(self, reply: Reply, identity: str, key: str, value: str, expected: int | None) -> None:
        term = self._serving(reply)
        if term is None:
            return
        known = term.records.by_identity.get(identity)
        if known is not None:
            self._when_durable(term, reply, known)
            return
        last = (term.records.by_key.get(key) or [0])[-1]
        if expected is not None and last != expected:
            self._when_durable(term, reply, WRONG_LAST)
            return
        try:
            sequence = term.log.append([NewMessage(key.encode(), value.encode())])
        except (HeadraceError, OSError) as error:
            self.world.tell(f"{self.name} refuses: {error}")
            return
        self._added(term, Record(sequence, identity, key, value))
        self._when_durable(term, reply, sequence)

    def read(self, reply: Reply, key: str) -> None:
        if (term := self._serving(reply)) is not None:
            reply((term.records.newest(key, term.durable),))

    def page(self, reply: Reply, first: int) -> None:
        if (term := self._serving(reply)) is not None:
            end = min(term.durable, first - 1 + PAGE)
            messages = term.log.read_from(first, max_messages=PAGE).messages if end >= first else []
            found: list[Any] = []
            for message in messages:
                if message.sequence <= end:
                    text = message.payload.decode()
                    found.append(Record(message.sequence, text, message.subject.decode(), text))
            reply(found)

    def _when_durable(self, term: Tenure, reply: Reply, answer: object) -> None:
        last = len(term.records.all)

        def done(error: Exception | None) -> None:
            if error is None and self.term is term:
                self._confirmed(term, last)
                reply(answer)

        term.committer.request(term.log, done)

    def _added(self, term: Tenure, record: Record) -> None:
        """Note a record that is in the log, and durable nowhere yet."""
        term.records.add(record)

    def _confirmed(self, term: Tenure, last: int) -> None:
        """Note that the records up to a sequence are durable, before anybody is told."""
        term.durable = max(term.durable, last)

    def _serving(self, reply: Reply) -> Tenure | None:
        if not self.is_owner:
            reply(NOT_OWNER)
            return None
        return self.term
