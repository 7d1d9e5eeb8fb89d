"""Versions in the metadata of streams and consumers: what a server must know to keep one, and who answered.

`_nats.req.level` is stored with a configuration, the others only stand in responses. Also what a client asks
of the server in a header. Source: JetStream specification, 0; the levels are those of nats-server 2.15.1.
"""

from __future__ import annotations

import re
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
_USUAL_STREAM: Final = StreamConfig()
_USUAL_CONSUMER: Final = ConsumerConfig()
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
    usual = _USUAL_STREAM if isinstance(config, StreamConfig) else _USUAL_CONSUMER
    return max(
        (
            level
            for name, level in config.levels.items()
            if getattr(config, name) not in (getattr(usual, name), ZERO)
        ),
        default=0,
    )


def without_versions(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata without the entries of versions, as the user gave it."""
    versions = (VERSION_KEY, LEVEL_KEY, REQUIRED_LEVEL_KEY)
    return {key: value for key, value in metadata.items() if key not in versions}


def with_server(metadata: Mapping[str, str], version: str) -> dict[str, str]:
    """Return metadata as a response has it: in order, with the version and level of the server."""
    return dict(sorted({**metadata, VERSION_KEY: version, LEVEL_KEY: str(API_LEVEL)}.items()))


def _with_level(metadata: Mapping[str, str], level: int) -> dict[str, str]:
    return {**without_versions(metadata), REQUIRED_LEVEL_KEY: str(level)}
