"""A blocking NATS client for notebooks and Spark workers.

    with connect("nats://127.0.0.1:4222") as nc:
        sid = nc.subscribe("flights.>")
        nc.publish("flights.JFK.AA", b"{}")
        batch = nc.receive(timeout=1.0)          # columns: subjects(), replies(), payloads, ...

One thread at a time may use a connection. It never reconnects by itself: after `ConnectionLostError`
some messages may be missing, and only the caller knows what that means. Received messages wait in
the system's and in the server's buffers until `receive` is called; a reader that is too slow is cut
off by the server as a slow consumer, which shows here as `ConnectionLostError` or `ServerError`.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from headrace.client.codec import MessageBatch, encode_sub, encode_unsub
from headrace.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectionLostError,
    NoRespondersError,
    ServerError,
)
from headrace.client.handshake import open_connection
from headrace.client.headers import STATUS, Headers, encode_headers, parse_headers
from headrace.client.machine import ConnectionClosed, ErrorReported
from headrace.client.options import ConnectOptions, resolve_addresses
from headrace.client.subscriptions import SubscriptionTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from headrace.client.handshake import Opening
    from headrace.client.server_info import ServerFacts
    from headrace.engine.frames import Payload

WRITE_SIZE: Final = 1 << 16
"""Published bytes that wait before they are handed to the system; `flush` and `receive` do not wait."""

DEFAULT_TIMEOUT: Final = 10.0

_NO_RESPONDERS: Final = "503"


class ReceivedMessage(NamedTuple):
    """One message, for people; programs that want speed read the columns of `receive` instead."""

    subject: str
    data: bytes
    reply: str | None
    headers: Headers


def connect(url: str | None = None, options: ConnectOptions | None = None) -> Connection:
    """An open connection to the first reachable server of `url` (else NATS_URL, else the local port 4222).

    Raises: AddressError, ConnectError, ClientTimeoutError; ServerError if the server refuses CONNECT.
    """
    chosen = options or ConnectOptions()
    return Connection(open_connection(resolve_addresses(url), chosen), chosen)


class Connection:
    """One connection to one server. Raises: the error that ended it, from every call after that."""

    def __init__(self, opening: Opening, options: ConnectOptions) -> None:
        self.address = opening.machine.address
        self._options = options
        self._stream = opening.stream
        self._machine = opening.machine
        self._subscriptions = SubscriptionTable()
        self._error: ClientError | None = None
        self._closed = False
        self._set_aside = MessageBatch()
        self._note_events()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def server_info(self) -> ServerFacts:
        """The facts that the server tells of itself, as they are now."""
        return self._machine.info

    @property
    def max_payload(self) -> int:
        """Header plus payload bytes the server takes in one message."""
        return self._machine.info.max_payload

    @property
    def is_open(self) -> bool:
        """True until the connection has ended, as far as this side knows."""
        return self._error is None

    def survives(self, error: ClientError) -> bool:
        """True if the connection comes back by itself after an error, so that reading may go on."""
        return False

    @property
    def certificate_ends_ns(self) -> int | None:
        """The end of the server's certificate in ns since 1970 UTC; None if it showed none."""
        ends = self._stream.peer_certificate_ends
        return None if ends is None else int(ends) * 1_000_000_000

    def new_inbox(self) -> bytes:
        """Return a reply subject that no other client has."""
        return f"{self._options.inbox_prefix}.{os.urandom(11).hex()}".encode()

    def publish(
        self,
        subject: str | bytes,
        data: bytes = b"",
        *,
        reply: str | bytes | None = None,
        headers: Mapping[str, str | Iterable[str]] | None = None,
    ) -> None:
        """Queue a message; it leaves with the next 64 KiB, `flush` or `receive`.

        Raises: MaxPayloadError before anything is queued; ValueError on a bad subject or header.
        """
        self.send(self._frame(subject, data, reply, headers))

    def send(self, frames: bytes) -> None:
        """Queue PUB and HPUB frames as `publish` does; the caller encoded them and minds `max_payload`."""
        self._machine.send(frames)
        if len(self._machine.output) >= WRITE_SIZE:
            self._write_below(WRITE_SIZE, time.monotonic() + DEFAULT_TIMEOUT)

    def subscribe(self, subject: str | bytes, queue: str | bytes | None = None) -> bytes:
        """Ask for the messages of a subject; gives the sid. `flush` proves that the server knows of it."""
        number, frame = self._subscriptions.add(_raw(subject), None if queue is None else _raw(queue))
        self._machine.send(frame)
        self._write_below(1, time.monotonic() + DEFAULT_TIMEOUT)
        return b"%d" % number

    def unsubscribe(self, sid: bytes, max_messages: int | None = None) -> None:
        """End a subscription, now or once it has had `max_messages` in all."""
        self._subscriptions.remove(int(sid))
        self._machine.send(encode_unsub(sid, max_messages))
        self._write_below(1, time.monotonic() + DEFAULT_TIMEOUT)

    def receive(self, timeout: float | None = None) -> MessageBatch:
        """The messages that have arrived, waiting up to `timeout` seconds for the first (None: no limit).

        An empty batch means nothing came. Messages that arrived before an error come out before it.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            waiting = bool(self._set_aside) or self._machine.has_messages
            if not waiting:
                self._raise_error()
            elif self._error is not None:
                return self._take()
            now = time.monotonic()
            remaining = 0.0 if waiting else self._machine.until_ping(now)
            if deadline is not None:
                remaining = min(remaining, max(deadline - now, 0.0))
            self._step(remaining)
            if self._set_aside or self._machine.has_messages:
                return self._take()
            if self._error is None:
                self._keep_alive()
                if deadline is not None and time.monotonic() >= deadline:
                    return MessageBatch()

    def receive_of(self, sid: bytes, timeout: float) -> MessageBatch:
        """Receive messages of one subscription that nothing else reads; messages of others wait for
        `receive`.
        """
        deadline = time.monotonic() + timeout
        if self._set_aside:  # such as those that came while a request was waiting for its answer
            aside, self._set_aside = self._set_aside, MessageBatch()
            batch = self._kept_apart(aside, sid)
            if batch:
                return batch
        while True:
            if self._machine.has_messages:
                batch = self._machine.take_messages()
                if not all(head[1] == sid for head in batch.heads):
                    batch = self._kept_apart(batch, sid)
                if batch:
                    return batch
            self._raise_error()
            now = time.monotonic()
            if now >= deadline:
                return MessageBatch()
            self._step(min(deadline - now, self._machine.until_ping(now)))
            if self._error is None:
                self._keep_alive()

    def messages(self, timeout: float | None = None) -> Iterator[ReceivedMessage]:
        """Messages one by one until none arrives for `timeout` seconds."""
        while batch := self.receive(timeout):
            yield from messages_of(batch)

    def request(
        self,
        subject: str | bytes,
        data: bytes = b"",
        *,
        headers: Mapping[str, str | Iterable[str]] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> ReceivedMessage:
        """Publish with a reply subject and wait for one answer; other messages are kept for `receive`.

        Raises: NoRespondersError if nobody listens, ClientTimeoutError if nobody answers.
        """
        inbox = self.new_inbox()
        deadline = time.monotonic() + timeout
        trace = self._options.trace
        frame = self._frame(subject, data, inbox, headers)
        self._raise_error()
        sid = b"%d" % self._subscriptions.next_sid()
        # One write: at each the server would wake up.
        self._machine.send(encode_sub(inbox, sid) + encode_unsub(sid, 1) + frame)
        self._write_below(1, deadline)
        if trace is not None:
            trace(f"> {_text(subject)}", data)
        while True:
            answer = self._set_aside_all_but(sid)
            if answer is not None:
                if trace is not None:
                    trace(f"< {_text(subject)}", answer.data)
                if answer.headers.get(STATUS) == [_NO_RESPONDERS]:
                    raise NoRespondersError(f"nobody is subscribed to {_text(subject)!r}")
                return answer
            self._raise_error()
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self.unsubscribe(sid)
                raise ClientTimeoutError(f"no answer on {_text(subject)!r} in {timeout:g} s")
            self._step(remaining)

    def flush(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Return once the server has handled everything sent so far.

        Raises: ClientTimeoutError; ServerError if it refused some of it.
        """
        deadline = time.monotonic() + timeout
        goal = self._machine.ping(time.monotonic())
        while self._machine.pongs < goal:
            self._raise_error()
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise ClientTimeoutError(f"{self.address} did not answer PING in {timeout:g} s")
            self._step(remaining)
        self._raise_error()

    def close(self) -> None:
        """Hand what is queued to the system, without waiting for the server, and close."""
        if self._closed:
            return
        try:
            if self._error is None:
                self._write_below(1, time.monotonic() + 1.0)
        except ClientError:  # closing is not the place to learn that the server has gone
            pass
        finally:
            self._closed = True
            self._error = ConnectionLostError("the connection was closed by this program")
            self._stream.close()

    def _frame(
        self,
        subject: str | bytes,
        data: bytes,
        reply: str | bytes | None,
        headers: Mapping[str, str | Iterable[str]] | None,
    ) -> bytes:
        """A message as it is sent. Raises: as `publish`."""
        block = encode_headers(headers) if headers else b""
        return self._machine.encode(_raw(subject), data, None if reply is None else _raw(reply), block)

    def _take(self) -> MessageBatch:
        batch, self._set_aside = self._set_aside, MessageBatch()
        if not batch:
            return self._machine.take_messages()
        batch.extend(self._machine.take_messages())
        return batch

    def _kept_apart(self, batch: MessageBatch, sid: bytes) -> MessageBatch:
        wanted = MessageBatch()
        for head, block, payload in zip(batch.heads, batch.header_blocks(), batch.payloads, strict=True):
            (wanted if head[1] == sid else self._set_aside).append(head, block, payload)
        return wanted

    def _set_aside_all_but(self, sid: bytes) -> ReceivedMessage | None:
        answer: ReceivedMessage | None = None
        batch = self._machine.take_messages()
        for head, block, payload in zip(batch.heads, batch.header_blocks(), batch.payloads, strict=True):
            if head[1] == sid:
                answer = _message(head[0], head[2], block, payload)
            else:
                self._set_aside.append(head, block, payload)
        return answer

    def _step(self, timeout: float | None) -> None:
        """Wait for the socket once; write what is queued, read what is there."""
        try:
            readable, writable = self._stream.wait(timeout, to_write=bool(self._machine.output))
            if writable:
                self._write_some()
            if readable:
                self._read_some()
        except OSError as error:
            self._lose(
                ConnectionLostError(f"the connection to {self.address} broke: {error.strerror or error}")
            )

    def _write_some(self) -> None:
        output = self._machine.output
        if not output:
            return
        with memoryview(output) as view:
            count = self._stream.write(view)
        del output[:count]

    def _write_below(self, size: int, deadline: float) -> None:
        """Write until fewer than `size` bytes wait; reading meanwhile keeps either side from blocking."""
        self._raise_error()
        try:
            self._write_some()
        except OSError as error:
            self._lose(
                ConnectionLostError(f"the connection to {self.address} broke: {error.strerror or error}")
            )
        while len(self._machine.output) >= size:
            self._raise_error()
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise ClientTimeoutError(f"{self.address} takes no bytes")
            self._step(remaining)

    def _read_some(self) -> None:
        room = self._machine.room
        if room is not None:
            self._fill(room)
            return
        data = self._stream.read(self._machine.expected)
        if data is None:
            return
        if not data:
            self._end_of_stream()
            return
        self._machine.receive(data, time.monotonic())
        self._note_events()
        self._write_some()

    def _fill(self, room: Payload) -> None:
        """Receive what has come of a large message."""
        while room.missing:
            with memoryview(room) as view:
                count = self._stream.read_into(view)
            if count is None:
                return
            if count == 0:
                self._end_of_stream()
                return
            room.advance(count)
            self._machine.heard(time.monotonic())

    def _end_of_stream(self) -> None:
        self._lose(
            ConnectionLostError(
                f"{self.address} closed the connection (if it had a reason that this client could not be "
                "told, such as Slow Consumer, the server's log or /connz?state=closed has it)"
            )
        )

    def _lose(self, error: ClientError) -> None:
        self._machine.close(error)
        self._note_events()

    def _note_events(self) -> None:
        """Keep the first thing that went wrong for the next call: -ERR says more than the close behind it."""
        for event in self._machine.take_events():
            if self._error is None and isinstance(event, ErrorReported | ConnectionClosed):
                self._error = event.error

    def _raise_error(self) -> None:
        error = self._error
        if error is None:
            return
        if isinstance(error, ServerError) and not error.fatal:
            self._error = self._machine.error  # the connection may have ended behind it
        raise error

    def _keep_alive(self) -> None:
        self._machine.keep_alive(time.monotonic())
        self._note_events()


def messages_of(batch: MessageBatch) -> Iterator[ReceivedMessage]:
    """Yield the messages of a batch one by one."""
    for head, block, payload in zip(batch.heads, batch.header_blocks(), batch.payloads, strict=True):
        yield _message(head[0], head[2], block, payload)


def _message(subject: bytes, reply: bytes | None, block: bytes | None, payload: bytes) -> ReceivedMessage:
    return ReceivedMessage(
        _text(subject),
        payload,
        None if reply is None else _text(reply),
        {} if block is None else parse_headers(block),
    )


def _raw(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _text(raw: str | bytes) -> str:
    return raw if isinstance(raw, str) else raw.decode("utf-8", "backslashreplace")
