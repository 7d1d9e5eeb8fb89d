"""What the configuration says of JetStream.

Frozen data only, loaded where there is JetStream. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

from msgspec import Struct

from headrace import limits
from headrace.structures import Discreet


class JetStreamLimits(Struct, frozen=True):
    """Bounds of every stream and consumer, whatever their accounts may have; 0 is no limit.

    `max_consumers`: of a stream that names no limit itself; -1 is none. Of an atomic batch: how many may be
    open at once, how large it gets, how long (seconds) it may take; 0 is the default.
    """

    max_ack_pending: int = 0
    max_ha_assets: int = 0
    max_request_batch: int = 0
    duplicate_window: float = 0.0
    max_consumers: int = limits.MAX_CONSUMERS
    max_batch_inflight_per_stream: int = 0
    max_batch_inflight_total: int = 0
    max_batch_size: int = 0
    max_batch_timeout: float = 0.0


class JetStreamOptions(Discreet, frozen=True):
    """Streams and consumers. Files are in `jetstream` below `store_dir`, None: below a temporary directory.

    `max_memory`, `max_storage`: bytes of messages, -1: three quarters of what there is. `strict`: requests
    with fields that nobody knows are refused. `sync`: "group" (what is acknowledged is on disk), "interval"
    (every `sync_interval` seconds) or "never". `encryption_cipher`: "AES" or "CHACHA", None: no encryption.
    `prev_encryption_key`: what is encrypted with it, or with another cipher, is converted at the start.
    `request_queue_limit`: requests of the API that may wait.
    """

    HIDDEN = frozenset({"encryption_key", "prev_encryption_key"})

    store_dir: str | None = None
    max_memory: int = -1
    max_storage: int = -1
    domain: str = ""
    strict: bool = True
    sync: str = "group"
    sync_interval: float = 120.0
    encryption_cipher: str | None = None
    encryption_key: str | None = None
    prev_encryption_key: str | None = None
    unique_tag: str = ""
    request_queue_limit: int = 10_000
    limits: JetStreamLimits = JetStreamLimits()
