"""The options of JetStream.

Frozen data only, loaded where there is JetStream. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import limits
from headrace.conf.keys import Flag, Keyed, key

if TYPE_CHECKING:
    from headrace.conf.archive_options import StreamArchiveOptions
    from headrace.conf.bucket_options import BucketOptions


class JetStreamLimits(Keyed, frozen=True):
    """Bounds of every stream and consumer, whatever their accounts may have; 0 is no limit.

    `max_consumers`: of a stream that names no limit itself; -1 is none. Of an atomic batch: how many may be
    open at once, how large it gets, how long (seconds) it may take; 0 is the default.
    """

    max_ack_pending: int = key(
        0, "What `max_ack_pending` of a consumer may be at most", shown_default="no limit"
    )
    max_ha_assets: int = 0
    max_request_batch: int = key(0, "Messages that one pull may ask for", shown_default="no limit")
    duplicate_window: float = key(0.0, "Longest duplicate window of a stream", shown_default="no limit")
    max_consumers: int = key(
        limits.MAX_CONSUMERS,
        "Consumers of a stream that names no limit; negative for none",
        name="default_max_consumers",
        shown_default="1000",
    )
    max_batch_inflight_per_stream: int = 0
    max_batch_inflight_total: int = 0
    max_batch_size: int = 0
    max_batch_timeout: float = 0.0


class JetStreamOptions(Keyed, frozen=True):
    """Streams and consumers. Files are in `jetstream` below `store_dir`, None: below a temporary directory.

    `max_memory`, `max_storage`: bytes of messages, -1: three quarters of what there is, and in files no limit
    where a bucket has a cache of a set size. `strict`: requests with fields that nobody knows are refused.
    `sync`: "group" (what is acknowledged is on disk), "interval" (every `sync_interval` seconds) or "never".
    `encryption_cipher`: "AES" or "CHACHA", None: no encryption.
    `prev_encryption_key`: what is encrypted with it, or with another cipher, is converted at the start.
    `bucket`: object storage that has the streams; files are a copy of it then. None: they are in files only.
    `request_queue_limit`: requests of the API that may wait. `archive`: the tables that are made of streams.
    """

    HIDDEN = frozenset({"encryption_key", "prev_encryption_key"})

    store_dir: str | None = key(
        None,
        "Files are in `jetstream` below it",
        aliases=(
            "store",
            "storedir",
        ),
        shown_default="`nats` in the directory for temporary files, with a warning",
        flag=Flag(
            ("sd", "store_dir"),
            "dir",
            "Directory JetStream stores to (default: a temporary one)",
            group="JetStream",
        ),
    )
    max_memory: int = key(
        -1,
        "Bytes of messages in memory",
        "size",
        name="max_memory_store",
        aliases=(
            "max_mem_store",
            "max_mem",
        ),
        shown_default="three quarters of the memory",
    )
    max_storage: int = key(
        -1,
        "Bytes of messages in files",
        "size",
        name="max_file_store",
        aliases=("max_file",),
        shown_default="three quarters of what is free; no limit where a `bucket` has `cache_bytes`",
    )
    domain: str = key("", "Other name of the API: `$JS.<domain>.API`")
    strict: bool = key(True, "Refuse requests with fields that nobody knows")
    sync: str = "group"
    sync_interval: float = key(
        120.0,
        "When messages are forced to disk: `always` or `group` (before they are acknowledged, "
        "many at once), a duration or `interval` (every so often), `never`",
        "duration or word",
        aliases=("sync",),
        spreads=True,
        shown_default="group",
    )
    encryption_cipher: str | None = key(
        None,
        "`chacha` or `aes`, with a `key`; what is encrypted with the other one is converted at the start",
        name="cipher",
        shown_default="chacha",
    )
    encryption_key: str | None = key(
        None,
        "Secret that files are encrypted with",
        name="key",
        aliases=(
            "ek",
            "encryption_key",
        ),
    )
    prev_encryption_key: str | None = key(
        None,
        "The `key` before: what is encrypted with it is converted at the start",
        name="prev_key",
        aliases=(
            "prev_ek",
            "prev_encryption_key",
        ),
    )
    bucket: BucketOptions | None = key(
        None,
        "Object storage that has the streams: a URL such as `s3://name/prefix`, or a map; see below",
        "string or map",
        read="bucket:bucket",
    )
    unique_tag: str = ""
    request_queue_limit: int = key(
        10_000, "Requests of the API that may wait for their answers; one more is refused"
    )
    limits: JetStreamLimits = key(JetStreamLimits(), "Limits of every stream and consumer; see below", "map")
    archive: StreamArchiveOptions | None = None
