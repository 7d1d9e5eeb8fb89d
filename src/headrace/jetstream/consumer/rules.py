"""Rules of consumer configurations: defaults, what excludes what, and what may change later.

Pure functions, as those for streams. Never here: making or changing a consumer. Source: JetStream
specification, 4; the order of the checks and their texts are those of nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.jetstream.consumer.extensions import check_extensions
from headrace.jetstream.limits import UNTIERED, AccountLimits, ServerSettings, Tiers
from headrace.jetstream.sourcing.rules import collide, valid, within
from headrace.jetstream.stream.rules import MAX_DESCRIPTION, MAX_METADATA, is_large
from headrace.protocol.durations import MILLISECOND, SECOND, format_ns
from headrace.protocol.jetstream import times
from headrace.protocol.jetstream.configs import (
    AckPolicy,
    Action,
    ConsumerConfig,
    DeliverPolicy,
    PriorityPolicy,
    RetentionPolicy,
    Storage,
    StreamConfig,
)
from headrace.protocol.jetstream.errors import ApiError, invalid, pedantic_error
from headrace.protocol.jetstream.levels import with_consumer_level, without_versions
from headrace.protocol.jetstream.names import MAX_LENGTH, is_asset_name, is_group_name
from headrace.protocol.rfc3339 import short_time
from headrace.subjects.grammar import is_literal

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_MAX_WAITING: Final = 512
DEFAULT_ACK_WAIT: Final = 30 * SECOND
DEFAULT_MAX_ACK_PENDING: Final = 1000
DEFAULT_PRIORITY_TIMEOUT: Final = 120 * SECOND
DEFAULT_INACTIVE_THRESHOLD: Final = 5 * SECOND
"""The inactivity threshold of consumers that are not durable."""
_FLOW_HEARTBEAT: Final = SECOND
_LEAST_HEARTBEAT: Final = 100 * MILLISECOND
_LONGEST_IN_MEMORY: Final = 512
"""Bytes of a name: it stands in the subjects that acknowledgements are sent to, and those have an end."""


class ConsumerContext(Struct):
    """The context in which a consumer's configuration is judged."""

    stream: StreamConfig
    consumers: Mapping[str, ConsumerConfig] = field(default_factory=dict)
    """The consumers of the stream, by name; the one that is asked about perhaps among them."""
    tiers: Tiers = field(default_factory=Tiers)
    settings: ServerSettings = field(default_factory=ServerSettings)
    is_bound: bool = False
    """True if somebody listens to the consumer's present deliver subject."""

    def number(self) -> int:
        """Return the number of consumers that count: without those that mirrors and sources read through."""
        return sum(not other.direct and not other.sourcing for other in self.consumers.values())

    def limits(self, config: ConsumerConfig) -> AccountLimits:
        """Return the limits of the account's tier for this consumer.

        Raises: ApiError 10120 if it has none.
        """
        for_all = self.tiers.by_name.get(UNTIERED)
        if for_all is not None:
            return for_all
        selected = self.tiers.select(replicas(config, self.stream))
        if selected is None:
            raise ApiError(10120)
        return selected[1]


def replicas(config: ConsumerConfig, stream: StreamConfig) -> int:
    """Return the number of replicas that a consumer has: by itself, or as its stream."""
    if config.num_replicas == 0 and not config.durable_name and stream.retention is RetentionPolicy.LIMITS:
        return 1
    return min(config.num_replicas or stream.num_replicas, stream.num_replicas)


def filters(config: ConsumerConfig) -> list[str]:
    """The subjects a consumer wants; none is all."""
    return [*config.filter_subjects, *([config.filter_subject] if config.filter_subject else [])]


# -- new ones --------------------------------------------------------------------------------------------


