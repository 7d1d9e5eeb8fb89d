"""One server of a shard: it stands by, claims, owns, and stands by again, over the real follower, claim and
writer. Its state are records instead of files; snapshots and the deletion of what they cover are simple here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from headrace.bucket import keys as bucket_keys
from headrace.bucket.claim import claim
from headrace.bucket.committer import PROOF_S
from headrace.bucket.errors import Behind, BucketError, Overtaken
from headrace.bucket.follower import Point, WalFollower
from headrace.bucket.told_objects import ObjectTeller
from headrace.bucket.wal_object import WRITER_BYTES, Kind
from headrace.bucket.writer import WalWriter
from headrace.objects.errors import StoreError
from simulation.bucket.records import Broken, Record, RecordJournal, Records
from simulation.bucket.store import START_NS, Bucket, Connection
from simulation.scenario import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from random import Random

    from harness.virtual_loop import VirtualLoop
    from headrace.bucket.claim import Claim
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.wal_object import WalObject
    from simulation.bucket.network import Network

    Reply = Callable[[object], None]

T = TypeVar("T")

SILENCE_S: Final = 2.0
LOOK_S: Final = 1.0
BEAT_S: Final = 0.5
RETRY_S: Final = 0.2
PAGE: Final = 20


class World(Protocol):
    """What a server sees of the run."""

    loop: VirtualLoop
    bucket: Bucket
    network: Network
    keys: ShardKeys
    chance: Random
    history_s: float
    """Seconds for which what a snapshot covers is kept."""
    snapshot_after: int
    """WAL objects between two snapshots."""

    def peers(self, server: Server) -> Iterable[Server]: ...
    def tell(self, line: str) -> None: ...
    def violate(self, violation: Violation) -> None: ...
    def serving(self, server: Server, records: Records, proved_at: float) -> None:
        """A server begins to serve; it was the owner at that time of the loop. Raises: Violation."""


class Refusal(NamedTuple):
    """The answer to a request that was not carried out, and never will be."""

    reason: str


NOT_OWNER: Final = Refusal("not the owner")
WRONG_LAST: Final = Refusal("wrong last sequence")


class _Snapshot(msgspec.Struct, array_like=True):
    """The records up to a WAL object, and where a reader goes on behind it."""

    number: int
    epoch: int
    writer: bytes
    fences: list[int]
    records: bytes


_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(_Snapshot).decode


class Replica:
    """The records as far as the log was read, and its fences."""

    def __init__(self, records: Records, point: Point, fences: list[int]) -> None:
        self.records: Final = records
        self.point: Final = point
        self.fences: Final = fences

    @classmethod
    async def load(cls, store: Connection, keys: ShardKeys) -> Replica:
        """Read the newest snapshot that a listing shows; nothing where there is none. Raises: StoreError."""
        numbers = [keys.number_of(info.key) or 0 async for info in store.list(keys.snapshots_prefix)]
        if not numbers:
            return cls(Records(), Point(0, 0, b""), [])
        held = _unpack(await store.get(keys.snapshot(max(numbers))))
        return cls(Records.unpack(held.records), Point(held.number, held.epoch, held.writer), held.fences)

    def apply(self, wal_object: WalObject) -> None:
        if wal_object.kind == Kind.FENCE:
            self.fences.append(wal_object.number)
        self.records.apply(wal_object)


class Term:
    """One ownership: what was taken in, what of it is durable, and who waits for it."""

    def __init__(self, server: Server, replica: Replica, claimed: Claim) -> None:
        self.records: Final = replica.records
        self.durable = len(self.records.all)
        self.claim: Final = claimed
        self.over: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self._server: Final = server
        self._fences: Final = replica.fences
        self._journal: Final = RecordJournal(self.durable)
        self._waiting: Final[list[tuple[int, Reply, object]]] = []
        self._snapshot_due = claimed.next_number + server.world.snapshot_after
        self._is_snapping = False
        self._snapshots: Final[list[tuple[int, float]]] = []
        """Those of this term: the number, and when it was there."""
        self.writer: Final = WalWriter(
            server.store,
            server.world.keys,
            claimed,
            self._journal,
            puts_per_second=200.0,
            wall_ns=server.wall_ns,
            jitter=server.world.chance.random,
            committed=self._committed,
            lost=self.end,
            trouble=lambda _trouble: None,
            confirmed=self._confirmed,
        )
        self._teller: Final = ObjectTeller(
            server.world.keys.shard, claimed.epoch, claimed.writer, server.tell_object
        )

    @property
    def is_proven(self) -> bool:
        """True if reads may be answered."""
        return asyncio.get_running_loop().time() - self.writer.last_proof <= PROOF_S

    def end(self, reason: BucketError) -> None:
        self._server.world.tell(f"{self._server.name} lost: {reason}")
        if not isinstance(reason, Overtaken):
            self._server.world.violate(Violation(f"{self._server.name}: {reason!r}"))
        if not self.over.done():
            self.over.set_result(None)

    def publish(self, reply: Reply, identity: str, key: str, value: str, expected: int | None) -> None:
        known = self.records.by_identity.get(identity)
        if known is not None:
            self._when_durable(known, reply, known)
            return
        sequences = self.records.by_key.get(key)
        last = sequences[-1] if sequences else 0
        if expected is not None and last != expected:
            self._when_durable(last, reply, WRONG_LAST)
            return
        record = Record(len(self.records.all) + 1, identity, key, value)
        self.records.add(record)
        self._journal.record(record)
        self._when_durable(record.sequence, reply, record.sequence)
        self.writer.kick()

    def read(self, reply: Reply, key: str) -> None:
        reply((self.records.newest(key, self.durable),))

    def page(self, reply: Reply, first: int) -> None:
        reply(self.records.all[first - 1 : min(self.durable, first - 1 + PAGE)])

    def _when_durable(self, sequence: int, reply: Reply, answer: object) -> None:
        if sequence <= self.durable:
            reply(answer)
        else:
            self._waiting.append((sequence, reply, answer))

    def _confirmed(self, number: int, data: bytes) -> None:
        now = self._server.world.loop.time()
        for peer in self._server.world.peers(self._server):
            self._teller.heard(peer.name, now)
        self._teller.confirmed(number, data, now)

    def _committed(self, position: int, number: int) -> None:
        self.durable = max(self.durable, position)
        waiting, self._waiting[:] = self._waiting[:], []
        for sequence, reply, answer in waiting:
            self._when_durable(sequence, reply, answer)
        if number >= self._snapshot_due and not self._is_snapping:
            self._snapshot_due = number + self._server.world.snapshot_after
            self._is_snapping = True
            fences = [fence for fence in self._fences if fence <= number]
            records = _pack(self.records.all[: self.durable])
            held = _Snapshot(number, self.claim.epoch, self.claim.writer, fences, records)
            self._server.process.run(self._snapshot(held))

    async def _snapshot(self, held: _Snapshot) -> None:
        server = self._server
        try:
            await server.store.put(server.world.keys.snapshot(held.number), _pack(held))
            self._snapshots.append((held.number, server.world.loop.time()))
            server.world.tell(f"{server.name} snapshot {held.number}")
            await self._collect()
        except StoreError as error:
            server.world.tell(f"{server.name} {error}")
        finally:
            self._is_snapping = False

    async def _collect(self) -> None:
        """Delete what no reader needs any more."""
        server, keys = self._server, self._server.world.keys
        base = collectable(self._snapshots, server.world.loop.time() - server.world.history_s)
        if base is None:
            return
        limit = min(base, self.writer.durable) // bucket_keys.MILESTONE * bucket_keys.MILESTONE
        found = [info.key async for info in server.store.list(keys.wal_prefix)]
        for key in found:
            number = keys.number_of(key)
            if number is not None and number < limit and self._may_go(number):
                await server.store.delete([key])
        snapshots = [info.key async for info in server.store.list(keys.snapshots_prefix)]
        for key in snapshots:
            if (keys.number_of(key) or base) < base:
                await server.store.delete([key])

    def _may_go(self, number: int) -> bool:
        return number not in self._fences and number % bucket_keys.MILESTONE != 0


def collectable(snapshots: list[tuple[int, float]], before: float) -> int | None:
    """Return the newest snapshot that is old enough for what is before it to be deleted."""
    old = [number for number, time in snapshots if time <= before]
    return max(old, default=None)


class Server:
    """One machine that runs a process of the shard, and runs another one when that was killed."""

    def __init__(self, world: World, name: str) -> None:
        self.world: Final = world
        self.name: Final = name
        self.is_isolated = False
        """True: neither clients nor other servers reach it."""
        self.skew_ns = int(world.chance.uniform(-3600, 3600) * 1e9)
        """The error of its wall clock."""
        self.store = Connection(world.bucket)
        self.process = world.loop.process(name)
        self.term: Term | None = None
        self._follower: WalFollower | None = None
        self._due = 0.0
        self._starts = 0

    def start(self) -> None:
        self._starts += 1
        self.term = self._follower = None
        self.process = self.world.loop.process(f"{self.name}.{self._starts}")
        self.process.run(self._live())
        self.process.run(self._beat())

    def lose_disk(self) -> None:
        """It has none."""

    def lose_power(self) -> None:
        """It has nothing that could be lost."""

    def wall_ns(self) -> int:
        return START_NS + int(self.world.loop.time() * 1e9) + self.skew_ns

    @property
    def is_owner(self) -> bool:
        """True if the server believes to own the shard, and has it proven."""
        return self.term is not None and not self.term.over.done() and self.term.is_proven

    def suspect(self) -> None:
        """Take the owner for dead."""
        self._due = 0.0

    # -- requests of clients ----------------------------------------------------------------------------

    def publish(self, reply: Reply, identity: str, key: str, value: str, expected: int | None) -> None:
        if (term := self._serving(reply)) is not None:
            term.publish(reply, identity, key, value, expected)

    def read(self, reply: Reply, key: str) -> None:
        if (term := self._serving(reply)) is not None:
            term.read(reply, key)

    def page(self, reply: Reply, first: int) -> None:
        if (term := self._serving(reply)) is not None:
            term.page(reply, first)

    def _serving(self, reply: Reply) -> Term | None:
        term = self.term
        if term is None or term.over.done() or not term.is_proven:
            reply(NOT_OWNER)
            return None
        return term

    # -- its life -----------------------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            while True:
                replica = await self._persist(lambda: Replica.load(self.store, self.world.keys))
                self._follower = follower = WalFollower(
                    self.store, self.world.keys, replica.point, replica.apply
                )
                self._due = self.world.loop.time() + self.world.chance.choice((0.0, SILENCE_S))
                try:
                    claimed = await self._persist(lambda: self._stand_by(follower))  # noqa: B023
                except Behind as error:
                    self.world.tell(f"{self.name} begins again: {error}")
                else:
                    await self._own(replica, claimed)
        except (Broken, Violation, BucketError) as error:
            self.world.violate(Violation(f"{self.name}: {error!r}"))

    async def _persist(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Try until the store does what is asked of it."""
        while True:
            try:
                return await attempt()
            except StoreError as error:
                self.world.tell(f"{self.name}: {error}")
                await asyncio.sleep(RETRY_S)

    async def _stand_by(self, follower: WalFollower) -> Claim:
        """Read along until this server has claimed the shard. Raises: Behind, StoreError."""
        while True:
            number = follower.point.number
            await follower.catch_up()
            now = self.world.loop.time()
            if follower.point.number > number:
                self._due = max(self._due, now + SILENCE_S)
            if now < self._due:
                await asyncio.sleep(min(LOOK_S, self._due - now))
            elif (claimed := await self._claim(follower)) is not None:
                return claimed

    async def _claim(self, follower: WalFollower) -> Claim | None:
        writer = self.world.chance.randbytes(WRITER_BYTES)
        try:
            return await claim(follower, writer=writer, owner=self.name.encode(), wall_ns=self.wall_ns)
        except Overtaken as error:
            self.world.tell(f"{self.name}: {error}")
            self._due = self.world.loop.time() + SILENCE_S
            return None

    async def _own(self, replica: Replica, claimed: Claim) -> None:
        self.world.tell(f"{self.name} owns, epoch {claimed.epoch} from {claimed.next_number}")
        self.world.serving(self, replica.records, claimed.proved_at)
        self.term = term = Term(self, replica, claimed)
        term.writer.start()
        await term.over
        self.term = None
        term.writer.stop()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            if self.term is not None and not self.is_isolated:
                for peer in self.world.peers(self):
                    self.world.network.send(peer, peer.hear)

    def tell_object(self, name: str, sealed: bytes) -> bool:
        """Send a WAL object to a server: it may come late, twice, or not at all."""
        if not self.is_isolated:
            for peer in self.world.peers(self):
                if peer.name == name:
                    self.world.network.send_badly(peer, peer.hear_object, sealed)
        return True

    def hear_object(self, sealed: bytes) -> None:
        if self._follower is not None and self.term is None:
            self._follower.told.keep(sealed, self._follower.point)

    def hear(self) -> None:
        """The owner lives."""
        self._due = self.world.loop.time() + SILENCE_S
