"""Shared channels: STAN channels that are JetStream streams too (`streaming { adopt }`), over one log each.

Here lives the connection of both services: which log a stream has, the stream's configuration when it is
first made, and the notice that each service gets of messages that the other appends. Both services run on one
loop and share one committer, since only one thread may sync a log. Never lives here: a rule of STAN's or of
JetStream's.

A log stays in the streaming store under its channel's name. Its limits are the stream's as soon as there is a
stream. Deleting the stream leaves the channel and its messages; the next start makes the stream again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.engine.pending import PendingMap
from headrace.errors import LogError, StartError
from headrace.jetstream.api.contexts import consumer_context, stream_context
from headrace.jetstream.assets import stream_log
from headrace.jetstream.consumer.ack_state import ConsumerState
from headrace.jetstream.consumer.rules import check_new_consumer
from headrace.jetstream.stream.rules import check_new_stream
from headrace.jetstream.stream.stream import log_limits
from headrace.log.port import NO_LIMITS
from headrace.protocol.jetstream.configs import AckPolicy, ConsumerConfig, Storage, StreamConfig
from headrace.protocol.jetstream.errors import ApiError
from headrace.streaming.channels import ChannelRefused
from headrace.streaming.shared_stream import ConversionRefused

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping, Sequence

    from headrace.core.service import Delivery, Host
    from headrace.engine.batches import Gathered
    from headrace.engine.stan import Publications
    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.opening import JetStreamServer
    from headrace.jetstream.stream.stream import Stream
    from headrace.log.committer import Committer
    from headrace.log.port import Limits, MessageLog
    from headrace.log.store import LogStore
    from headrace.streaming.channels import Channel
    from headrace.streaming.service import StreamingService
    from headrace.streaming.shared_stream import DurablePosition

_WEIGHTS: Final = log_limits(StreamConfig()).weights
"""A log counts its bytes in one way as long as it is open, whoever opened it."""
_NS: Final = 1_000_000_000
_NONE: Final = -1


class SharedChannels:
    """The channels that a configuration names, with the names of their streams.

    It does not own the stores.
    """

    def __init__(self, streams: Mapping[str, str]) -> None:
        self.streams: Final = dict(streams)
        self._logs: dict[bytes, MessageLog] = {}
        """The logs of adopted channels, once one of the services has opened them."""

    def for_channels(self, store: LogStore, committer: Committer) -> LogStore:
        """The store as the streaming service has it; first of all, and `committer` is for both services."""
        self._store, self.committer = store, committer
        return _ChannelStore(self._store, self._logs, {name.encode() for name in self.streams})

    def for_streams(self, own: LogStore) -> LogStore:
        """A store of streams in which those that are adopted have their channels' logs."""
        names = {
            stream_log(GLOBAL_ACCOUNT, stream): channel.encode() for channel, stream in self.streams.items()
        }
        return _StreamStore(own, self._store, self._logs, names)


class _Beside:
    """A store through which another one is seen."""

    def __init__(self, store: LogStore, logs: dict[bytes, MessageLog]) -> None:
        self._inner = store
        self._logs = logs

    def names(self) -> list[bytes]:
        return self._inner.names()

    def close(self) -> None:
        self._inner.close()


class _ChannelStore(_Beside):
    """Channels' own limits are for those that are no streams."""

    def __init__(self, store: LogStore, logs: dict[bytes, MessageLog], adopted: set[bytes]) -> None:
        super().__init__(store, logs)
        self._adopted = adopted

    def open(self, name: bytes, limits: Limits = NO_LIMITS) -> MessageLog:
        if name not in self._adopted:
            return self._inner.open(name, limits)
        if name not in self._logs:
            self._logs[name] = self._inner.open(name, replace(limits, weights=_WEIGHTS))
        return self._logs[name]

    def remove(self, name: bytes) -> bool:
        return self._inner.remove(name)


class _StreamStore(_Beside):
    def __init__(
        self,
        own: LogStore,
        channels: LogStore,
        logs: dict[bytes, MessageLog],
        adopted: Mapping[bytes, bytes],
    ) -> None:
        super().__init__(own, logs)
        self._channels = channels
        self._adopted = adopted

    def names(self) -> list[bytes]:
        there = set(self._channels.names())
        adopted = [name for name, channel in self._adopted.items() if channel in there]
        return sorted([*self._inner.names(), *adopted])

    def open(self, name: bytes, limits: Limits = NO_LIMITS) -> MessageLog:
        channel = self._adopted.get(name)
        if channel is None:
            return self._inner.open(name, limits)
        log = self._logs[channel] = self._channels.open(channel, limits)
        return log

    def remove(self, name: bytes) -> bool:
        """The messages of an adopted stream are its channel's, and stay."""
        return name in self._adopted or self._inner.remove(name)


