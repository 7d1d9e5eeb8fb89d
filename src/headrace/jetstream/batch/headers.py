"""The headers of batches, and how large a batch and its id may be. Source: JetStream specification, 8."""

from __future__ import annotations

from typing import Final

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
