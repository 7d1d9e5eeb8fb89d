"""JetStream as monitoring reads it: statistics of the server, its accounts and its streams, taken when asked.

Here lives the reading (`server.monitor.jetstream` is the port). Never lives here: names of fields of any
document but those of the API.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.jetstream.api.infos import consumer_info, stream_info
from headrace.jetstream.leadership import meta_cluster
from headrace.jetstream.sourcing.local_source import LocalSource
from headrace.protocol.jetstream.configs import Storage
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.copying import ArchiveSnapshot
    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.leadership import Leadership
    from headrace.jetstream.stream.stream import Stream
    from headrace.jetstream.system import JetStreamSystem


class StreamStats:
    """One stream."""

    __slots__ = ("_stream", "bytes", "consumers", "messages", "name")

    def __init__(self, stream: Stream) -> None:
        state = stream.log.state()
        self._stream = stream
        self.name = stream.name
        self.messages = state.messages
        self.bytes = state.bytes
        self.consumers = [name for name, each in stream.consumers.items() if not _is_internal(each)]

    def document(self) -> dict[str, Any]:
        """Return the stream's info as the API has it; empty if the stream is gone by now."""
        return {} if self._stream.is_closed else stream_info(self._stream, leader=True)

    def consumer_documents(self, *, direct: bool) -> list[dict[str, Any]]:
        """Return the ConsumerInfo of each consumer.

        `direct`: of those that only serve mirrors and sources, streams of this account among them, which
        read the log without a consumer and are shown as one.
        """
        consumers = self._stream.consumers.values()
        told = [consumer_info(each) for each in consumers if _is_internal(each) is direct]
        if not direct:
            return told
        readers = [each for each in self._stream.followers if isinstance(each, LocalSource)]
        return told + [_reader(self._stream, each) for each in readers]

    @property
    def waiting(self) -> int:
        """Messages received that are not durable yet."""
        return self._stream.ingest.waiting


class AccountStats(Struct, frozen=True, dict=True):
    """One account; its streams are looked at when they are first asked for."""

    name: str
    memory: int
    storage: int
    api_total: int
    api_errors: int
    broken: Mapping[str, str]
    account: AccountJetStream

    @cached_property
    def streams(self) -> list[StreamStats]:
        return [StreamStats(stream) for stream in self.account.streams.values()]


class ServerStats(Struct, frozen=True):
    """The statistics of JetStream: those of all accounts, by name, and of the server."""

    store_dir: str
    max_memory: int
    max_storage: int
    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    api_total: int
    api_errors: int
    api_inflight: int
    accounts: list[AccountStats]
    archive: ArchiveSnapshot | None
    """The archiving of the streams; None if they are not archived."""
    is_leader: bool
    """True if this server has the streams; False if another one has them, or none."""
    trouble: str
    """The reason why this server can neither serve nor follow; "": it does."""
    meta_cluster: dict[str, Any] | None
    """The servers that can have the streams, as `/jsz` shows them; None where it is always this one."""


def server_stats(
    system: JetStreamSystem,
    store_dir: str,
    archive: ArchiveSnapshot | None = None,
    leadership: Leadership | None = None,
) -> ServerStats:
    """Return the statistics of JetStream on a server.

    `store_dir`: the directory of the files. `archive`: how the archiving goes. `leadership`: which of several
    servers has the streams. Cost: that of the number of
    accounts, and of the streams of those whose `streams` are asked for; no message is read.
    """
    accounts = sorted(system.accounts.values(), key=lambda account: account.name)
    return ServerStats(
        store_dir=store_dir,
        max_memory=system.settings.max_memory,
        max_storage=system.settings.max_storage,
        memory=system.held.memory,
        storage=system.held.storage,
        reserved_memory=system.reserved(Storage.MEMORY),
        reserved_storage=system.reserved(Storage.FILE),
        api_total=system.api.total,
        api_errors=system.api.errors,
        api_inflight=system.api.inflight,
        accounts=[_account(account) for account in accounts],
        archive=archive,
        is_leader=leadership is None or leadership.is_leader,
        trouble="" if leadership is None else leadership.trouble,
        meta_cluster=None if leadership is None else meta_cluster(leadership),
    )


def _account(account: AccountJetStream) -> AccountStats:
    held, _ = account.quota.held
    return AccountStats(
        name=account.name,
        memory=held.memory,
        storage=held.storage,
        api_total=account.api_counters.total,
        api_errors=account.api_counters.errors,
        broken=account.broken,
        account=account,
    )


def _reader(stream: Stream, reader: LocalSource) -> dict[str, Any]:
    """A stream that follows another one of its account. It counts no deliveries: its place is told twice."""
    following, source = reader.stream, reader.origin.source
    kind = "src" if following.config.mirror is None else "mirror"
    place = {"consumer_seq": reader.position, "stream_seq": reader.position}
    name = f"JS_{kind.upper()}_{following.name}"
    return {
        "stream_name": stream.name,
        "name": name,
        "created": short_time(following.created_ns),
        "config": {
            "name": name,
            "ack_policy": "none",
            "max_deliver": 1,
            **({"filter_subject": source.filter_subject} if source.filter_subject else {}),
            "replay_policy": "instant",
            "num_replicas": 0,
            "direct": True,
            "sourcing": True,
            "metadata": {
                f"_nats.{kind}.acc": following.account.name,
                f"_nats.{kind}.stream": following.name,
            },
        },
        "delivered": place,
        "ack_floor": place,
        "num_ack_pending": 0,
        "num_redelivered": 0,
        "num_waiting": 0,
        "num_pending": reader.left(),
        "ts": short_time(following.account.turns.now_ns()),
    }


def _is_internal(consumer: Consumer) -> bool:
    """True if a consumer only serves a mirror or a source."""
    return consumer.config.direct or consumer.config.sourcing
