"""Contexts for the rules of configurations: an account's limits, streams and consumers.

The rules themselves are `stream.rules` and `consumer.rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.jetstream.consumer.rules import ConsumerContext
from headrace.jetstream.stream.reservations import StorageRoom
from headrace.jetstream.stream.rules import StreamContext
from headrace.protocol.jetstream.configs import Storage

if TYPE_CHECKING:
    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.ports import ConsumerView, StreamView
    from headrace.protocol.jetstream.configs import ConsumerConfig


class _Configs(Mapping[str, "ConsumerConfig"]):
    """Configurations of consumers by name, as they are now: no copy for each request."""

    def __init__(self, consumers: Mapping[str, ConsumerView]) -> None:
        self._consumers = consumers

    def __getitem__(self, name: str) -> ConsumerConfig:
        return self._consumers[name].config

    def __iter__(self) -> Iterator[str]:
        return iter(self._consumers)

    def __len__(self) -> int:
        return len(self._consumers)


def room(account: AccountJetStream) -> StorageRoom:
    return StorageRoom(
        tiers=account.quota.tiers,
        settings=account.settings,
        streams=account.configs,
        reserved_memory=account.system.reserved(Storage.MEMORY),
        reserved_storage=account.system.reserved(Storage.FILE),
    )


def stream_context(account: AccountJetStream, name: str) -> StreamContext:
    """Return the context to judge a configuration of this stream, which may be there already."""
    stream = account.streams.get(name)
    consumers = _Configs({} if stream is None else stream.consumers)
    return StreamContext(name=name, room=room(account), consumers=consumers)


def consumer_context(stream: StreamView, known: Consumer | None = None) -> ConsumerContext:
    """Return the context to judge a configuration of a consumer; `known`: the consumer that is changed."""
    account = stream.account
    subject = known.config.deliver_subject.encode() if known is not None else b""
    return ConsumerContext(
        stream=stream.config,
        consumers=_Configs(stream.consumers),
        tiers=account.quota.tiers,
        settings=account.settings,
        is_bound=bool(subject) and account.has_interest(subject),
    )