def check_new_consumer(
    config: ConsumerConfig,
    context: ConsumerContext,
    *,
    action: Action = Action.CREATE_OR_UPDATE,
    pedantic: bool = False,
) -> ConsumerConfig:
    """The complete configuration of a consumer that is not there yet. Raises: ApiError."""
    config = complete(with_consumer_level(config), context, pedantic=pedantic)
    if action is Action.UPDATE:
        raise ApiError(10149)
    if not config.direct and not config.sourcing:
        # Looked at one by one only if there may be too many, or they may get in each other's way.
        most = _most_consumers(context, context.limits(config))
        if 0 < most <= len(context.consumers) and most <= context.number():
            raise ApiError(10026)
        if context.stream.retention is RetentionPolicy.WORKQUEUE:
            _check_work_queue(config, context)
    _check_length(config, context.stream)
    check_extensions(config, context.stream.subjects)
    return _with_idle_limit(config, config)


def _most_consumers(context: ConsumerContext, limits: AccountLimits) -> int:
    """Return how many consumers a stream may have; 0 or less is no limit."""
    set_ones = [most for most in (context.stream.max_consumers, limits.max_consumers) if most > 0]
    return min(set_ones) if set_ones else context.settings.default_max_consumers


def _check_length(config: ConsumerConfig, stream: StreamConfig) -> None:
    if len(config.durable_name.encode()) > MAX_LENGTH:
        raise ApiError(10102, max=MAX_LENGTH)
    in_memory = stream.storage is Storage.MEMORY or config.mem_storage or config.direct
    if len(config.name.encode()) > (_LONGEST_IN_MEMORY if in_memory else MAX_LENGTH):
        # The Go server has a directory for each consumer, and no file system takes such a name.
        raise ApiError(10012, err="error creating store for consumer")


def _check_work_queue(config: ConsumerConfig, context: ConsumerContext) -> None:
    if config.ack_policy not in (AckPolicy.EXPLICIT, AckPolicy.FLOW_CONTROL):
        raise ApiError(10098)
    if config.deliver_policy is not DeliverPolicy.ALL:
        raise ApiError(10101)
    if not filters(config) and context.number():
        raise ApiError(10099)
    check_partition(config, context)


def check_partition(config: ConsumerConfig, context: ConsumerContext) -> None:
    """Check that no message of a work queue is for two consumers. Raises: ApiError 10100."""
    mine = filters(config)
    for name, other in context.consumers.items():
        if name == (config.durable_name or config.name) or other.direct or other.sourcing:
            continue
        its = filters(other)
        if (mine and not its) or any(collide(one, two) for one in mine for two in its):
            raise ApiError(10100)


def _with_idle_limit(config: ConsumerConfig, being: ConsumerConfig) -> ConsumerConfig:
    """Return the configuration with the idle limit that it has by default.

    `being`: which says whether the consumer is durable.
    """
    if being.durable_name or config.inactive_threshold > 0:
        return config
    return replace(config, inactive_threshold=DEFAULT_INACTIVE_THRESHOLD)


# -- changes ---------------------------------------------------------------------------------------------


def check_consumer_update(
    old: ConsumerConfig,
    new: ConsumerConfig,
    context: ConsumerContext,
    *,
    action: Action = Action.CREATE_OR_UPDATE,
    pedantic: bool = False,
) -> ConsumerConfig:
    """The complete configuration that takes the place of `old`, as long paused as that. Raises: ApiError."""
    new = replace(new, pause_until=old.pause_until)
    new = complete(with_consumer_level(new), context, pedantic=pedantic)
    if action is Action.CREATE:
        if not same_consumer(old, new):
            raise ApiError(10148)
        new = replace(new, metadata=old.metadata)
    if context.stream.retention is RetentionPolicy.WORKQUEUE:
        check_partition(new, context)
    if new != old:
        _check_unchangeable(old, new, is_bound=context.is_bound)
    check_extensions(new, context.stream.subjects)
    if old.pause_until:
        new = replace(new, pause_until=short_time(times.to_ns(old.pause_until)))
    # As on the Go server, it is what the consumer was that counts.
    return new if new.inactive_threshold == old.inactive_threshold else _with_idle_limit(new, old)


def same_consumer(first: ConsumerConfig, second: ConsumerConfig) -> bool:
    """True if both configurations are the same apart from the versions in their metadata."""
    return replace(first, metadata=without_versions(first.metadata)) == replace(
        second, metadata=without_versions(second.metadata)
    )


