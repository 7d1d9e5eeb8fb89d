"""The bodies of requests to the JetStream API as types, and bytes to them.

What a body may be is said here, what it comes to is not. A time is canonical RFC 3339 text once decoded.
Source: JetStream specification, 1; nats-server 2.15.1 for what is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import replace

from headrace.protocol.jetstream import times
from headrace.protocol.jetstream.configs import Action, ConsumerConfig, Placement, StreamConfig
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.go_decode import LARGEST, decode_leniently, decode_strictly, fields_of
from headrace.protocol.jetstream.numbers import UINT64_MAX, Int, Time, Uint64, has_long_number
from headrace.protocol.jetstream.times import ZERO

_OBJECT_OR_ARRAY: Final = re.compile(rb"[ \t\r\n]*[{\[]")
_NO_FIELDS: Final = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*\}[ \t\r\n]*")


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One body; `go_name` is what the Go server's errors call it."""


class StreamConfigRequest(StreamConfig, frozen=True, kw_only=True):
    """STREAM.CREATE and STREAM.UPDATE; `decode_stream` takes it apart."""

    go_name: ClassVar[str] = "StreamConfigRequest"

    pedantic: bool = False


class ConsumerRequest(RequestBody, frozen=True):
    """CONSUMER.CREATE and CONSUMER.DURABLE.CREATE."""

    go_name: ClassVar[str] = "CreateConsumerRequest"

    stream_name: str = ""
    config: ConsumerConfig = ConsumerConfig()
    action: Action = Action.CREATE_OR_UPDATE
    pedantic: bool = False


class StreamInfoRequest(RequestBody, frozen=True):
    """The body of STREAM.INFO."""

    go_name: ClassVar[str] = "JSApiStreamInfoRequest"

    offset: Int = 0
    deleted_details: bool = False
    subjects_filter: str = ""


class StreamNamesRequest(RequestBody, frozen=True):
    """The body of STREAM.NAMES."""

    go_name: ClassVar[str] = "JSApiStreamNamesRequest"

    offset: Int = 0
    subject: str = ""


class StreamListRequest(StreamNamesRequest, frozen=True):
    """The body of STREAM.LIST."""

    go_name: ClassVar[str] = "JSApiStreamListRequest"


class ConsumersRequest(RequestBody, frozen=True):
    """CONSUMER.NAMES and CONSUMER.LIST."""

    go_name: ClassVar[str] = "JSApiConsumersRequest"

    offset: Int = 0


class PurgeRequest(RequestBody, frozen=True):
    """The body of STREAM.PURGE."""

    go_name: ClassVar[str] = "JSApiStreamPurgeRequest"

    seq: Uint64 = 0
    filter: str = ""
    keep: Uint64 = 0


class MessageGetRequest(RequestBody, frozen=True):
    """STREAM.MSG.GET and DIRECT.GET."""

    go_name: ClassVar[str] = "JSApiMsgGetRequest"

    seq: Uint64 = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: Int = 0
    max_bytes: Int = 0
    start_time: Time | None = None
    multi_last: list[str] = []
    up_to_seq: Uint64 = 0
    up_to_time: Time | None = None
    no_hdr: bool = False


class MessageDeleteRequest(RequestBody, frozen=True):
    """The body of STREAM.MSG.DELETE."""

    go_name: ClassVar[str] = "JSApiMsgDeleteRequest"

    seq: Uint64 = 0
    no_erase: bool = False


class StepDownRequest(RequestBody, frozen=True):
    """The body of STREAM.LEADER.STEPDOWN and CONSUMER.LEADER.STEPDOWN, which may be missing."""

    go_name: ClassVar[str] = "JSApiLeaderStepdownRequest"

    placement: Placement | None = None


class PeerRequest(RequestBody, frozen=True):
    """The body of STREAM.PEER.REMOVE and STREAM.PEER.EVACUATE: the name of a server."""

    go_name: ClassVar[str] = "JSApiStreamRemovePeerRequest"

    peer: str = ""


class PauseRequest(RequestBody, frozen=True):
    """The body of CONSUMER.PAUSE."""

    go_name: ClassVar[str] = "JSApiConsumerPauseRequest"

    pause_until: Time = ZERO


class UnpinRequest(RequestBody, frozen=True):
    """Read leniently by the Go server in either mode."""

    go_name: ClassVar[str] = "JSApiConsumerUnpinRequest"

    group: str = ""


class ResetRequest(RequestBody, frozen=True):
    """Read leniently by the Go server in either mode."""

    go_name: ClassVar[str] = "JSApiConsumerResetRequest"

    seq: Uint64 = 0


class SnapshotRequest(RequestBody, frozen=True):
    """The body of STREAM.SNAPSHOT."""

    go_name: ClassVar[str] = "JSApiStreamSnapshotRequest"

    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: Int = 0
    window_size: Int = 0
    jsck: bool = False


class LostMessages(RequestBody, frozen=True):
    """The messages that a stream has lost, as its state says."""

    go_name: ClassVar[str] = "LostStreamData"

    msgs: list[Uint64] = []
    bytes: Uint64 = 0


