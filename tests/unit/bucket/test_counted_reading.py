"""Reads by threads count as requests to the bucket."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.bucket.counted_reading import CountedReads
from headrace.bucket.request_counts import RequestCounts
from headrace.bucket.status import RequestCount
from headrace.objects.errors import KeyMissing, StoreBusy


class Reads:
    """Objects whose key says what happens to who reads them."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        if key == "gone":
            raise KeyMissing(key)
        if key == "busy":
            raise StoreBusy(key)
        return bytes(end - start)


def test_reads_of_threads_are_counted_by_outcome() -> None:
    async def main() -> tuple[RequestCount, ...]:
        loop = asyncio.get_running_loop()
        counts = RequestCounts(loop.time())
        reads = CountedReads(Reads(), counts, loop)
        with ThreadPoolExecutor(4) as threads:
            for number in range(8):
                assert await loop.run_in_executor(threads, reads.get_range, "k", number, 100) == bytes(
                    100 - number
                )
            for key, error in (("gone", KeyMissing), ("busy", StoreBusy)):
                with pytest.raises(error):
                    await loop.run_in_executor(threads, reads.get_range, key, 0, 1)
        await asyncio.sleep(0)
        return counts.all()

    assert asyncio.run(main()) == (
        RequestCount("get", "missing", 1),
        RequestCount("get", "ok", 8, 0, sum(range(93, 101))),
        RequestCount("get", "throttled", 1),
    )


def test_read_behind_the_end_of_the_loop_is_answered() -> None:
    loop = asyncio.new_event_loop()
    reads = CountedReads(Reads(), RequestCounts(loop.time()), loop)
    loop.close()
    assert reads.get_range("k", 0, 3) == bytes(3)