def _check_unchangeable(old: ConsumerConfig, new: ConsumerConfig, *, is_bound: bool) -> None:
    start_changed = _start(old) != _start(new)
    for is_changed, text in (
        (old.deliver_policy is not new.deliver_policy, "deliver policy"),
        (old.mem_storage != new.mem_storage, "storage type"),
        (old.direct != new.direct, "direct"),
        (old.sourcing != new.sourcing, "sourcing"),
        (old.opt_start_seq != new.opt_start_seq, "start sequence"),
        (start_changed, "start time"),
        (old.ack_policy is not new.ack_policy, "ack policy"),
        (old.replay_policy is not new.replay_policy, "replay policy"),
        (old.idle_heartbeat != new.idle_heartbeat, "heart beats"),
        (old.flow_control != new.flow_control, "flow control"),
    ):
        if is_changed:
            raise ApiError(10012, err=f"{text} can not be updated")
    if old.deliver_subject != new.deliver_subject:
        if not old.deliver_subject:
            raise ApiError(10012, err="can not update pull consumer to push based")
        if not new.deliver_subject:
            raise ApiError(10012, err="can not update push consumer to pull based")
        if is_bound:
            raise ApiError(10013)
    if old.max_waiting != new.max_waiting:
        raise ApiError(10012, err="max waiting can not be updated")


def _start(config: ConsumerConfig) -> int | None:
    return None if config.opt_start_time is None else times.to_ns(config.opt_start_time)


# -- every one -------------------------------------------------------------------------------------------


def complete(config: ConsumerConfig, context: ConsumerContext, *, pedantic: bool = False) -> ConsumerConfig:
    """The configuration with its defaults, if it can be. Raises: ApiError."""
    limits = context.limits(config)
    config = _with_defaults(config, context, limits, pedantic=pedantic)
    _check_names(config, context.stream)
    _check_acks(config)
    if config.deliver_subject:
        _check_push(config, context.stream)
    else:
        _check_pull(config, context)
    _check_limits(config, context, limits)
    _check_filters(config)
    _check_start(config)
    _check_rest(config)
    if context.stream.placement is not None and context.stream.placement.preferred:
        raise invalid("preferred server not permitted in placement")
    return config


def _with_defaults(
    config: ConsumerConfig, context: ConsumerContext, limits: AccountLimits, *, pedantic: bool
) -> ConsumerConfig:
    config = replace(config, **_without_nonsense(config, pedantic=pedantic))
    changed: dict[str, object] = {}
    if not config.deliver_subject and config.max_waiting == 0:
        changed["max_waiting"] = DEFAULT_MAX_WAITING
    if config.ack_wait == 0 and config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
        changed["ack_wait"] = DEFAULT_ACK_WAIT
    if config.backoff:
        if pedantic and changed.get("ack_wait", config.ack_wait) != config.backoff[0]:
            raise pedantic_error("first backoff value has to equal batch AckWait")
        changed["ack_wait"] = config.backoff[0]
    changed |= _inherited(config, context, limits, pedantic=pedantic)
    if not config.deliver_subject and config.max_batch == 0 and context.settings.max_request_batch > 0:
        if pedantic:
            raise pedantic_error("max_request_batch must be set if it's JetStream limits are set")
        changed["max_batch"] = context.settings.max_request_batch
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT and config.priority_timeout == 0:
        changed["priority_timeout"] = DEFAULT_PRIORITY_TIMEOUT
    if config.ack_policy is AckPolicy.FLOW_CONTROL and not pedantic:
        changed |= {"flow_control": True, "idle_heartbeat": _FLOW_HEARTBEAT}
    return replace(config, **changed)


_LEAST: Final = (
    ("max_deliver", -1),
    ("max_waiting", 0),
    ("max_ack_pending", -1),
    ("max_batch", 0),
    ("max_expires", 0),
    ("max_bytes", 0),
    ("idle_heartbeat", 0),
    ("inactive_threshold", 0),
    ("priority_timeout", 0),
)


