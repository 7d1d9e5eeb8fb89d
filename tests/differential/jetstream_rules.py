"""What our rules say of a move, and what they believe there is after it: streams and consumers.

No server and no message: what the Go server does with the same moves must be this. Never here: how moves come
about.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace
from msgspec.structs import replace as changed

from headrace.jetstream.consumer.rules import ConsumerContext, check_consumer_update, check_new_consumer
from headrace.jetstream.limits import ServerSettings, Tiers
from headrace.jetstream.sourcing.rules import within
from headrace.jetstream.stream.reservations import StorageRoom
from headrace.jetstream.stream.rules import StreamContext, check_new_stream, check_stream_update
from headrace.jetstream.stream_configs import StreamConfigs
from headrace.protocol.jetstream import responses
from headrace.protocol.jetstream.configs import ConsumerConfig, Storage, StreamConfig
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.requests import ConsumerRequest, decode, decode_stream

if TYPE_CHECKING:
    from differential.jetstream_assets import Move

Verdict = tuple[int, str] | dict[str, Any]
"""Number and text of an error, or the configuration that came of it."""
_VERSION: Final = "2.15.1"


def heard(response: dict[str, Any]) -> Verdict:
    """The verdict in a server's response."""
    if "error" in response:
        return response["error"]["err_code"], _in_order(response["error"]["description"])
    return response.get("config", {})


def _in_order(text: str) -> str:
    """The Go server names consumers in any order."""
    before, colon, names = text.partition("change to limits violates consumers: ")
    return before + colon + ", ".join(sorted(names.split(", "))) if colon else text


@dataclass
class Rules:
    """An account, as far as rules need it."""

    settings: ServerSettings = field(default_factory=ServerSettings)
    tiers: Tiers = field(default_factory=Tiers)
    streams: dict[str, StreamConfig] = field(default_factory=dict)
    consumers: dict[str, dict[str, ConsumerConfig]] = field(default_factory=dict)

    def names(self) -> dict[str, list[str]]:
        return {name: list(self.consumers[name]) for name in self.streams}

    def judge(self, move: Move) -> Verdict:
        try:
            if move.verb.startswith("STREAM.DELETE"):
                del self.streams[move.stream], self.consumers[move.stream]
                return {}
            shown = self._consumer(move) if move.consumer else self._stream(move)
        except ApiError as error:
            return error.err_code, error.description
        result: dict[str, Any] = json.loads(responses.encode(shown))
        return result

    def forget(self, stream: str, consumer: str) -> None:
        self.consumers[stream].pop(consumer, None)

    def _is_heard(self, subject: str) -> bool:
        """Whether a stream listens there: nobody else does."""
        return any(within(subject, its) for stream in self.streams.values() for its in stream.subjects)

    # -- one move

    def _room(self) -> StorageRoom:
        sums = {
            kind: sum(max(one.max_bytes, 0) for one in self.streams.values() if one.storage is kind)
            for kind in Storage
        }
        configs = StreamConfigs(self.streams.values())
        return StorageRoom(self.tiers, self.settings, configs, sums[Storage.MEMORY], sums[Storage.FILE])

    def _stream(self, move: Move) -> dict[str, Any]:
        config, pedantic = decode_stream(move.payload)
        context = StreamContext(move.stream, self._room(), self.consumers.get(move.stream, {}))
        if ".CREATE." in move.verb:
            config = check_new_stream(config, context, pedantic=pedantic)
        else:
            config = check_stream_update(self.streams.get(move.stream), config, context, pedantic=pedantic)
        self.streams[config.name] = config
        self.consumers.setdefault(config.name, {})
        return responses.stream_config(config, with_version=_VERSION)

    def _consumer(self, move: Move) -> dict[str, Any]:
        request = decode(ConsumerRequest, move.payload)
        config = request.config
        if config.durable_name and config.durable_name != move.consumer:
            raise ApiError(10017)
        config = replace(config, name=move.consumer)
        if config.num_replicas > 1:
            raise ApiError(10074)
        if move.stream not in self.streams:
            raise ApiError(10059)
        known = self.consumers[move.stream]
        context = ConsumerContext(self.streams[move.stream], known, self.tiers, self.settings)
        old = known.get(move.consumer)
        if old is None:
            config = check_new_consumer(config, context, action=request.action, pedantic=request.pedantic)
        else:
            context = changed(context, is_bound=self._is_heard(old.deliver_subject))
            config = check_consumer_update(
                old, config, context, action=request.action, pedantic=request.pedantic
            )
        known[move.consumer] = config
        return responses.consumer_config(config, with_version=_VERSION)
