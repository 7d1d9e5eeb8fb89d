"""Messages of JetStream consumers: pulled, and acknowledged one by one.

    consumer = PullConsumer(JetStreamApi(nc), "ORDERS", "worker")
    for message in consumer.messages():
        work(message.data)
        message.ack()

Pulls have heartbeats, so a server that went away is noticed; over a `ReconnectingConnection` another pull
follows. `OrderedMessages` reads a stream without acknowledgements and begins again behind the last message it
has had, where a server, a consumer or a message was lost on the way. Never lives here: making consumers
(`api`), columns for Spark (`jetstream`).
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.client.errors import (
    ClientError,
    ClientTimeoutError,
    JetStreamMissingError,
    NoRespondersError,
    ReadInterruptedError,
)
from headrace.client.headers import STATUS, Headers, parse_headers
from headrace.client.retries import Backoff
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.client.blocking import Connection
    from headrace.client.jetstream_api import JetStreamApi

BATCH: Final = 200
"""Messages of one pull where nothing else is said."""
EXPIRES: Final = 30.0
"""Seconds after which a pull that is not full ends, and is made again."""
HEARTBEAT: Final = 5.0
"""Seconds of silence after which a server says that a pull is still there."""

_ACK: Final = b"$JS.ACK."
_AT_END: Final = ("404", "408")
_HEARTBEAT: Final = "100"
_PIN: Final = "Nats-Pin-Id"
_OTHER_PIN: Final = "423"
_STALLED: Final = "Nats-Consumer-Stalled"
_GONE: Final = ("consumer deleted", "consumer not found", "stream deleted")
_PULL_OVER: Final = ("message size exceeds", "batch completed", "leadership change", "server shutdown")
"""Beginnings of texts with which only a pull ends: another one may follow."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
"""Seconds between attempts to begin again."""
_INACTIVE_NS: Final = 60_000_000_000


class DeliveryFacts(NamedTuple):
    """The facts of a delivery that its reply subject tells; `time_ns` is that of storing."""

    stream: str
    consumer: str
    deliveries: int
    sequence: int
    consumer_sequence: int
    time_ns: int
    pending: int


def delivery_facts(reply: bytes) -> DeliveryFacts:
    """Return the facts in `$JS.ACK...`. Raises: ProtocolError for another subject."""
    words = reply.decode("utf-8", "backslashreplace").split(".")
    # With domain and account hash before the stream's name the rest is two further on (ADR 15).
    own = words[2:9] if len(words) == 9 else words[4:11]
    try:
        stream, consumer, *numbers = own
        return DeliveryFacts(stream, consumer, *map(int, numbers))
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"not the reply subject of a consumer: {reply!r}") from error


class ConsumedMessage(NamedTuple):
    """A message of a consumer; it is delivered again unless it is acknowledged in time.

    `stream`, `sequence` and the like are in `delivery`.
    """

    subject: str
    data: bytes
    delivery: DeliveryFacts
    headers: Headers
    header_bytes: int
    reply: bytes
    connection: Connection

    def ack(self, *, timeout: float | None = None) -> None:
        """Acknowledge: it is done. With `timeout` (seconds) the server's answer is waited for.

        Raises: ClientTimeoutError, and what ends the connection.
        """
        if timeout is None:
            self._say(b"+ACK")
        else:
            self.connection.request(self.reply, b"+ACK", timeout=timeout)

    def nak(self, delay_ns: int | None = None) -> None:
        """Refuse: it is delivered again, at once or after a delay in ns."""
        self._say(b"-NAK" if delay_ns is None else b'-NAK {"delay": %d}' % delay_ns)

    def term(self, reason: str = "") -> None:
        """End: it is never delivered again, for a reason that the server's advisory tells."""
        self._say(f"+TERM {reason}".rstrip().encode())

    def in_progress(self) -> None:
        """Ask for as much time again as the consumer gives."""
        self._say(b"+WPI")

    def _say(self, word: bytes) -> None:
        self.connection.publish(self.reply, word)


