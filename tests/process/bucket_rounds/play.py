"""The course of a run: a cluster, its load, rounds of trouble, and the look at everything at the end.

A round that does not come to its end says what each client and each server was waiting for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from random import Random
from typing import TYPE_CHECKING, Final

from harness.tallies import note, time_taken
from process.bucket_rounds.assets import Assets
from process.bucket_rounds.load import Load
from process.bucket_rounds.promises import Promises
from process.bucket_rounds.troubles import Draw

if TYPE_CHECKING:
    from process.bucket_rounds.cluster import Cluster

LOG: Final = logging.getLogger("bucket rounds")
AT_REST: Final = 0.5
"""The share of rounds that begin when all servers have recovered from the round before."""


class Play:
    """A run over one cluster. `seed` decides what is drawn; a trouble lasts `longest_s` seconds at most."""

    def __init__(self, cluster: Cluster, seed: int, rounds: int, longest_s: float) -> None:
        self._chance: Final = Random(seed)
        self._cluster: Final = cluster
        self._rounds: Final = rounds
        self._promises: Final = Promises()
        self._assets: Final = Assets(cluster.urls, self._promises)
        self._load: Final = Load(cluster, self._promises, self._chance)
        self._draw: Final = Draw(cluster, self._chance, longest_s)

    async def run(self) -> None:
        """Play all rounds, and look at everything behind the last one.

        Raises: PromiseBroken; Stuck with what everybody waits for.
        """
        await self._cluster.owner()
        await self._assets.make()
        self._load.set_keys(0)
        self._load.start()
        try:
            await self._load.within("the load begins", self._load.all_work(time.monotonic()))
            for number in range(self._rounds):
                await self._round(number)
            await self._load.finish()
        finally:
            await self._load.stop()
        await self._assets.look("behind the last round")
        LOG.info("all servers are killed, and start on empty disks")
        await asyncio.to_thread(self._cluster.start_all_again)
        await self._cluster.owner()
        await self._assets.look("read from the bucket on empty disks")
        self._promises.check_histories()
        self._cluster.check_logs()
        self._tell()

    async def _round(self, number: int) -> None:
        self._load.set_keys(number)
        is_at_rest = self._chance.random() < AT_REST
        owner = await (self._cluster.rest() if is_at_rest else self._cluster.owner())
        state = "at rest" if is_at_rest else "as it came"
        trouble = self._draw.draw(owner)
        LOG.info("round %d: %s; the cluster is %s, its owner is server %d", number, trouble, state, owner)
        self._promises.longest_gap()
        await trouble.begin()
        began = time.monotonic()
        first = asyncio.create_task(self._promises.acknowledged_since(began))
        await self._load.go_on(trouble.seconds)
        await trouble.end()
        ended = time.monotonic()
        await self._load.within(f"round {number}, {trouble}: everybody goes on", self._load.all_work(ended))
        acknowledged = await first - began  # publishers are among everybody
        whole, gap = time.monotonic() - ended, self._promises.longest_gap()
        time_taken(f"bucket rounds: {trouble.name}, {state} → next PubAck", acknowledged)
        LOG.info(
            "round %d: next PubAck after %.2f s, longest gap %.2f s, everybody goes on %.2f s after its end; "
            "%d publications, %d acknowledgements, %d changes of keys",
            *(number, acknowledged, gap, whole, len(self._promises.stored), len(self._promises.confirmed)),
            self._promises.changes,
        )
        for proxy in self._cluster.proxies:
            proxy.requests.clear()

    def _tell(self) -> None:
        """Add what was tried to what the run of the tests reports."""
        note("bucket rounds", self._rounds)
        note("bucket rounds: publications acknowledged", len(self._promises.stored))
        note("bucket rounds: publications that were there already", self._promises.duplicates)
        note("bucket rounds: acknowledgements confirmed", len(self._promises.confirmed))
        note("bucket rounds: operations on keys", self._promises.operations)
        note("bucket rounds: changes of keys confirmed", self._promises.changes)
