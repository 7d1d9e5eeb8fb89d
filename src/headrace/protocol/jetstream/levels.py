"""Versions in the metadata of streams and consumers: what a server must know to keep one, and who answered.

`_nats.req.level` is stored with a configuration, the others only stand in responses. Also what a client asks
of the server in a header. Source: JetStream specification, 0; the levels are those of nats-server 2.15.1.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.protocol.info import JETSTREAM_API_LEVEL
from headrace.protocol.jetstream.configs import AckPolicy, ConsumerConfig, StreamConfig
from headrace.protocol.jetstream.headers import value
from headrace.protocol.jetstream.times import ZERO

if TYPE_CHECKING:
    from collections.abc import Mapping

API_LEVEL: Final = JETSTREAM_API_LEVEL
REQUIRED_LEVEL: Final = b"Nats-Required-Api-Level"
"""The header of a request or a message that says what the server must know."""
VERSION_KEY: Final = "_nats.ver"
LEVEL_KEY: Final = "_nats.level"
REQUIRED_LEVEL_KEY: Final = "_nats.req.level"
_stream_values: Final = attrgetter(*StreamConfig.levels)
_consumer_values: Final = attrgetter(*ConsumerConfig.levels)
_USUAL_STREAM: Final = _stream_values(StreamConfig())
_USUAL_CONSUMER: Final = _consumer_values(ConsumerConfig())
_LEVEL: Final = re.compile(rb"[+-]?[0-9]{1,18}")


def asks_too_much(headers: bytes) -> bool:
    """True if headers ask for a later API level than this server's, or for an invalid one."""
    if not headers:
        return False
    asked = value(headers, REQUIRED_LEVEL)
    return bool(asked) and not (_LEVEL.fullmatch(asked) and int(asked) <= API_LEVEL)


def with_stream_level(config: StreamConfig) -> StreamConfig:
    """The configuration that says which level it needs."""
    return replace(config, metadata=_with_level(config.metadata, _level_of_fields(config)))


def with_consumer_level(config: ConsumerConfig) -> ConsumerConfig:
    """The configuration that says which level it needs."""
    level = 4 if config.ack_policy is AckPolicy.FLOW_CONTROL else _level_of_fields(config)
    return replace(config, metadata=_with_level(config.metadata, level))


def _level_of_fields(config: StreamConfig | ConsumerConfig) -> int:
    if isinstance(config, StreamConfig):
        values, usual = _stream_values(config), _USUAL_STREAM
    else:
        values, usual = _consumer_values(config), _USUAL_CONSUMER
    if values == usual:
        return 0
    fields = zip(config.levels.values(), values, usual, strict=True)
    return max((level for level, value, default in fields if value not in (default, ZERO)), default=0)


def without_versions(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata without the entries of versions, as the user gave it."""
    versions = (VERSION_KEY, LEVEL_KEY, REQUIRED_LEVEL_KEY)
    return {key: value for key, value in metadata.items() if key not in versions}


def with_server(metadata: Mapping[str, str], version: str) -> dict[str, str]:
    """Return metadata as a response has it: in order, with the version and level of the server."""
    return dict(sorted({**metadata, VERSION_KEY: version, LEVEL_KEY: str(API_LEVEL)}.items()))


def _with_level(metadata: Mapping[str, str], level: int) -> dict[str, str]:
    return {**without_versions(metadata), REQUIRED_LEVEL_KEY: str(level)}
