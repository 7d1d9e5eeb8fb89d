"""Rows a second of archiving, merging and verifying a table: `python -m bench.tables [--rows 1000000]`.

Messages of 128 bytes (JSON) on 100 subjects, from a log in the page cache into a directory; medians.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from headrace.log.port import NewMessage, SyncPolicy
from headrace.log.store import FileStore
from headrace.tables import Table, open_store
from headrace.tables.archive import archive
from headrace.tables.files import FileLimits
from headrace.tables.rewrite import compact
from headrace.tables.source import LogSource
from headrace.tables.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.port import MessageLog

AT_ONCE = 10_000


def fill(log: MessageLog, rows: int) -> None:
    """The messages; the same ones every time."""
    chance = random.Random(1)
    for first in range(0, rows, AT_ONCE):
        batch = []
        for n in range(first, min(first + AT_ONCE, rows)):
            text = b'{"id":%d,"amount":%d,"customer":%d}' % (
                n,
                chance.randrange(10**6),
                chance.randrange(10**5),
            )
            batch.append(NewMessage(b"orders.%d" % (n % 100), text.ljust(128, b" ")))
        log.append(batch)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes, by the wall."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def one_run(source: LogSource, directory: Path, small: FileLimits) -> dict[str, float]:
    """Seconds of each kind of work on a new table."""
    table = Table(open_store(str(directory)))

    def merge() -> None:
        with table.writing() as writer:
            compact(writer)

    return {
        "archive": seconds(lambda: archive(table, source, limits=small)),
        "compact": seconds(merge),
        "verify": seconds(lambda: verify(table)),
    }


def main() -> None:
    """Prints a line for each kind of work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(Path(folder) / "store", sync=SyncPolicy.NEVER)
        log = store.open(b"orders")
        fill(log, options.rows)
        source = LogSource(log, "orders")
        small = FileLimits(file_bytes=1 << 20)
        runs = [one_run(source, Path(folder) / f"table{n}", small) for n in range(options.runs)]
        store.close()
    for work in runs[0]:
        print(f"{work:<8} {options.rows / median(run[work] for run in runs) / 1e6:5.2f} M rows/s")


if __name__ == "__main__":
    main()
