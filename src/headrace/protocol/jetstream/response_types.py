"""The answers of the JetStream API as types, for schemas and for checking what a server said.

What composes an answer is its handler's (`headrace.jetstream.api`); these say of both servers what may stand
in it. Fields are optional, as a refusal has none but `type` and `error`; `always` are those of every other
answer.
Durations are ns, times RFC 3339. Source: JetStream specification, 1; nats-server 2.15.1.
"""

from typing import ClassVar

import msgspec

from headrace.protocol.jetstream.configs import ConsumerConfig, External, StreamConfig, SubjectTransformConfig
from headrace.protocol.jetstream.numbers import Duration, Int, Int64, Time, Uint64
from headrace.protocol.jetstream.requests import BackedUpStreamState


class AnswerPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object in an answer."""


class RefusalBody(AnswerPart, frozen=True):
    """The reason for which a request was refused."""

    code: Int
    err_code: Int = 0
    description: str = ""


class ApiResponse(AnswerPart, frozen=True):
    """An answer of the API."""

    always: ClassVar[frozenset[str]] = frozenset()

    type: str = ""
    error: RefusalBody | None = None


class SuccessResponse(ApiResponse, frozen=True):
    """The answer that something was done."""

    always: ClassVar[frozenset[str]] = frozenset(["success"])

    success: bool = False


class PubAckResponse(AnswerPart, frozen=True):
    """The answer to a publication into a stream; it has no `type`."""

    stream: str = ""
    domain: str = ""
    seq: Uint64 = 0
    duplicate: bool = False
    batch: str = ""
    count: Int = 0
    val: str = ""
    error: RefusalBody | None = None


# -- the account


class AccountApiCounts(AnswerPart, frozen=True):
    """The requests of an account to the API."""

    level: Int
    total: Uint64
    errors: Uint64
    inflight: Uint64 = 0


class AccountLimitsShown(AnswerPart, frozen=True):
    """The limits of an account; -1 is none."""

    max_memory: Int64
    max_storage: Int64
    max_streams: Int
    max_consumers: Int
    max_ack_pending: Int
    memory_max_stream_bytes: Int64
    storage_max_stream_bytes: Int64
    max_bytes_required: bool


class TierUsage(AnswerPart, frozen=True):
    """The usage of an account for one number of replicas."""

    memory: Uint64
    storage: Uint64
    reserved_memory: Uint64
    reserved_storage: Uint64
    streams: Int
    consumers: Int
    limits: AccountLimitsShown


class AccountInfoResponse(ApiResponse, frozen=True):
    """The usage and the limits of the account."""

    always: ClassVar[frozenset[str]] = frozenset(
        [
            *("memory", "storage", "reserved_memory", "reserved_storage"),
            "streams",
            "consumers",
            "limits",
            "api",
        ]
    )

    memory: Uint64 = 0
    storage: Uint64 = 0
    reserved_memory: Uint64 = 0
    reserved_storage: Uint64 = 0
    streams: Int = 0
    consumers: Int = 0
    limits: AccountLimitsShown | None = None
    domain: str = ""
    api: AccountApiCounts | None = None
    tiers: dict[str, TierUsage] = {}


# -- streams


class PeerShown(AnswerPart, frozen=True):
    """A server of a group, and how long ago it was heard (`active`)."""

    name: str
    current: bool
    active: Duration
    observer: bool = False
    offline: bool = False
    lag: Uint64 = 0
    peer: str = ""


class ClusterShown(AnswerPart, frozen=True):
    """The servers that have a stream or consumer."""

    name: str = ""
    raft_group: str = ""
    leader: str = ""
    leader_since: Time | None = None
    system_account: bool = False
    traffic_account: str = ""
    replicas: list[PeerShown] = []


class SourceShown(AnswerPart, frozen=True):
    """A mirror or a source: how far it is behind, and when it was last heard (-1: never)."""

    name: str
    lag: Uint64
    active: Duration
    external: External | None = None
    seq: Uint64 = 0
    error: RefusalBody | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransformConfig] = []


class StreamAlternate(AnswerPart, frozen=True):
    """A stream that has the same messages."""

    name: str
    cluster: str
    domain: str = ""


class StreamDetails(ApiResponse, frozen=True):
    """A stream: its configuration and its state."""

    always: ClassVar[frozenset[str]] = frozenset(["config", "created", "state", "ts"])

    config: StreamConfig | None = None
    created: Time | None = None
    state: BackedUpStreamState | None = None
    domain: str = ""
    mirror: SourceShown | None = None
    sources: list[SourceShown] = []
    alternates: list[StreamAlternate] = []
    cluster: ClusterShown | None = None
    ts: Time | None = None


class StreamCreateResponse(StreamDetails, frozen=True):
    """The stream that was made or found."""

    did_create: bool = False


class StreamInfoResponse(StreamDetails, frozen=True):
    """A stream, and which part of its subjects is listed."""

    total: Int = 0
    offset: Int = 0
    limit: Int = 0


class PagedResponse(ApiResponse, frozen=True):
    """A list of which one part is answered."""

    total: Int = 0
    offset: Int = 0
    limit: Int = 0


class StreamNamesResponse(PagedResponse, frozen=True):
    """The names of streams; null without one."""

    always: ClassVar[frozenset[str]] = frozenset(["total", "offset", "limit", "streams"])

    streams: list[str] | None = None


class StreamListResponse(PagedResponse, frozen=True):
    """Streams, and those that cannot be told of."""

    always: ClassVar[frozenset[str]] = frozenset(["total", "offset", "limit", "streams"])

    streams: list[StreamDetails] | None = None
    missing: list[str] = []
    offline: dict[str, str] = {}


class StreamPurgeResponse(SuccessResponse, frozen=True):
    """The number of messages that were removed."""

    purged: Uint64 = 0


class MessageShown(AnswerPart, frozen=True):
    """A stored message; its headers and its body are base64."""

    subject: str
    seq: Uint64
    time: Time
    hdrs: str = ""
    data: str = ""


class MessageGetResponse(ApiResponse, frozen=True):
    """The message that was asked for."""

    always: ClassVar[frozenset[str]] = frozenset(["message"])

    message: MessageShown | None = None


class StreamSnapshotResponse(ApiResponse, frozen=True):
    """The stream that is being backed up."""

    always: ClassVar[frozenset[str]] = frozenset(["config", "state"])

    config: StreamConfig | None = None
    state: BackedUpStreamState | None = None


class StreamRestoreResponse(ApiResponse, frozen=True):
    """The subject to which the parts of a backup are sent."""

    always: ClassVar[frozenset[str]] = frozenset(["deliver_subject"])

    deliver_subject: str = ""


# -- consumers


class SequencePair(AnswerPart, frozen=True):
    """A place in the consumer and in its stream."""

    consumer_seq: Uint64
    stream_seq: Uint64
    last_active: Time | None = None


class PriorityGroupShown(AnswerPart, frozen=True):
    """A group of pulls, and the client that is pinned."""

    group: str
    pinned_client_id: str = ""
    pinned_ts: Time | None = None


class ConsumerDetails(ApiResponse, frozen=True):
    """A consumer: its configuration and how far it is."""

    always: ClassVar[frozenset[str]] = frozenset(
        [
            *("stream_name", "name", "created", "config", "delivered", "ack_floor"),
            *("num_ack_pending", "num_redelivered", "num_waiting", "num_pending"),
        ]
    )

    stream_name: str = ""
    name: str = ""
    created: Time | None = None
    config: ConsumerConfig | None = None
    delivered: SequencePair | None = None
    ack_floor: SequencePair | None = None
    num_ack_pending: Int = 0
    num_redelivered: Int = 0
    num_waiting: Int = 0
    num_pending: Uint64 = 0
    cluster: ClusterShown | None = None
    push_bound: bool = False
    paused: bool = False
    pause_remaining: Duration = 0
    ts: Time | None = None
    priority_groups: list[PriorityGroupShown] = []


class ConsumerResetResponse(ConsumerDetails, frozen=True):
    """The consumer that begins anew, and where."""

    reset_seq: Uint64 = 0


class ConsumerNamesResponse(PagedResponse, frozen=True):
    """The names of a stream's consumers."""

    always: ClassVar[frozenset[str]] = frozenset(["total", "offset", "limit", "consumers"])

    consumers: list[str] = []


class ConsumerListResponse(PagedResponse, frozen=True):
    """The consumers of a stream, and those that cannot be told of."""

    always: ClassVar[frozenset[str]] = frozenset(["total", "offset", "limit", "consumers"])

    consumers: list[ConsumerDetails] | None = None
    missing: list[str] = []
    offline: dict[str, str] = {}


class ConsumerPauseResponse(ApiResponse, frozen=True):
    """The pause of a consumer."""

    always: ClassVar[frozenset[str]] = frozenset(["paused", "pause_until"])

    paused: bool = False
    pause_until: Time | None = None
    pause_remaining: Duration = 0
