"""Three servers over one bucket, in moto's S3 and in Azurite, through rounds of trouble, with nats-py.

What was acknowledged is there, once; what a consumer's acknowledgement was confirmed for does not come again;
keys are linearizable.

`make test` plays a short run over one of the stores; `make test-deep` plays a hundred rounds over each.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from bench.bucket_store import CONTAINER, BenchStore
from bench.object_stores import AZURITE_ACCOUNT, AZURITE_KEY

from harness import depth
from harness.azurite import azure_endpoint
from harness.s3 import s3_endpoint
from process.bucket_rounds.clocks import Clocks
from process.bucket_rounds.cluster import SERVERS, running_cluster
from process.bucket_rounds.play import Play

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("default")]
STORES: Final = ("moto", "azurite")
RUNS: Final = depth.seeds(10)
"""Runs over each store; each has a cluster of its own."""
IS_LONG: Final = depth.CHOICE.parts == 1
"""True where all runs are played, or named ones."""
ROUNDS: Final = 10 if IS_LONG else 2
LONGEST_S: Final = 30.0 if IS_LONG else 1.5
"""Seconds for which a trouble lasts at most."""
OFFSETS_S: Final = (0, 3600, -3600)


@contextmanager
def store_of(kind: str) -> Iterator[BenchStore]:
    """Run a store; skips the test where it is not installed."""
    if kind == "moto":
        logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it tells of each request
        with s3_endpoint(CONTAINER) as endpoint:
            yield BenchStore("moto", "s3", endpoint, {"access_key_id": "key", "secret_access_key": "secret"})
    else:
        with azure_endpoint(CONTAINER) as endpoint:
            credentials = {"account_name": AZURITE_ACCOUNT, "account_key": AZURITE_KEY}
            yield BenchStore("azurite", "az", endpoint, credentials)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", depth.turn(STORES))
def test_nothing_promised_is_broken(tmp_path: Path, kind: str, run: int) -> None:
    """Two runs of four are with clocks that are an hour apart, so that each store has its turn."""
    chance = Random(f"{kind} {run}")
    offsets = chance.sample(OFFSETS_S, SERVERS)
    environments = [Clocks(tmp_path).environment(offset) if run % 4 > 1 else {} for offset in offsets]
    with store_of(kind) as store, running_cluster(tmp_path, store, environments) as cluster:
        asyncio.run(Play(cluster, chance.randrange(1 << 32), ROUNDS, LONGEST_S).run())