class PullConsumer:
    """A consumer that messages are pulled from; it has to be there.

    Raises, from every method: ReadInterruptedError if the server ends a pull because the consumer goes;
    NoRespondersError if the consumer is not there; what ends the connection.

    `group`: the priority group to pull for. Where the server pins a client of it, pulls say that they are of
    the pinned one.
    """

    def __init__(self, api: JetStreamApi, stream: str, consumer: str, *, group: str = "") -> None:
        self.connection = api.connection
        self.stream = stream
        self.consumer = consumer
        self.group = group
        self._pin = ""
        self._subject = api.subject(f"CONSUMER.MSG.NEXT.{stream}.{consumer}")
        self._inbox = api.connection.new_inbox()
        self._sid = api.connection.subscribe(self._inbox)

    def close(self) -> None:
        """End the subscription; the consumer stays."""
        if self.connection.is_open:
            self.connection.unsubscribe(self._sid)

    def fetch(
        self, count: int = 1, *, wait: float = 5.0, heartbeat: float | None = None, **limits: object
    ) -> Iterator[ConsumedMessage]:
        """Yield up to `count` messages, waiting `wait` seconds for all of them (0: what is there).

        `heartbeat` in seconds; `limits` are further fields of the request, such as `max_bytes` and `group`.
        Raises: ClientTimeoutError if heartbeats stay away.
        """
        request: dict[str, object] = {"batch": count, **limits}
        if self.group:
            request["group"] = self.group
        if self._pin:
            request["id"] = self._pin
        if wait > 0:
            request["expires"] = round(wait * 1e9)
        else:
            request["no_wait"] = True
        if heartbeat is not None and wait > 2 * heartbeat:
            request["idle_heartbeat"] = round(heartbeat * 1e9)
        else:
            heartbeat = None
        self.connection.publish(self._subject, json.dumps(request).encode(), reply=self._inbox)
        got = 0
        end = time.monotonic() + max(wait, 0.0) + (2.0 if wait > 0 else 5.0)
        """The server ends the pull itself; a little later it counts as gone."""
        while got < count:
            silence = end if heartbeat is None else min(end, time.monotonic() + 2 * heartbeat + 1)
            batch = self.connection.receive_of(self._sid, max(silence - time.monotonic(), 0.0))
            if not batch:
                if heartbeat is None and wait > 0:
                    return
                raise ClientTimeoutError(f"consumer {self.stream}.{self.consumer} is silent")
            for head, block, payload in zip(batch.heads, batch.header_blocks(), batch.payloads, strict=True):
                if head[2] is not None and head[2].startswith(_ACK):
                    got += 1
                    message = _consumed(self.connection, head[0], head[2], block, payload)
                    self._pin = message.headers.get(_PIN, [self._pin])[0]
                    yield message
                elif self._is_end(block):
                    return

    def messages(
        self, *, batch: int = BATCH, idle: float | None = None, until: float | None = None
    ) -> Iterator[ConsumedMessage]:
        """Yield messages as they come, pull after pull, until none came for `idle` seconds (None: for ever),
        or until a moment (seconds of `time.monotonic`).

        Outages of the server are waited for where the connection comes back by itself.
        """
        last = time.monotonic()
        while True:
            ends = [end for end in (None if idle is None else last + idle, until) if end is not None]
            left = min([EXPIRES, *(end - time.monotonic() for end in ends)])
            if left <= 0:
                return
            try:
                try:
                    for message in self.fetch(batch, wait=left, heartbeat=HEARTBEAT):
                        last = time.monotonic()
                        yield message
                        last = time.monotonic()
                except ClientTimeoutError:
                    self.connection.flush()  # a connection that is over says so here; else a pull follows
            except NoRespondersError:  # the consumer is not there, and does not come back by itself
                raise
            except ClientError as error:
                if not self.connection.survives(error):
                    raise

    def _is_end(self, block: bytes | None) -> bool:
        """True if a status says that the pull is over. Raises: ReadInterruptedError, NoRespondersError."""
        headers = parse_headers(block) if block is not None else {}
        status = headers.get(STATUS, [""])[0]
        text = " ".join(headers.get("Description", []))
        if status == _HEARTBEAT:
            return False
        if status in _AT_END:
            return True
        if status == _OTHER_PIN:
            self._pin = ""
            return True
        if status == "503":
            raise NoRespondersError(f"no consumer {self.consumer} of {self.stream} answers")
        if status == "409" and not text.lower().startswith(_GONE):
            if text.lower().startswith(_PULL_OVER):
                return True
            raise ReadInterruptedError(f"consumer {self.stream}.{self.consumer}: {text}")
        if status:
            raise ReadInterruptedError(f"consumer {self.stream}.{self.consumer}: {text or status}")
        raise ProtocolError("a consumer sent something that is neither a message nor a status")


