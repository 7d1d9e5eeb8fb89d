"""Requests about consumers: made, changed, listed, paused, moved, removed.

What a configuration may say is `consumer.rules`'. Source: JetStream specification, 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.jetstream.api import paging
from headrace.jetstream.api.contexts import consumer_context
from headrace.jetstream.api.infos import consumer_info
from headrace.jetstream.api.request import Endpoint, check_level
from headrace.jetstream.consumer.rules import check_consumer_update, check_new_consumer
from headrace.jetstream.sourcing.origin import identity_of
from headrace.protocol.jetstream.configs import AckPolicy, RetentionPolicy
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.headers import added, has, value
from headrace.protocol.jetstream.levels import with_consumer_level
from headrace.protocol.jetstream.names import is_group_name
from headrace.protocol.jetstream.requests import (
    ConsumerRequest,
    ConsumersRequest,
    PauseRequest,
    ResetRequest,
    UnpinRequest,
    decode_lenient,
)
from headrace.protocol.jetstream.times import ZERO, to_ns
from headrace.protocol.nuid import random_name

if TYPE_CHECKING:
    from headrace.jetstream.api.request import Request
    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.stream.stream import Stream
    from headrace.protocol.jetstream.configs import ConsumerConfig

_IDENTITY: Final = b"Nats-Stream-Identity"
_MOST: Final = 1 << 10
"""Tokens of a filter in a subject."""
_NAME_LENGTH: Final = 8  # of a consumer whose client named none


# -- made and changed ------------------------------------------------------------------------------------


def create(request: Request) -> None:
    """Create a consumer: by the subject with its name, perhaps its filter; or without both."""
    if len(request.names) == 1:
        _create_ephemeral(request)
        return
    asked = request.decode(ConsumerRequest)
    check_level(request.headers)
    _check_stream_name(request, asked)
    name = request.names[1]
    _check_separators(name)
    config = asked.config
    if config.durable_name and config.durable_name != name:
        raise ApiError(10017)
    _check_filter(config, ".".join(request.names[2:]))
    _create(request, asked, replace(config, name=name))


def _create_ephemeral(request: Request) -> None:
    """Create an ephemeral consumer by the subject without a name, as older clients do."""
    asked = request.decode(ConsumerRequest)
    check_level(request.headers)
    _check_stream_name(request, asked)
    _check_separators(asked.config.name)
    if asked.config.durable_name:
        raise ApiError(10020)
    _create(request, asked, asked.config)


def create_durable(request: Request) -> None:
    """Create a durable consumer by the subject that older clients have for it."""
    asked = request.decode(ConsumerRequest)
    check_level(request.headers)
    _check_stream_name(request, asked)
    name = request.names[1]
    _check_separators(name)
    if not asked.config.durable_name:
        raise ApiError(10018)
    if asked.config.durable_name != name:
        raise ApiError(10017)
    _create(request, asked, replace(asked.config, name=name))


def _check_stream_name(request: Request, asked: ConsumerRequest) -> None:
    if asked.stream_name != request.names[0]:
        raise ApiError(10056)


def _check_separators(name: str) -> None:
    if "/" in name or "\\" in name:
        raise ApiError(10127)


def _check_filter(config: ConsumerConfig, in_subject: str) -> None:
    if not in_subject:
        return
    if config.filter_subjects:
        raise ApiError(10137)
    if config.filter_subject != in_subject:
        raise ApiError(10131)


def _create(request: Request, asked: ConsumerRequest, config: ConsumerConfig) -> None:
    if config.num_replicas > 1 and not request.account.settings.allows_replicas:
        raise ApiError(10074)
    stream = request.stream(asked.stream_name)
    headers = b""
    if config.direct or config.sourcing:
        headers = _identity(request, stream)
        config = _for_origin(config, stream)
    known = stream.consumers.get(config.name) if config.name else None
    if known is not None:
        _change(request, asked, known, _as_known(config, known.config), headers)
        return
    context = consumer_context(stream)
    config = check_new_consumer(config, context, action=asked.action, pedantic=asked.pedantic)
    assets = request.account.assets
    consumer = assets.create_consumer(stream, config, config.name or _free_name(stream))
    fields = consumer_info(consumer, with_version=True)
    request.answer_durably(fields, 10104, lambda: assets.remove_consumer(consumer), headers=headers)
    if config.pause_until and consumer.is_paused(request.account.turns.now_ns()):
        consumer.advisories.paused(to_ns(config.pause_until), is_paused=True)


def _for_origin(config: ConsumerConfig, stream: Stream) -> ConsumerConfig:
    """A consumer of a mirror or source elsewhere, which asks for it by a name that stays the same.

    Where messages go once they are consumed it lasts, and they go when they are stored there; else it is
    anybody's, under a name of its own.
    """
    if not (config.direct and config.sourcing and config.name):
        return config
    if stream.config.retention is RetentionPolicy.LIMITS:
        return replace(config, name=f"{config.name}-{random_name(_NAME_LENGTH)}")
    return replace(
        config,
        direct=False,
        durable_name=config.name,
        ack_policy=AckPolicy.FLOW_CONTROL,
        ack_wait=0,
        max_deliver=0,
        inactive_threshold=0,
    )


def _as_known(config: ConsumerConfig, known: ConsumerConfig) -> ConsumerConfig:
    """Keep the parts of a known consumer's configuration that a request does not change."""
    config = replace(config, pause_until=known.pause_until)
    if not (config.sourcing and config.durable_name):
        return config
    return replace(
        config,
        deliver_policy=known.deliver_policy,
        opt_start_seq=known.opt_start_seq,
        opt_start_time=known.opt_start_time,
    )