class BackedUpStreamState(RequestBody, frozen=True):
    """The state of a stream when it was backed up."""

    go_name: ClassVar[str] = "StreamState"

    messages: Uint64 = 0
    bytes: Uint64 = 0
    first_seq: Uint64 = 0
    first_ts: Time = ZERO
    last_seq: Uint64 = 0
    last_ts: Time = ZERO
    num_subjects: Int = 0
    subjects: dict[str, Uint64] = {}
    num_deleted: Int = 0
    deleted: list[Uint64] = []
    lost: LostMessages | None = None
    consumer_count: Int = 0


class RestoreRequest(RequestBody, frozen=True):
    """The body of STREAM.RESTORE."""

    go_name: ClassVar[str] = "JSApiStreamRestoreRequest"

    config: StreamConfig = StreamConfig()
    state: BackedUpStreamState = BackedUpStreamState()


class StreamRequest(NamedTuple):
    """The parts of a request to create or update a stream."""

    config: StreamConfig
    pedantic: bool


T = TypeVar("T", bound=msgspec.Struct)


def decode(kind: type[T], payload: bytes, *, strict: bool = True) -> T:
    """The body as `kind`; an empty one has nothing but defaults.

    Raises: ApiError 10025 with the Go server's words; unknown fields are such an error only if `strict`.
    """
    try:
        result: T = _decoder(kind).decode(payload)
        return _checked(result) if _is_to_check(payload) else result
    except times.TimeError as error:
        raise ApiError(10025, err=error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if len(payload) > LARGEST:
            raise ApiError(10025, err=error) from None
    try:  # the slow way says what it comes to in Go
        return decode_strictly(kind, payload)
    except ValueError as error:
        if strict:
            raise ApiError(10025, err=error) from None
    return decode_lenient(kind, payload)


def decode_lenient(kind: type[T], payload: bytes) -> T:
    """The body as `kind`, as requests are read that are lenient in either mode; an empty body is none.

    Raises: ApiError 10025 with the Go server's words.
    """
    try:
        return decode_leniently(kind, payload)
    except ValueError as error:
        raise ApiError(10025, err=error) from None


_STREAM_FIELDS: Final = StreamConfig.__struct_fields__
_stream_values: Final = attrgetter(*_STREAM_FIELDS)


def decode_stream(payload: bytes, *, strict: bool = True) -> StreamRequest:
    """A stream's configuration and whether it is to be judged pedantically. Raises: ApiError 10025."""
    request = decode(StreamConfigRequest, payload, strict=strict)
    config = StreamConfig(**dict(zip(_STREAM_FIELDS, _stream_values(request), strict=True)))
    return StreamRequest(config, request.pedantic)


def is_object_or_array(payload: bytes) -> bool:
    """True if a request with an optional body reads this one."""
    return _OBJECT_OR_ARRAY.match(payload) is not None


def is_empty(payload: bytes) -> bool:
    """True if a request without a body may have this one: nothing, or an object without fields."""
    return not payload or _NO_FIELDS.fullmatch(payload) is not None


def _is_to_check(payload: bytes) -> bool:
    """True if a body has values that msgspec does not check: numbers of many digits, and times."""
    if b'_time"' in payload or b'_ts"' in payload or b'"pause_until"' in payload or b"\\" in payload:
        return True  # a name may be written with escapes
    return has_long_number(payload)


@functools.cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


def _checked(struct: T) -> T:
    """Return a structure with its times as the Go server writes them.

    Raises: TimeError; ValidationError beyond 64 bits.
    """
    changed = {name: judge(getattr(struct, name)) for name, judge in _judges(type(struct)).items()}
    return replace(struct, **changed) if changed else struct


_Judge = Callable[[Any], Any]
"""A function from a field's value to the one that stands for it."""


@functools.cache
def _judges(kind: type[msgspec.Struct]) -> dict[str, _Judge]:
    """Return, by field, the checks that msgspec alone does not make: of times, unsigned numbers, and
    structures with such.
    """
    names = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    found = {names[name]: _judge(name, annotation) for name, annotation in fields_of(kind).items()}
    return {name: judge for name, judge in found.items() if judge is not None}


def _judge(name: str, annotation: Any) -> _Judge | None:
    """Return the check for values of a type; None if there is nothing to check."""
    if annotation == Time:
        return times.canonical
    if annotation == Uint64:
        return functools.partial(_within_64_bits, name)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _checked
    parts = get_args(annotation)
    inner = _judge(name, parts[-1] if get_origin(annotation) is dict else parts[0]) if parts else None
    if inner is None or get_origin(annotation) is Annotated:
        return None
    return functools.partial(_INSIDE[get_origin(annotation)], inner)


def _within_64_bits(name: str, value: int) -> int:
    if value > UINT64_MAX:
        raise msgspec.ValidationError(f"Expected `uint64` - at `$.{name}`")
    return value


def _each(judge: _Judge, values: list[Any]) -> list[Any]:
    return [judge(value) for value in values]


def _each_named(judge: _Judge, values: dict[str, Any]) -> dict[str, Any]:
    return {name: judge(value) for name, value in values.items()}


def _unless_missing(judge: _Judge, value: Any) -> Any:
    return None if value is None else judge(value)


_INSIDE: Final[dict[Any, Callable[[_Judge, Any], Any]]] = {
    list: _each,
    dict: _each_named,
    UnionType: _unless_missing,
    Union: _unless_missing,
}
"""Checks of containers, by the type's origin, made of the check for one value."""
