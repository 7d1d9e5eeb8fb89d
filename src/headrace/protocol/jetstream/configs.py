"""Configurations of streams and consumers as the JetStream API writes them: names and types, no judgement.

Field names are those of the JSON. Durations are ns, times RFC 3339 text. What a missing field means is the
default here where it is the type's zero value; what a zero value means is said by the rules of
`headrace.jetstream`. Source: JetStream specification, 2 and 4.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec

from headrace.protocol.jetstream.numbers import (  # noqa: TC001 - msgspec reads the annotations
    Duration,
    Int,
    Int32,
    Int64,
    Time,
    Uint64,
)


class RetentionPolicy(StrEnum):
    """The rule by which a stream keeps messages."""

    LIMITS = "limits"
    INTEREST = "interest"
    WORKQUEUE = "workqueue"


class DiscardPolicy(StrEnum):
    """The messages that go when a limit is reached: old ones, or the new one."""

    OLD = "old"
    NEW = "new"


class Storage(StrEnum):
    """The place of a stream's messages."""

    FILE = "file"
    MEMORY = "memory"


class Compression(StrEnum):
    """The compression of a stream's file."""

    NONE = "none"
    S2 = "s2"


class PersistMode(StrEnum):
    """The time at which a message counts as stored."""

    DEFAULT = "default"
    ASYNC = "async"


class DeliverPolicy(StrEnum):
    """The place in its stream where a consumer begins."""

    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"


class AckPolicy(StrEnum):
    """The acknowledgements that a consumer wants."""

    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class ReplayPolicy(StrEnum):
    """The pace of stored messages: at once, or as they were published."""

    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(StrEnum):
    """The rule by which a pull consumer serves waiting requests."""

    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"


class Action(StrEnum):
    """The action that a request for a consumer allows."""

    CREATE_OR_UPDATE = ""
    CREATE = "create"
    UPDATE = "update"


class _Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One JSON object of a configuration; `go_name` is what the Go server's errors call it.

    Written without what says nothing: so they are journaled. Answers show it so, too (`responses`), but for
    the fields that are `always` there.
    """

    always: ClassVar[frozenset[str]] = frozenset()


class Placement(_Config, frozen=True):
    """The servers on which a stream may be placed."""

    go_name: ClassVar[str] = "Placement"

    cluster: str = ""
    tags: list[str] = []
    preferred: str = ""


class SubjectTransformConfig(_Config, frozen=True):
    """A transform of subjects, from a pattern to a template."""

    go_name: ClassVar[str] = "SubjectTransformConfig"
    always: ClassVar[frozenset[str]] = frozenset(["src", "dest"])

    src: str = ""
    dest: str = ""


class External(_Config, frozen=True):
    """A stream that is reached through another prefix than `$JS.API`: another account or domain."""

    go_name: ClassVar[str] = "ExternalStream"
    always: ClassVar[frozenset[str]] = frozenset(["api", "deliver"])

    api: str = ""
    deliver: str = ""


class StreamConsumerSource(_Config, frozen=True):
    """A durable consumer that a mirror or source reads through."""

    go_name: ClassVar[str] = "StreamConsumerSource"

    name: str = ""
    deliver_subject: str = ""


class StreamSource(_Config, frozen=True):
    """The stream that a mirror or a source reads."""

    go_name: ClassVar[str] = "StreamSource"
    always: ClassVar[frozenset[str]] = frozenset(["name"])

    name: str = ""
    opt_start_seq: Uint64 = 0
    opt_start_time: Time | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransformConfig] = []
    external: External | None = None
    consumer: StreamConsumerSource | None = None


class Republish(_Config, frozen=True):
    """The republishing of a stream's messages."""

    go_name: ClassVar[str] = "RePublish"
    always: ClassVar[frozenset[str]] = frozenset(["dest"])

    src: str = ""
    dest: str = ""
    headers_only: bool = False


class StreamConsumerLimits(_Config, frozen=True):
    """The limits that a stream sets for its consumers."""

    go_name: ClassVar[str] = "StreamConsumerLimits"

    inactive_threshold: Duration = 0
    max_ack_pending: Int = 0


class StreamConfig(_Config, frozen=True):
    """The configuration of a stream."""

    go_name: ClassVar[str] = "StreamConfig"
    always: ClassVar[frozenset[str]] = frozenset(
        [
            *("name", "retention", "discard", "storage", "compression", "num_replicas", "consumer_limits"),
            *("max_consumers", "max_msgs", "max_bytes", "max_age", "max_msgs_per_subject"),
            *("allow_direct", "mirror_direct", "allow_rollup_hdrs", "allow_msg_ttl"),
            *("sealed", "deny_delete", "deny_purge"),
        ]
    )
    levels: ClassVar[dict[str, int]] = {
        "allow_msg_ttl": 1,
        "subject_delete_marker_ttl": 1,
        "allow_msg_counter": 2,
        "allow_atomic": 2,
        "allow_msg_schedules": 2,
        "persist_mode": 2,
        "allow_batched": 4,
    }
    """The API level that a server must have for a field with another value than its default."""

    name: str = ""
    description: str = ""
    subjects: list[str] = []
    retention: RetentionPolicy = RetentionPolicy.LIMITS
    max_consumers: Int = 0
    max_msgs: Int64 = 0
    max_bytes: Int64 = 0
    max_age: Duration = 0
    max_msgs_per_subject: Int64 = 0
    max_msg_size: Int32 = 0
    discard: DiscardPolicy = DiscardPolicy.OLD
    storage: Storage = Storage.FILE
    num_replicas: Int = 0
    no_ack: bool = False
    duplicate_window: Duration = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] = []
    compression: Compression = Compression.NONE
    first_seq: Uint64 = 0
    subject_transform: SubjectTransformConfig | None = None
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
    subject_delete_marker_ttl: Duration = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode = PersistMode.DEFAULT
    allow_batched: bool = False
    metadata: dict[str, str] = {}


class ConsumerConfig(_Config, frozen=True):
    """The configuration of a consumer."""

    go_name: ClassVar[str] = "ConsumerConfig"
    always: ClassVar[frozenset[str]] = frozenset(
        ["deliver_policy", "ack_policy", "replay_policy", "num_replicas"]
    )
    levels: ClassVar[dict[str, int]] = {
        "pause_until": 1,
        "priority_groups": 1,
        "priority_policy": 1,
        "priority_timeout": 1,
    }
    """The level of each field, as for streams. Ack policy `flow_control` needs level 4."""

    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = DeliverPolicy.ALL
    opt_start_seq: Uint64 = 0
    opt_start_time: Time | None = None
    ack_policy: AckPolicy = AckPolicy.NONE
    ack_wait: Duration = 0
    max_deliver: Int = 0
    backoff: list[Duration] = []
    filter_subject: str = ""
    filter_subjects: list[str] = []
    replay_policy: ReplayPolicy = ReplayPolicy.INSTANT
    rate_limit_bps: Uint64 = 0
    sample_freq: str = ""
    max_waiting: Int = 0
    max_ack_pending: Int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: Int = 0
    max_expires: Duration = 0
    max_bytes: Int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: Duration = 0
    inactive_threshold: Duration = 0
    num_replicas: Int = 0
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = {}
    pause_until: Time | None = None
    priority_groups: list[str] = []
    priority_policy: PriorityPolicy = PriorityPolicy.NONE
    priority_timeout: Duration = 0