class PushConsumer:
    """A consumer that pushes its messages to a subject; it has to be there.

    `subject` and `group` are the `deliver_subject` and `deliver_group` of its configuration. Heartbeats are
    passed over, and flow control is answered. Raises, from every method: what ends the connection.
    """

    def __init__(self, connection: Connection, subject: str, group: str | None = None) -> None:
        self.connection = connection
        self._sid = connection.subscribe(subject, group)

    def close(self) -> None:
        """End the subscription; the consumer stays."""
        if self.connection.is_open:
            self.connection.unsubscribe(self._sid)

    def messages(self, *, idle: float | None = None) -> Iterator[ConsumedMessage]:
        """Yield messages as they come, until none came for `idle` seconds (None: for ever)."""
        last = time.monotonic()
        while True:
            left = EXPIRES if idle is None else min(EXPIRES, last + idle - time.monotonic())
            if left <= 0:
                return
            batch = self.connection.receive_of(self._sid, left)
            for head, block, payload in zip(batch.heads, batch.header_blocks(), batch.payloads, strict=True):
                if head[2] is not None and head[2].startswith(_ACK):
                    last = time.monotonic()
                    yield _consumed(self.connection, head[0], head[2], block, payload)
                    last = time.monotonic()
                else:
                    self._answer(head[2], block)

    def _answer(self, reply: bytes | None, block: bytes | None) -> None:
        """Answer a message of flow control, or a heartbeat that waits for such an answer."""
        headers = parse_headers(block) if block is not None else {}
        if headers.get(STATUS) != [_HEARTBEAT]:
            return
        stalled = headers.get(_STALLED)
        where = reply if stalled is None else stalled[0].encode()
        if where is not None:
            self.connection.publish(where)  # leaves when messages are waited for


def _consumed(
    connection: Connection, subject: bytes, reply: bytes, block: bytes | None, payload: bytes
) -> ConsumedMessage:
    return ConsumedMessage(
        subject=subject.decode("utf-8", "backslashreplace"),
        data=payload,
        delivery=delivery_facts(reply),
        headers={} if block is None else parse_headers(block),
        header_bytes=0 if block is None else len(block),
        reply=reply,
        connection=connection,
    )


class OrderedMessages:
    """The messages of a stream in order, by a consumer of its own that needs no acknowledgements.

    `filters` are subjects; `config` has what else the consumer is to be: `deliver_policy`, `opt_start_seq`,
    `opt_start_time`, `headers_only`. `pending` is how many messages were waiting when it began.
    """

    def __init__(
        self,
        api: JetStreamApi,
        stream: str,
        filters: Sequence[str] = (),
        config: Mapping[str, object] | None = None,
    ) -> None:
        self._api = api
        self._stream = stream
        self._filters = filters
        self._config = dict(config or {})
        self._last = 0
        self._consumer: PullConsumer | None = None
        self._expected = 1
        self.pending = self._begin()

    def __iter__(self) -> Iterator[ConsumedMessage]:
        return self.read()

    def read(
        self, *, idle: float | None = None, until: float | None = None, until_end: bool = False
    ) -> Iterator[ConsumedMessage]:
        """Yield messages as they come, until none came for `idle` seconds (None: for ever), until a moment
        (seconds of `time.monotonic`), or until the last of those that are there now.
        """
        if until_end and not self.pending:
            return
        while True:
            assert self._consumer is not None
            try:
                for message in self._consumer.messages(idle=idle, until=until):
                    delivery = message.delivery
                    if delivery.consumer_sequence != self._expected:
                        break  # one was lost on the way
                    self._expected += 1
                    self._last = delivery.sequence
                    yield message
                    if until_end and not delivery.pending:
                        return
                else:
                    return
            except (NoRespondersError, ReadInterruptedError):
                pass  # the consumer went with its server, or because nobody asked for long
            left = self._begin_again()
            if until_end and not left:
                return

    def close(self) -> None:
        """Remove the consumer; where that cannot be done the server does it soon."""
        consumer, self._consumer = self._consumer, None
        if consumer is None or not consumer.connection.is_open:
            return
        consumer.close()
        try:
            self._api.ask(f"CONSUMER.DELETE.{self._stream}.{consumer.consumer}")
        except (JetStreamMissingError, ClientTimeoutError, NoRespondersError):
            pass  # it is gone, or goes by itself

    def _begin_again(self) -> int:
        """Begin behind the last message, once a server answers where the connection comes back by itself."""
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, jitter=0.5)
        while True:
            try:
                return self._begin()
            except ClientError as error:
                if not self._api.connection.survives(error):
                    raise
            time.sleep(pauses.next())

    def _begin(self) -> int:
        if self._consumer is not None:
            self._consumer.close()
        config: dict[str, Any] = {
            "deliver_policy": "all",
            **self._config,
            "ack_policy": "none",
            "max_deliver": 1,
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _INACTIVE_NS,
        }
        if len(self._filters) == 1:
            config["filter_subject"] = self._filters[0]
        elif self._filters:
            config["filter_subjects"] = list(self._filters)
        if self._last:
            config.pop("opt_start_time", None)
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": self._last + 1}
        made = self._api.ask(
            f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config}
        )
        self._consumer = PullConsumer(self._api, self._stream, str(made["name"]))
        self._expected = 1
        if config["deliver_policy"] == "new":  # begun again, it has what came meanwhile
            self._last = int((made.get("delivered") or {}).get("stream_seq", 0))
        return int(made.get("num_pending", 0))
