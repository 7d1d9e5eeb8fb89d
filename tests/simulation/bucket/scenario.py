"""A run: servers of one shard over one bucket, with clients, while servers, network and store fail.

What must hold, whatever the seed:

1. What was acknowledged is there once, at its sequence, with its content: for every server when it begins to
   serve, and for a cold reader at the end (`Ledger.check`, `Records.add`).
2. What was delivered, or answered by a read, was durable: it is there, too.
3. No two owners commit in one epoch (`Truth.effective`), and no object of the log is written twice.
4. The operations on each key are linearizable; a read, and the refusal of a change, may be 3 s late
   (`Ledger.check_histories`). A publication that is repeated is stored once, across owners.
5. No fence and no milestone is deleted, and nothing that the newest old snapshot does not have (`Truth`).
6. When faults have ended one server owns the shard, everybody who goes on asking is served, and sleepers that
   wake up long afterwards change nothing.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.virtual_loop import Stuck, VirtualLoop
from headrace.bucket.errors import BucketError
from headrace.bucket.follower import WalFollower
from headrace.bucket.keys import ShardKeys
from headrace.objects.errors import StoreError
from simulation.bucket.clients import Consumer, Counter, Publisher
from simulation.bucket.ledger import Ledger
from simulation.bucket.network import Network
from simulation.bucket.records import Broken, Records
from simulation.bucket.server import Replica, Server
from simulation.bucket.store import Bucket, Connection, Weather
from simulation.bucket.truth import Truth
from simulation.scenario import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.virtual_loop import Process

PEACE: Final = Weather()
WEATHERS: Final = (
    PEACE,
    Weather(delay_s=0.03, slow=0.05, stale=0.5),
    Weather(delay_s=0.02, slow=0.02, failing=0.05, unanswered=0.05, stale=0.3),
    Weather(delay_s=0.05, slow=0.05, failing=0.02, unanswered=0.02, belated=0.03, stale=0.8),
)
FAULTS: Final = (
    *("kill", "lose disk", "pause", "pause", "sleep", "cut store", "cut store", "isolate"),
    *("away", "refuse", "clock", "suspect", "suspect"),
)
KEYS: Final = ("k.a", "k.b")
REST_S: Final = 300.0
"""Seconds within which everything comes to rest behind the last fault."""


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """The shape of a run."""

    seed: int
    servers: int
    publishers: int
    counters: int
    operations: int
    """Of each client."""
    weather: Weather
    faults: int
    snapshot_after: int
    history_s: float

    @classmethod
    def draw(cls, seed: int) -> BucketPlan:
        chance = random.Random(seed)
        return cls(
            seed,
            servers=chance.choice((1, 2, 2, 3, 3, 4)),
            publishers=chance.choice((1, 2, 4)),
            counters=chance.choice((1, 2, 4)),
            operations=chance.choice((5, 10, 20)),
            weather=chance.choice(WEATHERS),
            faults=chance.choice((0, 2, 4, 8, 12)),
            snapshot_after=chance.choice((3, 6, 20)),
            history_s=chance.choice((0.5, 2.0, 5.0)),
        )


class BucketScenario:
    """One run. `told` gets a line for everything that happens, None: nobody wants to know."""

    faults: ClassVar[tuple[str, ...]] = FAULTS

    def __init__(
        self, plan: BucketPlan, told: list[str] | None = None, server: Callable[..., Any] = Server
    ) -> None:
        self._server: Final = server
        self.plan: Final = plan
        self.loop: Final = VirtualLoop()
        self.chance: Final = random.Random(plan.seed + 1)
        self.keys: Final = ShardKeys("s")
        self.bucket: Final = Bucket(random.Random(plan.seed + 2), plan.weather, self.loop.time)
        self.network: Final = Network(self.loop, random.Random(plan.seed + 3))
        self.history_s: Final = plan.history_s
        self.snapshot_after: Final = plan.snapshot_after
        self.is_over = False
        self.takeovers = 0
        self.told: Final = told
        self.truth: Final = Truth(self.bucket, self.keys, plan.history_s)
        self.ledger: Final = self._ledger()
        self.servers: Final = [server(self, f"s{number}") for number in range(plan.servers)]
        self._sleepers: Final[list[Process]] = []
        self._violations: Final[list[Violation]] = []

    def _ledger(self) -> Ledger:
        return Ledger(self.loop.time)

    # -- what servers see -------------------------------------------------------------------------------

    def peers(self, server: Server) -> Iterable[Server]:
        return (each for each in self.servers if each is not server)

    def tell(self, line: str) -> None:
        if self.told is not None:
            self.told.append(f"{self.loop.now:9.4f} {line}")

    def violate(self, violation: Violation) -> None:
        self.tell(f"VIOLATION {violation}")
        self._violations.append(violation)

    def serving(self, server: Server, records: Records, proved_at: float) -> None:
        self.takeovers += 1
        self.ledger.check(held_by(records), server.name, proved_at)

    # -- the run ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises: Violation."""
        try:
            self.loop.run(self._run())
        except Stuck as error:
            raise Violation(str(error)) from error

    async def _run(self) -> None:
        for server in self.servers:
            server.start()
        clients = [asyncio.create_task(each.run()) for each in self._clients("")]
        consumer = asyncio.create_task(Consumer(self, "c").run())
        for _ in range(self.plan.faults):
            await self._pass(self.chance.expovariate(0.5))
            self._break(self.chance.choice(self.faults))
        await self._pass(self.chance.uniform(0, 5))
        self._heal()
        await self._until_all(clients)
        for process in self._sleepers:
            self.tell(f"{process.name} wakes up")
            process.resume()
        await self._until_all([asyncio.create_task(each.run()) for each in self._clients("z")])
        self.is_over = True
        await self._until_all([consumer])
        await self._check_rest()
        self._check_truth()
        await self._check_cold_reader()
        self.ledger.check_histories()

    def _clients(self, suffix: str) -> list[Publisher | Counter]:
        plan = self.plan
        count = plan.operations if not suffix else 2
        keys = ("l", *KEYS[: self.chance.randrange(2)])
        publishers = (Publisher(self, f"p{n}{suffix}", count, keys) for n in range(plan.publishers))
        counters = (Counter(self, f"u{n}{suffix}", count, KEYS) for n in range(plan.counters))
        return [*publishers, *counters]

    async def _pass(self, seconds: float) -> None:
        """Let time pass. Raises: Violation."""
        await asyncio.sleep(seconds)
        for mistake in self.loop.mistakes:
            error = mistake.get("exception")
            if isinstance(error, Violation):
                raise error
            raise Violation(f"{mistake['message']}: {error!r}") from error
        for violation in self._violations:
            raise violation

    async def _until_all(self, tasks: list[asyncio.Task[None]]) -> None:
        end = self.loop.now + REST_S
        while not all(task.done() for task in tasks):
            await self._pass(0.5)
            if self.loop.now > end:
                raise Violation(f"not at rest: {sum(not task.done() for task in tasks)} clients wait")
        for task in tasks:
            task.result()

    # -- faults -------------------------------------------------------------------------------------------

    def _break(self, what: str) -> None:
        server = self.chance.choice(self._most_useful())
        seconds = self.chance.choice((0.1, 1, 2.5, 4, 10))
        self.tell(f"{what} {server.name} {seconds}")
        match what:
            case "kill" | "lose power" | "lose disk":
                server.process.kill()
                if what == "lose power":
                    server.lose_power()
                elif what == "lose disk":
                    server.lose_disk()
                self._later(self.chance.choice((0, 1, seconds)), lambda: self._restart(server))
            case "pause":
                process = server.process
                process.pause()
                self._later(seconds, lambda: self._resume(process))
            case "sleep":
                server.process.pause()
                self._sleepers.append(server.process)
            case "cut store":
                server.store.is_cut = True
                self._later(seconds, lambda: setattr(server.store, "is_cut", False))
            case "isolate":
                server.is_isolated = True
                self._later(seconds, lambda: setattr(server, "is_isolated", False))
            case "away":
                self.bucket.is_away = True
                self._later(seconds, lambda: setattr(self.bucket, "is_away", False))
            case "refuse":
                self.bucket.is_refusing = True
                self._later(seconds, lambda: setattr(self.bucket, "is_refusing", False))
            case "clock":
                server.skew_ns += int(self.chance.uniform(-3600, 3600) * 1e9)
            case "suspect":
                server.suspect()

    def _most_useful(self) -> list[Server]:
        """Return the owners, more often than not: what happens to a standby matters less."""
        owners = [server for server in self.servers if server.term is not None]
        return owners if owners and self.chance.random() < 0.6 else self.servers

    def _later(self, seconds: float, function: object) -> None:
        self.loop.call_later(seconds, function)  # type: ignore[arg-type]

    def _restart(self, server: Server) -> None:
        if not server.process.is_alive:
            server.start()

    def _resume(self, process: Process) -> None:
        if process not in self._sleepers:
            process.resume()

    def _heal(self) -> None:
        """End all faults, but let sleepers sleep as long as there is another server."""
        self.tell("all faults end")
        self.bucket.is_away = self.bucket.is_refusing = False
        if all(server.process in self._sleepers for server in self.servers):
            self._sleepers.clear()
        for server in self.servers:
            server.is_isolated = server.store.is_cut = False
            self._restart(server)
            if server.process.is_paused:
                self._resume(server.process)

    # -- the end ------------------------------------------------------------------------------------------

    async def _check_rest(self) -> None:
        end = self.loop.now + REST_S
        while (owners := [server for server in self.servers if server.is_owner]) == [] or len(owners) > 1:
            await self._pass(0.5)
            if self.loop.now > end:
                raise Violation(f"{len(owners)} servers own the shard in the end")
        await self._pass(5)

    def _check_truth(self) -> None:
        self.ledger.check(held_by(self.truth.records()), "the log")

    async def _check_cold_reader(self) -> None:
        """Read the bucket as a new machine does, without any weather."""
        calm = Bucket(random.Random(0), PEACE, self.loop.time)
        calm.objects.update(self.bucket.objects)
        store = Connection(calm)
        try:
            replica = await Replica.load(store, self.keys)
            follower = WalFollower(store, self.keys, replica.point, replica.apply)
            await follower.catch_up()
        except (BucketError, StoreError, Broken) as error:
            raise Violation(f"a new machine cannot read the bucket: {error!r}") from error
        self.ledger.check(held_by(replica.records), "a cold reader")


def held_by(records: Records) -> dict[int, tuple[str, str]]:
    """Return identity and value by sequence."""
    return {record.sequence: (record.identity, record.value) for record in records.all}
