"""Rules of stream configurations: defaults, what excludes what, and what may change later.

Pure functions: a configuration and what is known around it go in, a complete one comes out, or an error.
Never here: making or changing a stream. Source: JetStream specification, 2; the order of the checks and
their texts are those of nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.jetstream.sourcing import rules as origin_rules
from headrace.jetstream.sourcing.rules import EVERYTHING, collide, valid, within
from headrace.jetstream.stream.extensions import check_extensions
from headrace.jetstream.stream.reservations import StorageRoom
from headrace.log.port import LARGEST_SEQUENCE
from headrace.protocol.durations import MILLISECOND, SECOND, format_ns
from headrace.protocol.go_json import quoted
from headrace.protocol.jetstream.configs import (
    DiscardPolicy,
    PersistMode,
    Placement,
    RetentionPolicy,
    Storage,
    StreamConfig,
)
from headrace.protocol.jetstream.errors import ApiError, invalid, pedantic_error
from headrace.protocol.jetstream.levels import with_stream_level, without_versions
from headrace.protocol.jetstream.names import MAX_LENGTH, is_asset_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.protocol.jetstream.configs import ConsumerConfig

MAX_DESCRIPTION: Final = 4 * 1024
MAX_METADATA: Final = 128 * 1024
MAX_REPLICAS: Final = 5
DEFAULT_DUPLICATE_WINDOW: Final = 120 * SECOND
_LEAST_AGE: Final = 100 * MILLISECOND
_INTERNAL: Final = (("$JS.>", "$JSC.>", "$NRG.>"), "$JS.EVENT.>")
_SYSTEM: Final = ("$SYS.>", "$SYS.ACCOUNT.>")
_BEGINNINGS: Final = ("$", "*", ">")
"""The first characters of subjects that may meet one of these."""


class StreamContext(Struct):
    """The context in which a stream's configuration is judged.

    `name`: the one in the subject of the request.
    """

    name: str
    room: StorageRoom = field(default_factory=StorageRoom)
    consumers: Mapping[str, ConsumerConfig] = field(default_factory=dict)
    """The consumers of the stream that is changed."""

    @property
    def streams(self) -> Mapping[str, StreamConfig]:
        return self.room.streams


# -- new ones --------------------------------------------------------------------------------------------


def check_new_stream(config: StreamConfig, context: StreamContext, *, pedantic: bool = False) -> StreamConfig:
    """The complete configuration of a stream that may be made, or is there and has it already.

    Raises: ApiError.
    """
    config = with_stream_level(config)
    if config.name != context.name:
        raise ApiError(10056)
    if "/" in config.name or "\\" in config.name:
        raise ApiError(10128)
    if config.sealed:
        raise invalid("stream configuration for create can not be sealed")
    if config.mirror_direct and config.mirror is None:
        raise invalid("stream has no mirror but does have mirror direct")
    context.room.check_number(config)
    context.room.check_bytes(config)
    config = complete(config, context, pedantic=pedantic)
    _check_cluster(config, context)
    known = context.streams.get(config.name)
    if known is not None:
        if not same_stream(known, config):
            raise ApiError(10058)
        return known
    context.room.check_bytes(config)
    origin_rules.check_origin_filters(config)
    check_no_overlap(config, context)
    return config


def check_no_overlap(config: StreamConfig, context: StreamContext) -> None:
    """Check that no message belongs to two streams. Raises: ApiError 10065."""
    if context.room.streams.meets_others(config):
        raise ApiError(10065)


def same_stream(first: StreamConfig, second: StreamConfig) -> bool:
    """True if both configurations are the same apart from the versions in their metadata."""
    return replace(first, metadata=without_versions(first.metadata)) == replace(
        second, metadata=without_versions(second.metadata)
    )


# -- changes ---------------------------------------------------------------------------------------------


def check_stream_update(
    old: StreamConfig | None, new: StreamConfig, context: StreamContext, *, pedantic: bool = False
) -> StreamConfig:
    """The complete configuration that takes the place of `old`, which is None when there is no such stream.

    Raises: ApiError.
    """
    new = complete(new, context, pedantic=pedantic)
    if new.name != context.name:
        raise ApiError(10056)
    if old is None:
        raise ApiError(10059)
    new = complete(with_stream_level(new), context, pedantic=pedantic)
    _check_cluster(new, context)
    _check_unchangeable(old, new)
    if new.sealed:
        new = replace(
            new,
            max_age=0,
            discard=DiscardPolicy.NEW,
            deny_delete=True,
            deny_purge=True,
            allow_rollup_hdrs=False,
        )
    context.room.check_bytes(new, old=old)
    _check_consumers(old, new, context)
    check_no_overlap(new, context)
    return new


def _check_cluster(config: StreamConfig, context: StreamContext) -> None:
    """Check that the servers that share the streams can have this one. Raises: ApiError.

    Any number of replicas will do: the bucket has the stream whatever number of servers stands by. What is in
    memory is in no bucket, and has one replica.
    """
    settings = context.room.settings
    is_shared = settings.allows_replicas
    if config.num_replicas > 1 and not (is_shared and config.storage is Storage.FILE):
        raise ApiError(10074)
    if is_shared and not settings.is_in(config.placement):
        raise ApiError(10005, err="no suitable peers for placement")


def _check_unchangeable(old: StreamConfig, new: StreamConfig) -> None:
    if new.storage is not old.storage:
        raise invalid("stream configuration update can not change storage type")
    if new.retention is not old.retention and RetentionPolicy.WORKQUEUE in (old.retention, new.retention):
        raise invalid("stream configuration update can not change retention policy to/from workqueue")
    for was, now, text in (
        (old.sealed, new.sealed, "unseal a sealed stream"),
        (old.deny_delete, new.deny_delete, "cancel deny message deletes"),
        (old.deny_purge, new.deny_purge, "cancel deny purge"),
    ):
        if was and not now:
            raise invalid(f"stream configuration update can not {text}")
    if new.mirror is not None and new.mirror != old.mirror:
        raise ApiError(10055)
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise invalid("message TTL status can not be disabled")
    if old.allow_msg_counter != new.allow_msg_counter:
        raise invalid("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise invalid("message schedules can not be disabled")
    if old.persist_mode is not new.persist_mode:
        raise invalid("stream configuration update can not change persist mode")


def _check_consumers(old: StreamConfig, new: StreamConfig, context: StreamContext) -> None:
    before, after = old.consumer_limits, new.consumer_limits
    idle, pending = after.inactive_threshold, after.max_ack_pending
    if not (0 < idle != before.inactive_threshold or 0 < pending != before.max_ack_pending):
        return
    names = [
        name
        for name, consumer in sorted(context.consumers.items())
        if 0 < idle < consumer.inactive_threshold or 0 < pending < consumer.max_ack_pending
    ]
    if names:
        raise ApiError(10069, err=f"change to limits violates consumers: {', '.join(names)}")


# -- every one -------------------------------------------------------------------------------------------


def complete(config: StreamConfig, context: StreamContext, *, pedantic: bool = False) -> StreamConfig:
    """The configuration with its defaults, if it can be. Raises: ApiError."""
    _check_texts(config)
    config = _with_numbers(config, pedantic=pedantic)
    config = _with_duplicate_window(config, context.room.settings.duplicate_window, pedantic=pedantic)
    _check_counter(config)
    config = _with_newer_features(config, pedantic=pedantic)
    if config.mirror is not None or config.sources:
        config = origin_rules.check_mirror(config, context.streams, pedantic=pedantic)
        origin_rules.check_sources(config, context.streams)
        origin_rules.check_prefixes(config, context.streams)
        origin_rules.check_circles(config, context.streams)
    config = _with_subjects(config)
    required, most = context.room.max_bytes(config)
    if required and config.max_bytes <= 0:
        raise ApiError(10113)
    if 0 < most < config.max_bytes:
        raise ApiError(10122)
    if config.subject_transform is not None:
        origin_rules.check_transform(config.subject_transform, 10155, 10156)
    config = _with_republish(config, pedantic=pedantic)
    return _with_placement(config)


def _check_texts(config: StreamConfig) -> None:
    if not is_asset_name(config.name):
        raise invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(config.name.encode()) > MAX_LENGTH:
        raise invalid(f"stream name is too long, maximum allowed is {MAX_LENGTH}")
    if len(config.description.encode()) > MAX_DESCRIPTION:
        raise invalid(f"stream description is too long, maximum allowed is {MAX_DESCRIPTION}")
    if is_large(config.metadata):
        raise invalid(f"stream metadata exceeds maximum size of {MAX_METADATA} bytes")
    check_extensions(config)


def is_large(metadata: Mapping[str, str]) -> bool:
    """True if metadata are larger than allowed."""
    characters = sum(map(len, metadata)) + sum(map(len, metadata.values()))
    if characters * 4 <= MAX_METADATA:  # bytes of the longest character
        return False
    return sum(len(text.encode()) for pair in metadata.items() for text in pair) > MAX_METADATA


def _with_numbers(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    replicas = config.num_replicas or 1
    if replicas > MAX_REPLICAS:
        raise invalid(f"maximum replicas is {MAX_REPLICAS}")
    if replicas < 0:
        raise ApiError(10133)
    unlimited = {}
    for name in ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers"):
        value = getattr(config, name)
        if pedantic and value < -1:
            raise pedantic_error(f"{name} must be set to -1")
        if value == 0 or value < -1:
            unlimited[name] = -1
    if config.first_seq > LARGEST_SEQUENCE:
        raise invalid(f"first sequence is larger than {LARGEST_SEQUENCE}")
    if config.max_age < 0:
        raise invalid("max age can not be negative")
    if 0 < config.max_age < _LEAST_AGE:
        raise invalid("max age needs to be >= 100ms")
    return replace(config, num_replicas=replicas, **unlimited)


def _with_duplicate_window(config: StreamConfig, limit: int, *, pedantic: bool) -> StreamConfig:
    window, age = config.duplicate_window, config.max_age
    if not window and config.mirror is None and not config.sources:
        window = DEFAULT_DUPLICATE_WINDOW
        if 0 < limit < window:
            if pedantic:
                raise pedantic_error("duplicate window limits are higher than current limits")
            window = limit
        if 0 < age < window:
            if pedantic:
                raise pedantic_error("duplicate window cannot be bigger than max age")
            window = age
    if window < 0:
        raise invalid("duplicates window can not be negative")
    if 0 < age < window:
        raise invalid("duplicates window can not be larger then max age")
    if 0 < limit < window:
        raise invalid(f"duplicates window can not be larger then server limit of {format_ns(limit)}")
    if 0 < window < _LEAST_AGE:
        raise invalid("duplicates window needs to be >= 100ms")
    return replace(config, duplicate_window=window)


def _check_counter(config: StreamConfig) -> None:
    if config.deny_purge and config.allow_rollup_hdrs:
        raise invalid("roll-ups require the purge permission")
    if config.allow_msg_counter:
        if config.discard is DiscardPolicy.NEW:
            raise invalid("counter stream cannot use discard new")
        if config.allow_msg_ttl:
            raise invalid("counter stream cannot use message TTLs")
        if config.allow_msg_schedules:
            raise invalid("counter stream cannot use message schedules")
        if config.retention is not RetentionPolicy.LIMITS:
            raise invalid("counter stream can only use limits retention")
    if config.discard_new_per_subject:
        if config.discard is not DiscardPolicy.NEW:
            raise invalid("discard new per subject requires discard new policy to be set")
        if config.max_msgs_per_subject <= 0:
            raise invalid("discard new per subject requires max msgs per subject > 0")


def _with_newer_features(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    marker_ttl = config.subject_delete_marker_ttl
    if marker_ttl < 0:
        raise invalid("subject delete marker TTL must not be negative")
    if marker_ttl:
        if marker_ttl < SECOND:
            raise invalid("subject delete marker TTL must be at least 1 second")
        if pedantic and not config.allow_msg_ttl:
            raise invalid("subject delete marker cannot be set if message TTLs are disabled")
        config = _with_rollups(
            replace(config, allow_msg_ttl=True), "subject delete marker cannot be set", pedantic=pedantic
        )
    if config.allow_msg_schedules:
        if config.discard is DiscardPolicy.NEW:
            raise invalid("message scheduling cannot use discard new")
        config = _with_rollups(config, "message scheduling cannot be set", pedantic=pedantic)
    if config.persist_mode is PersistMode.ASYNC:
        if config.storage is not Storage.FILE:
            raise invalid("async persist mode is only supported on file storage")
        if config.num_replicas > 1:
            raise invalid("async persist mode is not supported on replicated streams")
        if config.allow_atomic:
            raise invalid("async persist mode is not supported with atomic batch publish")
    return config


def _with_rollups(config: StreamConfig, text: str, *, pedantic: bool) -> StreamConfig:
    if config.allow_rollup_hdrs:
        return config
    if pedantic:
        raise invalid(f"{text} if roll-ups are disabled")
    return replace(config, allow_rollup_hdrs=True, deny_purge=False)


# -- subjects --------------------------------------------------------------------------------------------


def _with_subjects(config: StreamConfig) -> StreamConfig:
    if not config.subjects and config.mirror is None and not config.sources:
        return replace(config, subjects=[config.name])
    for position, subject in enumerate(config.subjects):
        if not valid(subject):
            raise invalid("invalid subject")
        _check_reach(config, subject)
        for other in config.subjects[position + 1 :]:
            if collide(other, subject):
                raise invalid(f"subject {quoted(subject)} overlaps with {quoted(other)}")
    return config


def _check_reach(config: StreamConfig, subject: str) -> None:
    """Check that a stream does not take messages to the API or the system."""
    if subject == EVERYTHING:
        if not config.no_ack:
            raise invalid("capturing all subjects requires no-ack to be true")
        if config.num_replicas != 1:
            raise invalid("capturing all subjects requires replicas of 1")
    if config.no_ack or not subject.startswith(_BEGINNINGS):
        return
    namespaces, events = _INTERNAL
    if any(collide(subject, namespace) for namespace in namespaces) and not within(subject, events):
        raise invalid("subjects that overlap with jetstream api require no-ack to be true")
    system, accounts = _SYSTEM
    if collide(subject, system) and not within(subject, accounts):
        raise invalid("subjects that overlap with system api require no-ack to be true")


def _with_republish(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    republish = config.republish
    if republish is None:
        return config
    if not republish.src:
        if pedantic:
            raise pedantic_error("republish source can not be empty")
        republish = replace(republish, src=EVERYTHING)
    transform = config.subject_transform
    if (
        republish.dest == republish.src == EVERYTHING
        and transform is not None
        and config.subjects == [transform.src]
    ):
        if pedantic:
            raise pedantic_error("implicit republish based on subject transform")
        republish = replace(republish, src=transform.dest, dest=transform.dest)
    if any(collide(republish.dest, subject) for subject in config.subjects):
        raise invalid("stream configuration for republish destination forms a cycle")
    if origin_rules.transform_error(republish.src, republish.dest):
        raise invalid(
            "stream configuration for republish with transform"
            f" from '{republish.src}' to '{republish.dest}' not valid"
        )
    return replace(config, republish=republish)


def _with_placement(config: StreamConfig) -> StreamConfig:
    placement = config.placement
    if placement is None:
        return config
    if placement == Placement():
        return replace(config, placement=None)
    if placement.preferred:
        raise invalid("preferred server not permitted in placement")
    return config
