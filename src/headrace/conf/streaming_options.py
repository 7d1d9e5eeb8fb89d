"""The options of NATS Streaming.

Frozen data only, loaded where there are channels. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from headrace.structures import Discreet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.remote import NATSServerOptions


class ChannelLimits(Struct, frozen=True):
    """Limits of one channel or pattern of channels: 0 inherits the wider entry's, -1 is no limit."""

    max_subscriptions: int = 0
    max_msgs: int = 0
    max_bytes: int = 0
    max_age: float = 0.0
    max_inactivity: float = 0.0


class StoreLimits(Struct, frozen=True):
    """Limits of every channel, 0 for none, and the exceptions by name or pattern, the narrowest first."""

    max_channels: int = 100
    max_subscriptions: int = 1000
    max_msgs: int = 1_000_000
    max_bytes: int = 1_024_000_000
    max_age: float = 0.0
    max_inactivity: float = 0.0
    channels: Mapping[str, ChannelLimits] = field(default_factory=dict)


class ArchiveOptions(Struct, frozen=True):
    """Tables that a server makes of its channels, every `interval` seconds, below `to`: a directory or a URL.

    `channels`: names, with wildcards. `retain`: as of `headrace tables archive`; None leaves it to the table.
    `file_size`: about how large files become.
    """

    to: str
    interval: float = 60.0
    channels: tuple[str, ...] = (">",)
    retain: str | None = None
    file_size: int = 256 << 20


class StreamingOptions(Discreet, frozen=True):
    """NATS Streaming; defaults are nats-streaming-server's. Inside the server, unless `nats_server` is set.

    `store_type`: "MEMORY" or "FILE", which has a `directory`. `sync`: "group", "interval" (every
    `sync_interval`) or "never". `compression`: "none" or "s2". `encryption_cipher`: "AES" or "CHACHA", None
    for no encryption.
    `adopt`: channels that are JetStream streams too, with the streams' names.
    """

    HIDDEN = frozenset({"encryption_key"})

    cluster_id: str = "test-cluster"
    discover_prefix: str = "_STAN.discover"
    store_type: str = "MEMORY"
    directory: str | None = None
    sync: str = "group"
    sync_interval: float = 60.0
    segment_bytes: int = 64 << 20
    compression: str = "none"
    encryption_cipher: str | None = None
    encryption_key: str | None = None
    limits: StoreLimits = StoreLimits()
    hb_interval: float = 30.0
    hb_timeout: float = 10.0
    hb_fail_count: int = 10
    replace_durable: bool = False
    ft_group: str | None = None
    partitioning: bool = False
    stan_debug: bool = False
    stan_trace: bool = False
    nats_server: NATSServerOptions | None = None
    archive: ArchiveOptions | None = None
    adopt: Mapping[str, str] = field(default_factory=dict)