def _without_nonsense(config: ConsumerConfig, *, pedantic: bool) -> dict[str, object]:
    """Return values in place of numbers that mean nothing. Raises: ApiError 10157."""
    changed: dict[str, object] = {}
    for name, least in _LEAST:
        if getattr(config, name) < least:
            if pedantic:
                raise pedantic_error(f"{name} must {'be set to -1' if least else 'not be negative'}")
            changed[name] = least
    if config.max_deliver == 0:
        changed["max_deliver"] = -1
    return changed


def _inherited(
    config: ConsumerConfig, context: ConsumerContext, limits: AccountLimits, *, pedantic: bool
) -> dict[str, object]:
    """Return the stream's, the account's and the server's values for fields that are empty."""
    changed: dict[str, object] = {}
    of_stream = context.stream.consumer_limits
    pending = config.max_ack_pending
    if pending == 0:
        if pedantic and of_stream.max_ack_pending > 0:
            raise pedantic_error("max_ack_pending must be set if it's configured in stream limits")
        pending = of_stream.max_ack_pending
    if config.inactive_threshold == 0:
        if pedantic and of_stream.inactive_threshold > 0:
            raise pedantic_error("inactive_threshold must be set if it's configured in stream limits")
        changed["inactive_threshold"] = of_stream.inactive_threshold
    if pending == 0 and config.ack_policy is not AckPolicy.NONE:
        known = [limit for limit in (context.settings.max_ack_pending, limits.max_ack_pending) if limit > 0]
        pending = min([DEFAULT_MAX_ACK_PENDING, *known])
    changed["max_ack_pending"] = pending
    return changed


def _check_names(config: ConsumerConfig, stream: StreamConfig) -> None:
    for name, what in ((config.name, "name"), (config.durable_name, "durable name")):
        if name and not is_asset_name(name):
            raise invalid(f"consumer {what} can not contain '.', '*', '>', '\\', '/'")
    if config.num_replicas > 0 and config.num_replicas > stream.num_replicas:
        raise ApiError(10126)
    if config.num_replicas < 0:
        raise ApiError(10133)
    if stream.retention is not RetentionPolicy.LIMITS and config.num_replicas not in (0, stream.num_replicas):
        raise ApiError(10134)


def _check_acks(config: ConsumerConfig) -> None:
    if any(wait < 0 for wait in config.backoff):
        raise ApiError(10184)
    if config.ack_wait < 0:
        raise ApiError(10183)
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        _check_flow_acks(config)
    if config.backoff and config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise ApiError(10116)
    if len(config.description.encode()) > MAX_DESCRIPTION:
        raise ApiError(10107, max=MAX_DESCRIPTION)