class SharedChannelsService:
    """A `core.service.Service` that starts after both services: makes streams, and ties them to channels."""

    def __init__(
        self,
        shared: SharedChannels,
        streaming: StreamingService,
        jetstream: JetStreamServer,
        log: logging.Logger,
    ) -> None:
        self._shared = shared
        self._streaming = streaming
        self._jetstream = jetstream
        self._log = log
        self._links: list[_Link] = []

    def start(self, host: Host) -> None:
        """Open the shared channels and their streams. Raises: StartError."""
        system = self._jetstream.system
        account = None if system is None else system.accounts.get(GLOBAL_ACCOUNT)
        if account is None:
            raise StartError("channels can be adopted into streams of the default account only: it has none")
        for name, stream in self._shared.streams.items():
            try:
                channel = self._streaming.channel(name.encode())
                self._tie(channel, account, stream)
            except (ChannelRefused, ApiError, LogError) as error:
                raise StartError(f"channel {name} cannot be adopted as stream {stream}: {error}") from error

    def _tie(self, channel: Channel, account: AccountJetStream, name: str) -> None:
        stream = account.streams.get(name)
        if stream is None:
            config = check_new_stream(_stream_config(channel, name), stream_context(account, name))
            stream = account.assets.create_stream(config)
            account.turns.settle()
            self._log.info('Channel "%s" is stream "%s" from now on', channel.name.decode(), name)
        if stream.log is not channel.log:
            raise ApiError(10052, err="there is a stream of that name with messages of its own")
        link = _Link(self._streaming, channel, account, stream)
        channel.shared_stream = link
        stream.followers[link] = None
        self._links.append(link)

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        """Do nothing: the service subscribes to no subject."""

    def stop(self) -> None:
        for link in self._links:
            link.end()
        self._links.clear()


class _Link:
    """One channel and one stream: the channel's `SharedStream`, and a follower of the stream."""

    def __init__(
        self, streaming: StreamingService, channel: Channel, account: AccountJetStream, stream: Stream
    ) -> None:
        self._streaming = streaming
        self._channel = channel
        self._account = account
        self._stream = stream
        self.name: Final = stream.name

    def end(self) -> None:
        self._channel.shared_stream = None
        self._stream.followers.pop(self, None)

    # -- from the stream ------------------------------------------------------------------------------

    def fresh(self) -> None:
        """The stream has more that is durable."""
        self._streaming.grown(self._channel, self._stream.visible)

    def lost(self) -> None:
        """The stream was deleted: the channel is one as before."""
        self.end()

    # -- from the channel -----------------------------------------------------------------------------

    def appended(self, first: int, count: int) -> None:
        self._stream.appended(first + count - 1, self._channel.last_time_ns, count)

    def committed(self, first: int, batch: Publications) -> None:
        # a batch, as its own are
        self._show(lambda: self._stream.committed(first, cast("Any", batch), wanted=True))

    def passed(self, sequence: int) -> None:
        self._show(lambda: self._stream.passed(sequence))

    def _show(self, durable: Callable[[], object]) -> None:
        """Have the stream show what the channel has; the channel knows what it told."""
        self._stream.followers.pop(self, None)
        try:
            durable()
        finally:
            self._stream.followers[self] = None
        self._account.touch(self._stream)
        self._account.turns.settle()

    def removed(self) -> None:
        self._stream.removal.purged()
        self._account.turns.settle()

    def carry(
        self, consumer: str, position: DurablePosition, done: Callable[[Exception | None], None]
    ) -> None:
        """Carry a consumer's position over to the channel; `done` is called when that is durable.

        Raises: ConversionRefused.
        """
        account, stream = self._account, self._stream
        if consumer in stream.consumers:
            raise ConversionRefused(f"stream {stream.name} has a consumer {consumer} already")
        wanted = ConsumerConfig(
            durable_name=consumer,
            name=consumer,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=position.ack_wait_ns,
            max_ack_pending=max(position.max_in_flight, len(position.pending)),
        )
        try:
            config = check_new_consumer(wanted, consumer_context(stream))
            state = _state(position, account.turns.now_ns())
            account.assets.create_consumer(stream, config, consumer, state)
        except ApiError as error:
            raise ConversionRefused(str(error)) from error
        account.journal.after_commit(done)
        account.turns.settle()


def _state(position: DurablePosition, now_ns: int) -> ConsumerState:
    """Return the state of a consumer that has got every message up to the last one sent; pending ones come
    again when their time is over.
    """
    state = ConsumerState()
    pending = position.pending
    first = pending[0] if pending else position.last_sent + 1
    delivered = position.last_sent
    state.numbers = (delivered, delivered, first - 1, first - 1)
    state.pending = PendingMap((sequence, sequence, now_ns) for sequence in pending)
    return state


def _stream_config(channel: Channel, name: str) -> StreamConfig:
    """The channel's limits, which are the stream's to change from then on."""
    limits = channel.limits
    return StreamConfig(
        name=name,
        subjects=[channel.name.decode()],
        storage=Storage.FILE,
        max_msgs=limits.max_msgs or _NONE,
        max_bytes=limits.max_bytes or _NONE,
        max_age=round(limits.max_age * _NS),
        allow_direct=True,
    )
