"""The keys of one shard's objects in a bucket. A *shard* is what has one owner at a time.

Numbers have twenty digits in keys, so that the order of keys is that of numbers. Never lives here: what is in
an object, or who may write it.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.bucket.errors import BucketError

MILESTONE: Final = 1000
"""WAL objects whose number is a multiple of this are never deleted, and hold no changes (ADR 0038)."""

LONGEST_SHARD: Final = 64
"""Characters of a shard's name."""

_DIGITS: Final = 20
_SHARD: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST_SHARD - 1}}}")
_NUMBER: Final = re.compile(rf"[0-9]{{{_DIGITS}}}")


class ShardKeys:
    """The keys of a shard's WAL objects, snapshots and segments.

    Raises: BucketError for what cannot be the name of a shard.
    """

    __slots__ = ("segments_prefix", "shard", "snapshots_prefix", "wal_prefix")

    def __init__(self, shard: str) -> None:
        if not _SHARD.fullmatch(shard):
            raise BucketError(f"{shard!r} is no name of a shard: letters, digits, - and _ (at most 64)")
        self.shard: Final = shard
        self.wal_prefix: Final = f"shards/{shard}/wal"
        self.snapshots_prefix: Final = f"shards/{shard}/snapshots"
        self.segments_prefix: Final = f"shards/{shard}/segments"

    def wal(self, number: int) -> str:
        return f"{self.wal_prefix}/{number:0{_DIGITS}}"

    def snapshot(self, number: int) -> str:
        """Return the key of the snapshot that holds everything up to a WAL object."""
        return f"{self.snapshots_prefix}/{number:0{_DIGITS}}"

    def segment(self, name: str) -> str:
        return f"{self.segments_prefix}/{name}"

    def number_of(self, key: str) -> int | None:
        """Return the number of a WAL object or snapshot of this shard; None for any other key."""
        folder, _, name = key.rpartition("/")
        if folder not in {self.wal_prefix, self.snapshots_prefix} or not _NUMBER.fullmatch(name):
            return None
        return int(name)


def channels_shard(cluster_id: str) -> str:
    """Return the shard of the channels of a NATS Streaming cluster ID: its servers alone have it."""
    return f"streaming-{cluster_id}"


def milestone_above(number: int) -> int:
    """Return the first milestone behind a number; a milestone's is the next one."""
    return (number // MILESTONE + 1) * MILESTONE
