"""Messages as they arrive: of subjects, or of a stream that has stored them.

Here live both sources behind one shape, and when they end. A stream is read by a consumer that goes on behind
the last message after an outage, so nothing is missing. Never lives here: what is done with messages.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.client.blocking import messages_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call
    from headrace.client.consuming import ConsumedMessage
    from headrace.client.headers import Headers
    from headrace.client.jetstream_api import JetStreamApi
    from headrace.client.reconnecting import ReconnectingConnection

_INACTIVE_NS: Final = 60_000_000_000
_BATCH: Final = 100
_EVERYTHING: Final = ">"


class Arrival(NamedTuple):
    """A message; `consumed` is that of a stream, which has its delivery and can be acknowledged."""

    subject: str
    reply: str | None
    headers: Headers
    header_bytes: int
    data: bytes
    consumed: ConsumedMessage | None = None

    @property
    def is_last(self) -> bool:
        """True if no message follows it in the stream for now."""
        return self.consumed is not None and not self.consumed.delivery.pending


class EndTimes:
    """The end of listening: a time after the beginning, and a time without a message.

    `for_ns` and `idle_ns` in ns, None: no such end. `tick`: seconds of silence of which a program that does
    something in between wants to hear.
    """

    def __init__(self, for_ns: int | None, idle_ns: int | None, tick: float | None = None) -> None:
        self.until = None if for_ns is None else time.monotonic() + for_ns / 1e9
        """The moment at which it is over in any case, seconds of `time.monotonic`."""
        self._idle = None if idle_ns is None else idle_ns / 1e9
        self._tick = tick
        self.heard()

    def heard(self) -> None:
        """Note a message."""
        self._last = time.monotonic()

    def left(self) -> float | None:
        """Return the seconds to wait for a message; None: no limit, 0: it is over."""
        now = time.monotonic()
        ends = [] if self.until is None else [self.until - now]
        if self._idle is not None:
            ends.append(self._last + self._idle - now)
        if any(end <= 0 for end in ends):
            return 0.0
        if self._tick is not None:
            ends.append(self._tick)
        return min(ends) if ends else None


def of_subjects(connection: ReconnectingConnection, times: EndTimes) -> Iterator[Arrival | None]:
    """Yield the messages of all subscriptions, and None after silence."""
    while (left := times.left()) != 0:
        batch = connection.receive(left)
        if not batch:
            yield None
            continue
        times.heard()
        for message, block in zip(messages_of(batch), batch.header_blocks(), strict=True):
            size = 0 if block is None else len(block)
            yield Arrival(message.subject, message.reply, message.headers, size, message.data)


@contextmanager
def of_stream(call: Call, api: JetStreamApi, times: EndTimes) -> Iterator[Iterator[Arrival | None]]:
    """Give the messages of the stream of `--stream` for a block, and None after silence.

    Raises: JetStreamMissingError.
    """
    options = call.options
    config = _deliveries(options)
    if acknowledges(options):
        with _own_consumer(call, api, config) as messages:
            yield _of_consumer(messages, times, until_end=options.until_end)
        return
    from headrace.client.consuming import OrderedMessages

    ordered = OrderedMessages(api, options.stream, _filters(options), config)
    try:
        yield _of_consumer(ordered, times, until_end=options.until_end)
    finally:
        ordered.close()


def _of_consumer(source: Any, times: EndTimes, *, until_end: bool) -> Iterator[Arrival | None]:
    if until_end and not source.pending:
        return
    while (left := times.left()) != 0:
        for message in source.read(idle=left, until=times.until):
            times.heard()
            size = message.header_bytes
            yield Arrival(message.subject, None, message.headers, size, message.data, message)
        yield None


class _ConsumerMessages:
    """The messages of a consumer that acknowledges."""

    def __init__(self, api: JetStreamApi, stream: str, consumer: str, pending: int, batch: int) -> None:
        from headrace.client.consuming import PullConsumer

        self.pending = pending
        self._batch = batch
        self._consumer = PullConsumer(api, stream, consumer)

    def read(self, *, idle: float | None, until: float | None) -> Iterator[ConsumedMessage]:
        return self._consumer.messages(batch=self._batch, idle=idle, until=until)

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def _own_consumer(call: Call, api: JetStreamApi, config: dict[str, object]) -> Iterator[_ConsumerMessages]:
    """The consumer of `--durable`, made if it is not there, or for `--ack` one that goes in the end."""
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import ClientError, JetStreamMissingError

    options = call.options
    assets = JetStreamAssets(api)
    info = None
    if options.durable:
        try:
            info = assets.consumer_info(options.stream, options.durable)
            call.out.note(f"goes on with consumer {options.durable} of {options.stream}")
        except JetStreamMissingError as error:
            if error.err_code != _NO_CONSUMER:
                raise
    if info is None:
        filters = _filters(options)
        made: dict[str, object] = {**config, "ack_policy": "explicit"}
        if len(filters) == 1:
            made["filter_subject"] = filters[0]
        elif filters:
            made["filter_subjects"] = filters
        if options.durable:
            made["durable_name"] = options.durable
        else:
            made["inactive_threshold"] = _INACTIVE_NS
        info = assets.create_consumer(options.stream, made)
    waiting = int(info.get("num_pending", 0)) + int(info.get("num_ack_pending", 0))
    # With an end nothing is fetched that is not shown: it would come to nobody until its time is over.
    batch = _BATCH if options.count is None else 1
    messages = _ConsumerMessages(api, options.stream, info["name"], waiting, batch)
    try:
        yield messages
    finally:
        messages.close()
        if not options.durable and api.connection.is_open:
            try:
                assets.delete_consumer(options.stream, info["name"])
            except ClientError as error:  # it goes by itself, a minute later
                call.out.note(f"consumer {info['name']} is left: {error}")


_NO_CONSUMER: Final = 10014


def acknowledges(options: Any) -> bool:
    """True if the messages of a stream are acknowledged once they are shown."""
    return options.ack or options.durable is not None


def _filters(options: Any) -> list[str]:
    found: list[str] = list(options.subject)
    return [_EVERYTHING] if options.last_per_subject and not found else found


def _deliveries(options: Any) -> dict[str, object]:
    """The part of a consumer's configuration that says where it begins."""
    if options.new:
        return {"deliver_policy": "new"}
    if options.last:
        return {"deliver_policy": "last"}
    if options.last_per_subject:
        return {"deliver_policy": "last_per_subject"}
    if options.from_sequence is not None:
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": max(options.from_sequence, 1)}
    if options.since is not None:
        from headrace.cli.values import exact_time

        return {"deliver_policy": "by_start_time", "opt_start_time": exact_time(options.since)}
    return {"deliver_policy": "all"}
