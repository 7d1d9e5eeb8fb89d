"""A run with everything that a shard has: what a cold machine has at the end is what its log says."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from headrace.bucket import collection, snapshots
from simulation.bucket.log_server import LogServer
from simulation.bucket.mutations import small_milestones
from simulation.bucket.scenario import REST_S, BucketScenario, held_by
from simulation.scenario import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simulation.bucket.scenario import BucketPlan

SMALL_WAL: Final = 8
"""WAL objects between two snapshots."""


@contextmanager
def small_shards() -> Iterator[None]:
    """Have snapshots and deletions in seconds."""
    with ExitStack() as stack:
        stack.enter_context(small_milestones())
        stack.enter_context(mock.patch.object(collection, "SPACING_S", 1.0))
        stack.enter_context(mock.patch.multiple(snapshots, WAL_OBJECTS=SMALL_WAL, RETRY_S=0.5))
        yield


class WholeScenario(BucketScenario):
    """One run over the real shard."""

    def __init__(
        self, plan: BucketPlan, told: list[str] | None = None, server: Callable[..., Any] = LogServer
    ) -> None:
        super().__init__(plan, told, server)

    def _check_truth(self) -> None:
        self.truth.effective()

    async def _check_cold_reader(self) -> None:
        """Start a machine with an empty disk, when all others are gone."""
        for server in self.servers:
            server.process.kill()
        cold = self._server(self, "cold")
        self.servers[:] = [cold]  # type: ignore[list-item]
        cold.start()
        end = self.loop.now + REST_S
        while (term := cold.term) is None:
            await self._pass(0.5)
            if self.loop.now > end:
                raise Violation("a cold machine does not begin to serve")
        self.ledger.check(held_by(term.records), "a cold machine")
