"""The streaming service's options, fully resolved.

Frozen data only: command line and configuration file are read elsewhere and arrive here. Durations are
seconds, sizes are bytes, defaults are those of nats-streaming-server.
Source: streaming specification, 3, 7, 8, 10.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from headrace.log.port import SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class StoreType(Enum):
    MEMORY = "MEMORY"
    FILE = "FILE"


class ChannelLimits(Struct, frozen=True):
    """Limits of one channel or pattern of channels: 0 inherits the wider entry's, negative is no limit."""

    max_subscriptions: int = 0
    max_msgs: int = 0
    max_bytes: int = 0
    max_age: float = 0.0
    max_inactivity: float = 0.0


class StoreLimits(Struct, frozen=True):
    """Limits of every channel, and the exceptions. Here 0 and negative are no limit."""

    max_channels: int = 100
    """One more is refused with `too many channels`."""
    max_subscriptions: int = 1000
    """Per channel, offline durables included; one more gets `too many subscriptions per channel`."""
    max_msgs: int = 1_000_000
    """Per channel; the oldest goes, the newest stays."""
    max_bytes: int = 1_024_000_000
    max_age: float = 0.0
    max_inactivity: float = 0.0
    """A channel without subscriptions and publications for this long is deleted."""
    channels: Mapping[str, ChannelLimits] = field(default_factory=dict)
    """Channel name or pattern (`*`, `>`) to its own limits; the most specific pattern wins."""


class StreamingOptions(Struct, frozen=True):
    cluster_id: str = "test-cluster"
    discover_prefix: str = "_STAN.discover"
    store_type: StoreType = StoreType.MEMORY
    directory: Path | None = None
    """The directory of a FILE store, for log lines only: the store itself is built elsewhere."""
    compression: bool = False
    """True if messages are compressed on disk."""
    sync: SyncPolicy = SyncPolicy.GROUP
    sync_interval: float = 60.0
    """Between two syncs under SyncPolicy.INTERVAL."""
    limits: StoreLimits = field(default_factory=StoreLimits)
    hb_interval: float = 30.0
    hb_timeout: float = 10.0
    hb_fail_count: int = 10
    """A client is closed when more heartbeats than this fail one after another."""
    dup_cid_timeout: float = 0.5
    """Seconds that a registered client has to prove that it lives when its ID connects again."""
    replace_durable: bool = False
    """A second registration of an active durable replaces the first instead of being refused."""
    ft_group: str | None = None
    """Share the store with the other servers of this group: one serves, the others stand by."""
    partitioning: bool = False
    """Serve only the channels of `limits.channels`; others of the same cluster ID serve the rest."""
    adopt: frozenset[bytes] = frozenset()
    """Channels that are JetStream streams too: their limits are the streams'."""
    stan_debug: bool = False
    stan_trace: bool = False
