"""A publisher of its own process for `spark-stream`: so many rows a second into a channel, each timed.

A row begins with the nanoseconds since 1970 at which it was handed to the client, little-endian. Rows go out
in small bursts, each acknowledged before the next; a publisher that falls behind sends larger ones, so that
the rate holds as long as the server takes it. Prints how many were stored and in how many seconds.
"""

from __future__ import annotations

import argparse
import secrets
import struct
import time

from bench.spark_pull import ROW_BYTES
from headrace.client.blocking import connect
from headrace.client.pipeline import MessageColumns, PublishPipeline
from headrace.client.retries import Patience
from headrace.client.streaming_publish import StreamingWire

STAMP = struct.Struct("<q")
_BURST_S = 0.005
_LARGEST = 4096


def feed(url: str, cluster: str, channel: bytes, rate: float, seconds: float) -> tuple[int, float]:
    """Publish; give the rows that were stored and the seconds that took."""
    wire = StreamingWire(cluster, f"feed-{secrets.token_hex(4)}")
    pipeline = PublishPipeline(lambda: connect(url), wire, Patience(5.0))
    pipeline.start()
    filler = b"x" * (ROW_BYTES - STAMP.size)
    begin, sent = time.perf_counter(), 0
    while (now := time.perf_counter() - begin) < seconds:
        due = min(int(now * rate) - sent, _LARGEST)
        if due > 0:
            payload = STAMP.pack(time.time_ns()) + filler
            pipeline.send(MessageColumns([channel] * due, [payload] * due))
            pipeline.finish()
            sent += due
        left = begin + (sent + 1) / rate - time.perf_counter()
        if left > 0:
            time.sleep(max(left, _BURST_S))
    elapsed = time.perf_counter() - begin
    pipeline.close()
    return pipeline.counts.stored, elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("cluster")
    parser.add_argument("channel")
    parser.add_argument("rate", type=float, help="rows a second")
    parser.add_argument("seconds", type=float)
    options = parser.parse_args()
    stored, seconds = feed(
        options.url, options.cluster, options.channel.encode(), options.rate, options.seconds
    )
    print(stored, f"{seconds:.3f}")


if __name__ == "__main__":
    main()
