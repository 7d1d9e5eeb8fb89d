"""Batches: their headers, how many may be under way in a stream and in the server, how large they may be.

Source: JetStream specification, 8; the defaults are the Go server's.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ID: Final = b"Nats-Batch-Id"
SEQUENCE: Final = b"Nats-Batch-Sequence"
COMMIT: Final = b"Nats-Batch-Commit"
OF_BATCHES: Final = b"Nats-Batch-"
FAST_SUFFIX: Final = b".$FI"
"""The end of reply subjects of fast ingest."""

LARGEST_ATOMIC_BYTES: Final = 128 << 20
"""Bytes that the messages of one atomic batch may take before it is committed: they wait in memory. A batch
that would need more is abandoned as too large."""
LONGEST_ID: Final = 64


class BatchLimits(Struct, frozen=True):
    """Numbers of batches and of messages; `timeout_ns`: how long a batch may be idle."""

    atomic_per_stream: int = 50
    atomic_total: int = 1000
    atomic_messages: int = 1000
    fast_per_stream: int = 1000
    fast_total: int = 50_000
    timeout_ns: int = 10_000_000_000


class Inflight:
    """Batches under way in all streams of a server."""

    def __init__(self, limits: BatchLimits) -> None:
        self.limits = limits
        self.atomic = 0
        self.fast = 0
