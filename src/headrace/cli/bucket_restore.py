"""`headrace jetstream restore --from`: a store made of what a bucket has, as it was at a time or a number.

Here live the moment that is meant, progress, and what is printed. What is read and written is
`headrace.bucket.restore`'s.
"""

from __future__ import annotations

import argparse
import asyncio
from time import time_ns
from typing import TYPE_CHECKING

from headrace.cli.bucket_source import bucket_of, bucket_requests, shard_of
from headrace.cli.progress import ProgressBars
from headrace.errors import HeadraceError
from headrace.protocol.rfc3339 import parse_time, short_time

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.bucket.restore import RestoredShard, RestorePoint


def moment_of(text: str) -> RestorePoint:
    """Read `--at`: the number of a WAL object, or a time. Raises: argparse.ArgumentTypeError."""
    from headrace.bucket.restore import RestorePoint

    if text.isascii() and text.isdecimal():
        if not 1 <= int(text) < 1 << 63:
            raise argparse.ArgumentTypeError(f"{text} is no number of an object")
        return RestorePoint(number=int(text))
    try:
        return RestorePoint(time_ns=parse_time(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number and no time: {error}") from None


def restore(options: argparse.Namespace, home: Path, unfinished: Path) -> int:
    """Make a store of a bucket. Raises: HeadraceError, also for a time that has not come yet."""
    moment = None if options.at is None else options.at.time_ns
    if moment is not None and moment > time_ns():
        raise HeadraceError(
            f"--at {short_time(moment)} is in the future by this machine's clock: leave it out for the "
            "newest state, or give the number of an object"
        )
    name, made = asyncio.run(_restored(options, home, unfinished))
    print(
        f"restored shard {name} as it was after object {made.number:,} ({short_time(made.time_ns)}): "
        f"{made.files:,} files, {made.bytes:,} bytes read"
    )
    return 0


async def _restored(options: argparse.Namespace, home: Path, unfinished: Path) -> tuple[str, RestoredShard]:
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.restore import RestorePoint, restore_shard

    store = bucket_requests(bucket_of(options))
    name = await shard_of(store, options.shard)
    with ProgressBars("restoring", unit="bytes") as meter:
        made = await restore_shard(
            store, ShardKeys(name), home, unfinished, options.at or RestorePoint(), told=meter.show
        )
    return name, made