def _check_flow_acks(config: ConsumerConfig) -> None:
    if not config.deliver_subject:
        raise ApiError(10218)
    if not config.flow_control:
        raise ApiError(10219)
    if config.idle_heartbeat != _FLOW_HEARTBEAT:
        raise invalid("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise ApiError(10220)
    if config.ack_wait or config.backoff:
        raise ApiError(10221)
    if config.max_deliver > 0:
        raise ApiError(10222)


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    subject = config.deliver_subject
    if not is_literal(subject.encode()):
        raise ApiError(10079)
    if not valid(subject):
        raise ApiError(10112)
    if any(within(subject, its) for its in stream.subjects):
        raise ApiError(10081)
    if config.max_waiting != 0:
        raise ApiError(10080)
    if config.max_ack_pending > 0 and config.ack_policy is AckPolicy.NONE:
        raise ApiError(10082)
    if 0 < config.idle_heartbeat < _LEAST_HEARTBEAT:
        raise ApiError(10083)


def _check_pull(config: ConsumerConfig, context: ConsumerContext) -> None:
    if config.ack_policy is AckPolicy.NONE and context.stream.retention is RetentionPolicy.WORKQUEUE:
        raise ApiError(10084)
    if config.rate_limit_bps > 0:
        raise ApiError(10086)
    if config.idle_heartbeat > 0:
        raise ApiError(10088)
    if config.flow_control:
        raise ApiError(10089)
    if 0 < config.max_expires < MILLISECOND:
        raise ApiError(10115)
    if 0 < context.settings.max_request_batch < config.max_batch:
        raise ApiError(10125, limit=context.settings.max_request_batch)


def _check_limits(config: ConsumerConfig, context: ConsumerContext, limits: AccountLimits) -> None:
    of_stream = context.stream.consumer_limits
    for limit in (context.settings.max_ack_pending, limits.max_ack_pending, of_stream.max_ack_pending):
        if 0 < limit < config.max_ack_pending:
            raise ApiError(10121, limit=limit)
    if 0 < of_stream.inactive_threshold < config.inactive_threshold:
        raise ApiError(10153, limit=format_ns(of_stream.inactive_threshold))
    if config.direct:
        if not config.deliver_subject:
            raise ApiError(10090)
        if config.durable_name:
            raise ApiError(10091)


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise ApiError(10136)
    if config.filter_subject and not valid(config.filter_subject):
        raise invalid("invalid subject")
    if "" in config.filter_subjects:
        raise ApiError(10139)
    wanted = filters(config)
    for position, subject in enumerate(wanted):
        if not valid(subject):
            raise invalid("invalid subject")
        if any(within(subject, other) for at, other in enumerate(wanted) if at != position):
            raise ApiError(10138)


_NO_START: Final = {
    DeliverPolicy.ALL: "all",
    DeliverPolicy.LAST: "last",
    DeliverPolicy.LAST_PER_SUBJECT: "last per subject",
    DeliverPolicy.NEW: "new",
}


def _check_start(config: ConsumerConfig) -> None:
    policy = config.deliver_policy
    has_time = config.opt_start_time is not None
    if policy in _NO_START:
        name = _NO_START[policy]
        if config.opt_start_seq > 0:
            raise _start_is_set(name, "sequence")
        if has_time:
            raise _start_is_set(name, "time")
        if policy is DeliverPolicy.LAST_PER_SUBJECT and not filters(config):
            raise _is_not_set(name, "filter subject")
    elif policy is DeliverPolicy.BY_START_SEQUENCE:
        if config.opt_start_seq == 0:
            raise _is_not_set("by start sequence", "start sequence")
        if has_time:
            raise _start_is_set("by start sequence", "time")
    else:
        if not has_time:
            raise _is_not_set("by start time", "start time")
        if config.opt_start_seq != 0:
            raise _start_is_set("by start time", "start sequence")


def _start_is_set(policy: str, what: str) -> ApiError:
    text = f"consumer delivery policy is deliver {policy}, but optional start {what} is also set"
    return ApiError(10094, err=text)


def _is_not_set(policy: str, what: str) -> ApiError:
    return ApiError(
        10094, err=f"consumer delivery policy is deliver {policy}, but optional {what} is not set"
    )


def _check_rest(config: ConsumerConfig) -> None:
    sample_percentage(config.sample_freq)
    if config.flow_control and config.idle_heartbeat == 0:
        raise ApiError(10108)
    if config.durable_name and config.name and config.name != config.durable_name:
        raise ApiError(10132)
    if is_large(config.metadata):
        raise ApiError(10135, limit=f"{MAX_METADATA // 1024}KB")
    _check_groups(config)


def sample_percentage(text: str) -> int:
    """Parse how many of 100 acknowledgements are measured; more than 100 is all. Raises: ApiError 10095."""
    if not text:
        return 0
    digits = text.removesuffix("%")
    unsigned = digits[1:] if digits[:1] in ("+", "-") else digits
    if not (unsigned.isascii() and unsigned.isdigit()):
        raise ApiError(10095, err=f'strconv.Atoi: parsing "{digits}": invalid syntax')
    if len(unsigned) > 18:
        raise ApiError(10095, err=f'strconv.Atoi: parsing "{digits}": value out of range')
    if int(digits) < 0:
        raise ApiError(10095, err="<nil>")
    return int(digits)


def _check_groups(config: ConsumerConfig) -> None:
    if config.priority_policy is PriorityPolicy.NONE:
        if config.priority_groups:
            raise ApiError(10196)
        if config.priority_timeout > 0:
            raise ApiError(10197)
        return
    if config.deliver_subject:
        raise ApiError(10178)
    if not config.priority_groups:
        raise ApiError(10159)
    for group in config.priority_groups:
        if not group:
            raise ApiError(10161)
        if not is_group_name(group):
            raise ApiError(10162)