def _identity(request: Request, stream: Stream) -> bytes:
    """The header that tells a mirror or source which stream of that name this is.

    Raises: ApiError when it asks for another one.
    """
    identity = identity_of(stream.created_ns)
    wanted = value(request.headers, _IDENTITY)
    if wanted and wanted != identity.encode():
        raise ApiError(10225, msg=identity)
    return added(b"", (_IDENTITY, identity.encode()))


def _change(
    request: Request, asked: ConsumerRequest, known: Consumer, config: ConsumerConfig, headers: bytes
) -> None:
    context = consumer_context(known.stream, known)
    config = check_consumer_update(
        known.config, config, context, action=asked.action, pedantic=asked.pedantic
    )
    if known.config != config:  # the level in the metadata alone may be another one
        request.account.assets.update_consumer(known, config)
    if config.sourcing:  # what it was sent and has not stored comes again
        known.reset()
        request.account.assets.record_consumer(known)
    request.answer_durably(consumer_info(known, with_version=True), 10104, headers=headers)


def _free_name(stream: Stream) -> str:
    while (name := random_name(_NAME_LENGTH)) in stream.consumers:
        pass
    return name


# -- asked about -----------------------------------------------------------------------------------------


def info(request: Request) -> None:
    request.check_empty()
    check_level(request.headers)
    consumer = request.consumer()
    request.answer_when_stored(consumer_info(consumer, with_version=True), [consumer.stream])


def names(request: Request) -> None:
    asked = request.decode(ConsumersRequest, optional=True)
    found = [one.name for one in _public(request.stream())]
    fields, part = paging.page(found, asked.offset, paging.NAMES)
    request.answer({**fields, "consumers": list(part)})


def details(request: Request) -> None:
    asked = request.decode(ConsumersRequest, optional=True)
    stream = request.stream()
    fields, part = paging.page(_public(stream), asked.offset, paging.DETAILS)
    fields["consumers"] = [consumer_info(consumer) for consumer in part]
    request.answer_when_stored(fields, [stream])


def _public(stream: Stream) -> list[Consumer]:
    found = [one for one in stream.consumers.values() if not one.config.direct]
    return sorted(found, key=lambda one: one.name)


# -- changed in one thing --------------------------------------------------------------------------------


def delete(request: Request) -> None:
    request.check_empty()
    request.account.assets.remove_consumer(request.consumer())
    request.answer_durably({"success": True}, 10051)


def pause(request: Request) -> None:
    asked = request.decode(PauseRequest, optional=True)
    check_level(request.headers)
    consumer = request.consumer()
    until = None if asked.pause_until == ZERO else asked.pause_until
    config = with_consumer_level(replace(consumer.config, pause_until=until))
    request.account.assets.update_consumer(consumer, config)
    left = 0 if until is None else to_ns(until) - request.account.turns.now_ns()
    fields = {"paused": left > 0, "pause_until": asked.pause_until}
    if left > 0:
        fields["pause_remaining"] = left
    request.answer_durably(fields, 10104)


def unpin(request: Request) -> None:
    group = decode_lenient(UnpinRequest, request.payload).group
    if not group:
        raise ApiError(10025, err="consumer group not specified")
    if not is_group_name(group):
        raise ApiError(10162)
    consumer = request.consumer()
    if group not in consumer.config.priority_groups:
        raise ApiError(10160)
    consumer.delivery.unpin()
    request.answer({})


def reset(request: Request) -> None:
    """Reset a consumer. As on the Go server, a request for one that is not there gets no answer."""
    stream = request.account.streams.get(request.names[0])
    consumer = None if stream is None else stream.consumers.get(request.names[1])
    if stream is None or consumer is None or not request.delivery.reply:
        request.abandon()
        return
    check_level(request.headers)
    asked = decode_lenient(ResetRequest, request.payload) if request.payload else ResetRequest()
    sequence = consumer.reset(asked.seq)
    stream.retention.jumped(consumer)
    request.account.assets.record_consumer(consumer)
    fields = {**consumer_info(consumer, with_version=True), "reset_seq": sequence}
    headers = b""
    if has(request.headers, _IDENTITY):  # which is not compared here: who asked does that itself
        headers = added(b"", (_IDENTITY, identity_of(stream.created_ns).encode()))
    request.answer_durably(fields, 10104, headers=headers)


ENDPOINTS: Final = {
    b"CONSUMER.CREATE": Endpoint("consumer_create", create, 1, _MOST, checks_level=False),
    b"CONSUMER.DURABLE.CREATE": Endpoint("consumer_create", create_durable, 2, 2, checks_level=False),
    b"CONSUMER.INFO": Endpoint("consumer_info", info, 2, 2, checks_level=False),
    b"CONSUMER.NAMES": Endpoint("consumer_names", names, 1, 1, {**paging.EMPTY, "consumers": []}),
    b"CONSUMER.LIST": Endpoint("consumer_list", details, 1, 1, {**paging.EMPTY, "consumers": []}),
    b"CONSUMER.DELETE": Endpoint("consumer_delete", delete, 2, 2),
    b"CONSUMER.PAUSE": Endpoint(
        "consumer_pause", pause, 2, 2, {"paused": False, "pause_until": ZERO}, checks_level=False
    ),
    b"CONSUMER.UNPIN": Endpoint("consumer_unpin", unpin, 2, 2),
    b"CONSUMER.RESET": Endpoint("consumer_reset", reset, 2, 2, {"reset_seq": 0}, False, False, False),
}
