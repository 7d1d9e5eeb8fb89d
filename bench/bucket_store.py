"""The object stores that streams are benched in, and how servers and clients of ours are told of them.

Never here: how they are started (`object_stores`), what is measured with them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from bench.object_stores import (
    AZURITE_ACCOUNT,
    AZURITE_KEY,
    azurite_server,
    moto_server,
    object_server,
)
from headrace.bucket.opening import open_bucket
from headrace.conf.bucket_options import BucketCredentials, BucketOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

StoreKind = Literal["fixed", "moto", "azurite"]
KINDS: Final[tuple[StoreKind, ...]] = get_args(StoreKind)
CONTAINER: Final = "bench"
_S3_CREDENTIALS: Final = {"access_key_id": "key", "secret_access_key": "secret"}
_LATENCY_PUTS: Final = 50
_LATENCY_BYTES: Final = 4096


class BenchStore(NamedTuple):
    """A store that runs. `latency_ms`: of a small put, said of a fixed one, else measured when it started."""

    kind: StoreKind
    scheme: str
    endpoint: str
    credentials: dict[str, str]
    latency_ms: float = 0.0

    def url(self, prefix: str) -> str:
        """Return the URL of a bucket of streams in it."""
        return f"{self.scheme}://{CONTAINER}/{prefix}"

    def options(self, prefix: str) -> BucketOptions:
        """Return the options of a client of ours."""
        credentials = BucketCredentials(**self.credentials)
        region = "us-east-1" if self.scheme == "s3" else None
        return BucketOptions(
            url=self.url(prefix), endpoint=self.endpoint, region=region, credentials=credentials
        )

    def block(self, prefix: str, puts_per_second: float, commit: str = "bucket") -> str:
        """Return the block of a server's configuration. `commit`: what acknowledged means there."""
        credentials = ", ".join(f'{name}: "{value}"' for name, value in self.credentials.items())
        region = 'region: "us-east-1"' if self.scheme == "s3" else ""
        return (
            f'bucket {{ url: "{self.url(prefix)}", endpoint: "{self.endpoint}", {region}\n'
            f"  puts_per_second: {puts_per_second}, commit: {commit}, credentials {{ {credentials} }} }}"
        )


@contextmanager
def running_store(kind: StoreKind, latency_ms: float, bandwidth_mbs: float = 0.0) -> Iterator[BenchStore]:
    """Run a store for a block.

    `latency_ms`: of a fixed one; `bandwidth_mbs`: MB/s that it sends at most, 0.0: no limit. Raises:
    BenchError if it cannot be started.
    """
    if kind == "fixed":
        with object_server(latency_ms, bandwidth_mbs) as port:
            yield BenchStore(kind, "s3", f"http://127.0.0.1:{port}", _S3_CREDENTIALS, latency_ms)
    elif kind == "moto":
        logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it tells of each request
        with moto_server(CONTAINER) as endpoint:
            yield _timed(BenchStore(kind, "s3", endpoint, _S3_CREDENTIALS))
    else:
        with azurite_server(CONTAINER) as endpoint:
            credentials = {"account_name": AZURITE_ACCOUNT, "account_key": AZURITE_KEY}
            yield _timed(BenchStore(kind, "az", endpoint, credentials))


def _timed(store: BenchStore) -> BenchStore:
    """Return a store with its latency: the median of small puts, one after the other."""

    async def times() -> list[float]:
        prefix = f"latency-{os.urandom(4).hex()}"  # moto keeps what an earlier server of this process had
        client, found = open_bucket(store.options(prefix)).store, []
        for number in range(_LATENCY_PUTS):
            began = time.perf_counter()
            await client.create(f"{number}", os.urandom(_LATENCY_BYTES))
            found.append(time.perf_counter() - began)
        return found

    return store._replace(latency_ms=statistics.median(asyncio.run(times())) * 1e3)
