"""A connection for loads: the handshake and the machine of `headrace.client`, and compiled loops behind them.

Here live one socket, what waits to be written, and the order of writing, waiting and reading. Messages go
through `loops.FrameReader`; all else that a server says goes to the machine. Never here: what is sent.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.codec import encode_pub, encode_sub
from headrace.client.errors import ClientTimeoutError, ConnectionLostError
from headrace.client.handshake import open_connection
from headrace.client.headers import parse_headers
from headrace.client.machine import ConnectionClosed, ErrorReported
from headrace.errors import ProtocolError
from headrace.load.loops import FrameReader, SendBuffer

if TYPE_CHECKING:
    from headrace.client.address import ServerAddress
    from headrace.client.headers import Headers
    from headrace.client.options import ConnectOptions
    from headrace.load.loops import AnswerWindow

CHUNK: Final = 1 << 17
"""Bytes that wait to be written, from which on no more are made."""

SID: Final = b"1"
"""The subscription of the messages that are counted; those of others go to Python."""


class OddMessage(NamedTuple):
    """A message that is not just counted: a status, an error, or one of another subscription."""

    sid: bytes
    subject: bytes
    reply: bytes | None
    block: bytes
    payload: bytes

    @property
    def headers(self) -> Headers:
        """The headers; the status is among them as `Status` and `Description`. Raises: ProtocolError."""
        return parse_headers(self.block) if self.block else {}


class LoadConnection:
    """One connection to one server.

    Raises, from every method: what the server says with -ERR (ServerError), ConnectionLostError.
    """

    def __init__(self, addresses: tuple[ServerAddress, ...], options: ConnectOptions) -> None:
        """Connect. Raises: as `open_connection`."""
        opening = open_connection(addresses, options)
        self._stream = opening.stream
        self._machine = opening.machine
        self._timeout = options.timeout
        self._inbox_prefix = options.inbox_prefix
        self._is_behind = False
        self.out = SendBuffer()
        self.reader = FrameReader(SID, self.max_payload)
        self.moved = 0
        """Bytes written and read so far."""

    @property
    def max_payload(self) -> int:
        """Header plus payload bytes that the server takes in one message."""
        return self._machine.info.max_payload

    @property
    def server(self) -> str:
        """The address of the server."""
        return str(self._machine.address)

    @property
    def version(self) -> str:
        return self._machine.info.version

    @property
    def inbox_prefix(self) -> bytes:
        return self._inbox_prefix.encode()

    def count(self, subject: bytes, queue: bytes | None = None, *, answer: bytes | None = None) -> None:
        """Subscribe, and count the messages; `answer` is the payload that each is answered with."""
        tail = b"" if answer is None else b"%d\r\n%b\r\n" % (len(answer), answer)
        self.reader = FrameReader(SID, self.max_payload, out=self.out, answer=tail)
        self.out.add(encode_sub(subject, SID, queue))

    def match(self, prefix: bytes, window: AnswerWindow) -> None:
        """Subscribe to the answers, whose subjects are the prefix and a place of the window."""
        self.reader = FrameReader(SID, self.max_payload, window=window, prefix=prefix)
        self.out.add(encode_sub(prefix + b"*", SID, None))

    def subscribe(self, subject: bytes, sid: bytes, queue: bytes | None = None) -> None:
        """Subscribe to messages for Python; `sid` is another one than `SID`."""
        self.out.add(encode_sub(subject, sid, queue))

    def publish(self, subject: bytes, payload: bytes, reply: bytes | None = None) -> None:
        """Queue one message."""
        self.out.add(encode_pub(subject, payload, reply))

    def step(self, timeout: float) -> list[OddMessage]:
        """Write what waits, wait up to `timeout` seconds, read once; the messages that Python has to see."""
        found: list[OddMessage] = []
        try:
            if self.out:
                self._write()
            if self._is_behind and len(self.out) < CHUNK:
                self._parse(found)
            else:
                self._wait(timeout, found)
        except OSError as error:
            address = self._machine.address
            reason = error.strerror or error
            raise ConnectionLostError(f"the connection to {address} broke: {reason}") from error
        return found

    def flush(self) -> list[OddMessage]:
        """Return once the server has handled all that was sent; the messages that Python has to see.

        Raises: ClientTimeoutError when no byte went either way for the time limit of the options.
        """
        found: list[OddMessage] = []
        goal = self._machine.ping(time.monotonic())
        self._take_output()
        moved, since = self.moved, time.monotonic()
        while self._machine.pongs < goal:
            found += self.step(0.1)
            if self.moved != moved:
                moved, since = self.moved, time.monotonic()
            elif time.monotonic() - since > self._timeout:
                raise ClientTimeoutError(
                    f"{self._machine.address} did not answer PING in {self._timeout:g} s"
                )
        return found

    def close(self) -> None:
        """Close the socket."""
        self._stream.close()

    def _wait(self, timeout: float, found: list[OddMessage]) -> None:
        """Wait for the socket. Nothing is read while answers to what was read cannot be sent."""
        readable, writable = self._stream.wait(timeout, to_write=bool(self.out), to_read=not self._is_behind)
        if writable:
            self._write()
        if readable:
            self._read(found)
        elif not self._is_behind:
            self._keep_alive()

    def _write(self) -> None:
        with memoryview(self.out) as view:
            count = self._stream.write(view)
        self.out.sent(count)
        self.moved += count

    def _read(self, found: list[OddMessage]) -> None:
        with memoryview(self.reader) as room:
            count = self._stream.read_into(room)
        if count is None:
            return
        if count == 0:
            address = self._machine.address
            self._machine.close(
                ConnectionLostError(
                    f"{address} closed the connection (if it had a reason that this client could not be "
                    "told, such as Slow Consumer, the server's log or /connz?state=closed has it)"
                )
            )
            self._raise_events()
        self.reader.received(count)
        self.moved += count
        self._parse(found)

    def _parse(self, found: list[OddMessage]) -> None:
        now = time.monotonic_ns()
        self._machine.heard(now / 1e9)
        others: list[bytes | tuple[bytes, bytes, bytes | None, bytes, bytes]] = []
        try:
            self._is_behind = not self.reader.read(now, others, CHUNK)
        except ProtocolError as error:
            address = self._machine.address
            raise ConnectionLostError(f"{address} broke the protocol: {error}") from error
        for other in others:
            if isinstance(other, bytes):
                self._machine.receive(other, now / 1e9)
                self._raise_events()
                self._take_output()
            else:
                found.append(OddMessage(*other))

    def _keep_alive(self) -> None:
        self._machine.keep_alive(time.monotonic())
        self._raise_events()
        self._take_output()

    def _take_output(self) -> None:
        if self._machine.output:
            self.out.add(bytes(self._machine.take_output()))

    def _raise_events(self) -> None:
        """Raise what ended the connection, or what the server refused: a load does not go on without it."""
        for event in self._machine.take_events():
            if isinstance(event, ErrorReported | ConnectionClosed):
                raise event.error
