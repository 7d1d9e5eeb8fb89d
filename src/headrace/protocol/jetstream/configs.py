"""Configurations of streams and consumers as the JetStream API writes them: names and types, no rules.

Field names are those of the JSON. Durations are ns, times RFC 3339 text. What a missing field means is the
default here where it is the type's zero value; what a zero value means is said by the rules of
`headrace.jetstream`. Source: JetStream specification, 2 and 4.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Retention(StrEnum):
    LIMITS = "limits"
    INTEREST = "interest"
    WORKQUEUE = "workqueue"


class Discard(StrEnum):
    OLD = "old"
    NEW = "new"


class Storage(StrEnum):
    FILE = "file"
    MEMORY = "memory"


class Compression(StrEnum):
    NONE = "none"
    S2 = "s2"


class PersistMode(StrEnum):
    DEFAULT = "default"
    ASYNC = "async"


class DeliverPolicy(StrEnum):
    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"


class AckPolicy(StrEnum):
    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class ReplayPolicy(StrEnum):
    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(StrEnum):
    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"


class _Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One JSON object of a configuration."""


class Placement(_Config, frozen=True):
    cluster: str = ""
    tags: list[str] = []
    preferred: str = ""


class SubjectTransform(_Config, frozen=True):
    src: str = ""
    dest: str = ""


class External(_Config, frozen=True):
    """A stream that is reached through another prefix than `$JS.API`: another account or domain."""

    api: str = ""
    deliver: str = ""


class StreamConsumerSource(_Config, frozen=True):
    """A durable consumer that a mirror or source reads through."""

    name: str = ""
    deliver_subject: str = ""


class StreamSource(_Config, frozen=True):
    """Where a mirror or a source reads."""

    name: str = ""
    opt_start_seq: int = 0
    opt_start_time: str | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransform] = []
    external: External | None = None
    consumer: StreamConsumerSource | None = None


class Republish(_Config, frozen=True):
    src: str = ""
    dest: str = ""
    headers_only: bool = False


class StreamConsumerLimits(_Config, frozen=True):
    inactive_threshold: int = 0
    max_ack_pending: int = 0


class StreamConfig(_Config, frozen=True):
    name: str = ""
    description: str = ""
    subjects: list[str] = []
    retention: Retention = Retention.LIMITS
    max_consumers: int = 0
    max_msgs: int = 0
    max_bytes: int = 0
    max_age: int = 0
    max_msgs_per_subject: int = 0
    max_msg_size: int = 0
    discard: Discard = Discard.OLD
    storage: Storage = Storage.FILE
    num_replicas: int = 0
    no_ack: bool = False
    duplicate_window: int = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] = []
    compression: Compression = Compression.NONE
    first_seq: int = 0
    subject_transform: SubjectTransform | None = None
    republish: Republish | None = None
    allow_direct: bool = False
    mirror_direct: bool = False
    discard_new_per_subject: bool = False
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    consumer_limits: StreamConsumerLimits = StreamConsumerLimits()
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl: int = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode = PersistMode.DEFAULT
    allow_batched: bool = False
    metadata: dict[str, str] = {}


class ConsumerConfig(_Config, frozen=True):
    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = DeliverPolicy.ALL
    opt_start_seq: int = 0
    opt_start_time: str | None = None
    ack_policy: AckPolicy = AckPolicy.NONE
    ack_wait: int = 0
    max_deliver: int = 0
    backoff: list[int] = []
    filter_subject: str = ""
    filter_subjects: list[str] = []
    replay_policy: ReplayPolicy = ReplayPolicy.INSTANT
    rate_limit_bps: int = 0
    sample_freq: str = ""
    max_waiting: int = 0
    max_ack_pending: int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: int = 0
    max_expires: int = 0
    max_bytes: int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: int = 0
    inactive_threshold: int = 0
    num_replicas: int = 0
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = {}
    pause_until: str | None = None
    priority_groups: list[str] = []
    priority_policy: PriorityPolicy = PriorityPolicy.NONE
    priority_timeout: int = 0
