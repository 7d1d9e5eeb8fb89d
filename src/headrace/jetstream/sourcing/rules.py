"""Rules of configurations about the origin of messages and the change of subjects: mirrors, sources,
transforms.

Pure functions of configurations; fetching is done elsewhere. Source: JetStream specification, 2; the order of
the checks and their texts are those of nats-server 2.15.1.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.protocol.go_json import quoted
from headrace.protocol.jetstream.errors import ApiError, invalid, pedantic_error
from headrace.protocol.jetstream.names import is_asset_name
from headrace.subjects.grammar import is_subset, is_valid_literal, is_valid_subject, overlaps
from headrace.subjects.transform import SubjectTransform, TransformError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.protocol.jetstream import configs
    from headrace.protocol.jetstream.configs import StreamConfig, StreamSource

    Streams = Mapping[str, StreamConfig]

EVERYTHING: Final = ">"
_API: Final = "$JS.API"
_FUNCTIONS: Final = re.compile(
    r"\{\{\s*([pP]artition|[wW]ildcard|[sS]plit([fF]rom([lL]eft|[rR]ight))?|[sS]lice[fF]rom([lL]eft|[rR]ight)"
    r"|[rR]andom|[lL]eft|[rR]ight)\s*\((.*)\)\s*\}\}",
    re.DOTALL,
)
_BAD_SUBJECT: Final = "invalid subject"


def valid(subject: str) -> bool:
    """True if a subject can be subscribed to."""
    return is_valid_subject(subject.encode())


def collide(first: str, second: str) -> bool:
    """True if there is a subject that both match; equal texts always do."""
    return first == second or overlaps(first.encode(), second.encode())


def within(narrow: str, wide: str) -> bool:
    """True if every subject that `narrow` matches is matched by `wide`."""
    return is_subset(narrow.encode(), wide.encode())


# -- transforms ------------------------------------------------------------------------------------------


def transform_error(source: str, destination: str) -> str:
    """Return the error of a transform in the Go server's words, or "". No source means all subjects."""
    if not destination:
        return ""
    try:
        SubjectTransform((source or EVERYTHING).encode(), destination.encode())
    except TransformError as error:
        return str(error)
    return ""


def mapping_error(source: str, destination: str) -> str:
    """Return the error of a transform that is checked token by token first; "": there is none."""
    if not destination:
        return ""
    ended = False
    for token in destination.split("."):
        if not token or ended:
            return "invalid mapping destination: invalid transform" + (f" in {token}" if token else "")
        if len(token) > 4 and token.startswith("{{") and token.endswith("}}"):
            if _FUNCTIONS.search(token) is None:
                return f"invalid mapping destination: unknown function in {token}"
        elif any(blank in token for blank in "\t\n\f\r "):
            return "invalid mapping destination: invalid transform"
        ended = token == EVERYTHING
    return transform_error(source, destination)


def _check_transforms(
    transforms: Iterable[configs.SubjectTransformConfig], bad_source: int, bad_destination: int
) -> None:
    for transform in transforms:
        check_transform(transform, bad_source, bad_destination)


def check_transform(transform: configs.SubjectTransformConfig, bad_source: int, bad_destination: int) -> None:
    """Check a subject transform. Raises: ApiError with the number for a bad source or a bad destination."""
    if transform.src and not valid(transform.src):
        raise ApiError(bad_source, err=f"{_BAD_SUBJECT} {transform.src}")
    problem = mapping_error(transform.src, transform.dest)
    if problem:
        raise ApiError(bad_destination, err=problem)


# -- mirrors ---------------------------------------------------------------------------------------------


def check_mirror(config: StreamConfig, streams: Streams, *, pedantic: bool) -> StreamConfig:
    """The configuration of a mirror with what it takes from its origin. Raises: ApiError."""
    mirror = config.mirror
    if mirror is None:
        return config
    for is_set, number in (
        (config.first_seq, 10143),
        (config.subjects, 10034),
        (config.sources, 10031),
        (config.allow_msg_counter, 10173),
        (config.allow_atomic, 10198),
        (config.allow_batched, 10209),
        (config.allow_msg_schedules, 10186),
        (_is_bad_consumer(mirror), 10213),
        (mirror.filter_subject and mirror.subject_transforms, 10150),
    ):
        if is_set:
            raise ApiError(number)
    if config.subject_delete_marker_ttl > 0:
        raise invalid("subject delete markers forbidden on mirrors")
    for number, transform in enumerate(mirror.subject_transforms):
        check_transform(transform, 10151, 10154)
        for other, one in enumerate(mirror.subject_transforms):
            if other != number and collide(transform.src, one.src):
                raise ApiError(10152)
    if mirror.external is not None:
        return config
    if not is_asset_name(mirror.name):
        raise ApiError(10142)
    origin = streams.get(mirror.name)
    if origin is None:
        return config
    if 0 < config.max_msg_size < origin.max_msg_size:
        raise ApiError(10030)
    if pedantic and config.mirror_direct != origin.allow_direct:
        raise pedantic_error("origin stream has direct get set, mirror has it disabled")
    return replace(config, mirror_direct=origin.allow_direct)


