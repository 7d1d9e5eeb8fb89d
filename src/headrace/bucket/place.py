"""The place of a shard, in the bucket and on this machine, and what all its parts share.

Only values live here, and how what is not given is made.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.bucket.snapshots import in_thread
from headrace.log.committer import ThreadCommitter
from headrace.log.port import SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from headrace.bucket.counted_reading import RangeReads
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.request_counts import RequestCounts
    from headrace.bucket.snapshots import Offload
    from headrace.conf.bucket_options import BucketOptions
    from headrace.log.committer import Committer
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.objects.port import AsyncObjectStore


def syncs_on_threads() -> Committer:
    """Return a committer for the running loop that syncs beside it."""
    loop = asyncio.get_running_loop()
    return ThreadCommitter.on(loop, SyncPolicy.GROUP, 0.0, lambda _: None)


def endless() -> int:
    """Return the free bytes of a disk that is never full."""
    return sys.maxsize


class ShardPlace(Struct, frozen=True):
    """The place of one shard at one server."""

    keys: ShardKeys
    store: AsyncObjectStore
    """The bucket below its prefix, for the event loop."""
    reads: RangeReads
    """The same for threads: bytes of files that are not on the local disk."""
    directory: Path
    """The local directory of the shard's files."""
    files: FileSystem
    """The file system that the directory is in."""
    owner: str
    """The name of this server, which its fence tells."""
    cluster: str
    """The name of its cluster, "" if it has none: the prefix is that cluster's (`identity`)."""
    options: BucketOptions
    wall_ns: Callable[[], int]
    """The wall clock, ns since 1970 UTC."""
    random: Random
    """The source of back-off and of the ids of claims; seeded in simulations."""
    counts: RequestCounts
    """The counts of requests to `store` and `reads`."""
    offload: Offload = in_thread
    """Does work for long on another thread."""
    syncs: Callable[[], Committer] = syncs_on_threads
    """Makes what syncs the backlog of an owner with `commit: disk`."""
    free_bytes: Callable[[], int] = endless
    """Returns the free bytes of the disk that the directory is in. Raises: OSError."""
    cipher: Cipher | None = None
    """The cipher of the logs, if they are encrypted: it tells which of their bytes are read first."""
