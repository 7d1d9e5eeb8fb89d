"""A run with `commit: disk`: owners acknowledge what is on their disk, and the bucket follows.

What must hold, beside what `scenario` says of the bucket's own objects:

1. A killed process and a lost power take nothing that was promised, if no other server has claimed since.
2. A lost disk, and an owner that another one has replaced, lose what the bucket did not have: publications of
   `max_lag` at most, the last ones. What the bucket had is never lost.
3. What was lost never comes back, and the backlog of it is set aside, with all of it, where the disk is.
4. Positions of the journal go on over owners: no object covers less than one before it.
5. At rest the bucket follows: then a machine with an empty disk has everything.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from unittest import mock

from headrace.bucket import backlog
from headrace.bucket.commits import LONGEST_LOOK_S, LOOKS
from simulation.bucket.disk_ledger import DiskLedger
from simulation.bucket.disk_server import DiskServer
from simulation.bucket.scenario import REST_S
from simulation.bucket.server import PROOF_S
from simulation.bucket.whole import WholeScenario, small_shards
from simulation.scenario import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import ClassVar

    from simulation.bucket.records import Records
    from simulation.bucket.scenario import BucketPlan
    from simulation.bucket.server import Server

DISK_FAULTS: Final = (
    *("fall behind", "fall behind", "fall behind", "kill", "lose power", "lose disk", "pause", "sleep"),
    *("cut store", "isolate", "away", "refuse", "clock", "suspect", "fail disk", "fail disk"),
)
LAGS: Final = (1.0, 1.0, 3.0, 10.0)
ALONE: Final = 0.3
"""The share of runs with one server: nobody takes its streams over while it is away."""
SLACK_S: Final = 0.1
"""Seconds from a change to its record."""


@contextmanager
def small_disks() -> Iterator[None]:
    """Have small shards, and backlogs of several segments whose records are read back."""
    with small_shards(), mock.patch.multiple(backlog, SEGMENT_BYTES=1024, MOST_KEPT=256, READ_BACK=512):
        yield


class DiskScenario(WholeScenario):
    """One run over the real shard, its backlog and its files."""

    faults: ClassVar[tuple[str, ...]] = DISK_FAULTS

    def __init__(self, plan: BucketPlan, told: list[str] | None = None) -> None:
        self.max_lag: Final = random.Random(plan.seed + 4).choice(LAGS)
        alone = random.Random(plan.seed + 5).random() < ALONE
        super().__init__(replace(plan, servers=1) if alone else plan, told, DiskServer)

    def _ledger(self) -> DiskLedger:
        self.promises: Final = DiskLedger(
            self.loop.time,
            self.truth,
            max_lag=self.max_lag,
            slack_s=min(self.max_lag / LOOKS, LONGEST_LOOK_S) + SLACK_S,
            violate=self.violate,
            reads_lag_s=max(PROOF_S, self.max_lag),
        )
        return self.promises

    def serving(self, server: Server, records: Records, proved_at: float) -> None:
        self.takeovers += 1
        self.promises.begins(server.epoch, server.machine, records.all)  # type: ignore[attr-defined]

    def _break(self, what: str) -> None:
        if what not in ("fall behind", "fail disk"):
            super()._break(what)
            return
        server = self.chance.choice(self._most_useful())
        self.tell(f"{what} {server.name}")
        if what == "fail disk":
            server.fail_disk()  # type: ignore[attr-defined]
            return
        server.store.is_cut = True
        self._later(self.chance.uniform(0, 2 * self.max_lag), lambda: self._fall(server))

    def _fall(self, server: Server) -> None:
        """End a server that has a backlog, and start it again, before another one takes over or after.

        Half of them end once more while they begin.
        """
        server.process.kill()
        if self.chance.random() < 0.5:
            server.lose_power()
        server.store.is_cut = False
        start = self.chance.choice((0, 0, 1, 4))
        self._later(start, lambda: self._restart(server))
        if self.chance.random() < 0.5:
            self._later(start + self.chance.uniform(0, 0.3), lambda: self._fall(server))

    # -- the end ------------------------------------------------------------------------------------------

    def _check_truth(self) -> None:
        self.promises.check_positions()
        disks = {server.machine: server.set_aside() for server in self.servers}
        for lost in self.promises.lost:
            if lost.machine in disks and lost.identity.encode() not in disks[lost.machine]:
                raise Violation(f"{lost} was lost, and is not in a backlog that was set aside")

    async def _check_cold_reader(self) -> None:
        end = self.loop.now + REST_S
        while not any(server.is_owner and not server.lag_bytes for server in self.servers):
            await self._pass(0.5)
            if self.loop.now > end:
                raise Violation("the bucket does not follow")
        await super()._check_cold_reader()