def _is_bad_consumer(source: StreamSource) -> bool:
    """True if the named consumer of a source is invalid, or is given together with a place to start."""
    consumer = source.consumer
    if consumer is None:
        return False
    starts = source.opt_start_seq or source.opt_start_time is not None
    subject = consumer.deliver_subject.encode()
    fits = is_asset_name(consumer.name) and is_valid_subject(subject) and is_valid_literal(subject)
    return bool(not fits or starts or source.filter_subject)


# -- sources ---------------------------------------------------------------------------------------------


def check_sources(config: StreamConfig, streams: Streams) -> None:
    """Check the mirror and the sources of a configuration. Raises: ApiError."""
    if config.sources and config.allow_msg_schedules:
        raise ApiError(10187)
    known: set[object] = set()
    consumers: set[object] = set()
    for source in config.sources:
        _check_source(source)
        key = source_key(source)
        if key in known:
            raise ApiError(10140)
        known.add(key)
        _check_filters(source)
        if source.consumer is not None:
            if _is_bad_consumer(source):
                raise ApiError(10215)
            external = source.external.api if source.external else None
            if (source.name, external, source.consumer.name) in consumers:
                raise ApiError(10216)
            consumers.add((source.name, external, source.consumer.name))
        origin = streams.get(source.name) if source.external is None else None
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise ApiError(10046)


def source_key(source: StreamSource) -> tuple[object, ...]:
    """Return the key that tells one source of a stream from its others."""
    pairs = [(one.src or EVERYTHING, one.dest or EVERYTHING) for one in source.subject_transforms]
    return (
        source.name,
        source.external.api if source.external else None,
        source.consumer.name if source.consumer else None,
        *(pairs or [(source.filter_subject or EVERYTHING, EVERYTHING)]),
    )


def _check_source(source: StreamSource) -> None:
    if not is_asset_name(source.name):
        raise ApiError(10141)


def _check_filters(source: StreamSource) -> None:
    if source.filter_subject and source.subject_transforms:
        raise ApiError(10144)
    _check_transforms(source.subject_transforms, 10145, 10146)
    for number, transform in enumerate(source.subject_transforms):
        for other, one in enumerate(source.subject_transforms):
            if other != number and within(transform.src, one.src):
                raise ApiError(10147)


def check_origin_filters(config: StreamConfig) -> None:
    """Check the filters of origins, once everything else is right. Raises: ApiError."""
    origins = [("mirror", config.mirror)] if config.mirror else []
    origins += [("source", source) for source in config.sources]
    for what, source in origins:
        if source.filter_subject and not source.subject_transforms and not valid(source.filter_subject):
            colon = "" if what == "mirror" else ":"
            text = f"subject filter '{source.filter_subject}' for the {what}{colon} {_BAD_SUBJECT}"
            raise ApiError(10049, err=text)


# -- other accounts and domains, and circles -------------------------------------------------------------


def check_prefixes(config: StreamConfig, streams: Streams) -> None:
    """Check that the prefixes of external origins do not lead back here. Raises: ApiError."""
    origins = [config.mirror] if config.mirror else []
    origins += config.sources
    externals = [origin.external for origin in origins if origin.external]
    local = [streams[origin.name] for origin in origins if not origin.external and origin.name in streams]
    subjects = [subject for stream in local for subject in stream.subjects]
    for external in externals:
        _check_delivery_prefix(external.deliver, subjects)
    for external in externals:
        if not external.api:
            continue
        if not _is_publishable(external.api):
            text = (
                f"stream external api prefix {quoted(external.api)} must be a valid subject without wildcards"
            )
            raise invalid(text)
        if collide(external.api, _API):
            raise ApiError(10021, prefix=external.api, subject=_API)


def _check_delivery_prefix(prefix: str, subjects: Sequence[str]) -> None:
    if not prefix:
        return
    if not _is_publishable(prefix):
        raise ApiError(10024, prefix=prefix)
    for subject in subjects:
        if collide(subject, f"{prefix}.{subject}"):
            raise ApiError(10022, prefix=prefix, subject=subject)


def _is_publishable(subject: str) -> bool:
    return valid(subject) and is_valid_literal(subject.encode())


def check_circles(config: StreamConfig, streams: Streams) -> None:
    """Check that no message can come back to a stream where it was. Raises: ApiError."""
    waiting = deque([config])
    seen: set[str] = set()
    while waiting:
        stream = waiting.popleft()
        seen.add(stream.name)
        for source in stream.sources:
            if source.external is not None:
                continue
            if source.name in seen:
                if _reaches(stream.subjects, source.filter_subject):
                    raise invalid("detected cycle")
            elif source.name in streams:
                waiting.append(streams[source.name])
        mirror = stream.mirror
        if mirror is None or mirror.external is not None:
            continue
        if mirror.name in seen:
            raise invalid("detected cycle")
        if mirror.name in streams:
            waiting.append(streams[mirror.name])


def _reaches(subjects: Sequence[str], wanted: str) -> bool:
    return not wanted or any(collide(subject, wanted) for subject in subjects)
