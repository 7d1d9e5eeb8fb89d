"""The transport over WebSocket: frames in, frames out, for one link.

What a message holds is fed to the engine as if it had come over TCP: frames and lines need not meet. Here
lives the bound on what one read may become, and the closing: which close code says why a connection ended
(RFC 6455, section 7.4; which goes with which reason is the Go server's choice, 2.15.1). A transport decides
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from websockets.frames import Opcode
from websockets.protocol import State

from headrace.engine.reasons import CloseReason
from headrace.server.transport import AsyncioTransport

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable, Iterable

    from websockets.frames import Frame
    from websockets.protocol import Protocol as Frames

    from headrace.engine.link import Link

READ_SIZE: Final = 64 << 10
"""Bytes of the buffer that is read into."""

PIECE: Final = 16 << 10
"""Bytes given to the protocol at once: what they inflate to must be bearable."""

FOR_BROWSERS: Final = 4096
"""The largest message sent to a browser, in bytes before compression; the Go server's, found by trying."""

LINGER: Final = 5.0
"""Seconds that a client has to take the last words and the close frame."""

_MAX_REASON: Final = 123  # bytes in a close frame beside its code
_DATA: Final = frozenset((Opcode.BINARY, Opcode.TEXT, Opcode.CONT))


_NORMAL: Final = 1000
_GOING_AWAY: Final = 1001
_PROTOCOL_ERROR: Final = 1002
_POLICY_VIOLATION: Final = 1008
_TOO_BIG: Final = 1009
_INTERNAL_ERROR: Final = 1011

_CODES: Final = {
    CloseReason.CLIENT_CLOSED: _NORMAL,
    CloseReason.AUTHENTICATION_TIMEOUT: _POLICY_VIOLATION,
    CloseReason.AUTHENTICATION_VIOLATION: _POLICY_VIOLATION,
    CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED: _POLICY_VIOLATION,
    CloseReason.MAX_CONNECTIONS_EXCEEDED: _POLICY_VIOLATION,
    CloseReason.MAX_CONTROL_LINE_EXCEEDED: _POLICY_VIOLATION,
    CloseReason.MAX_SUBSCRIPTIONS_EXCEEDED: _POLICY_VIOLATION,
    CloseReason.PARSE_ERROR: _PROTOCOL_ERROR,
    CloseReason.PROTOCOL_VIOLATION: _PROTOCOL_ERROR,
    CloseReason.BAD_CLIENT_PROTOCOL_VERSION: _PROTOCOL_ERROR,
    CloseReason.MAX_PAYLOAD_EXCEEDED: _TOO_BIG,
    CloseReason.STALE_CONNECTION: _GOING_AWAY,
    CloseReason.SERVER_SHUTDOWN: _GOING_AWAY,
}
_UNSAID: Final = frozenset(
    (
        CloseReason.SLOW_CONSUMER_PENDING_BYTES,
        CloseReason.SLOW_CONSUMER_WRITE_DEADLINE,
        CloseReason.WRITE_ERROR,
        CloseReason.READ_ERROR,
        CloseReason.TLS_HANDSHAKE_ERROR,
    )
)


def close_code(reason: CloseReason) -> int | None:
    """The code for the close frame; None where none is sent, because it would not arrive."""
    return None if reason in _UNSAID else _CODES.get(reason, _INTERNAL_ERROR)


class WebSocketConnection(Protocol):
    """A connection that a WebSocket carries: of a client, or of another server."""

    @property
    def link(self) -> Link: ...

    @property
    def is_unknown(self) -> bool:
        """True until the other end has said who it is."""

    @property
    def most_unknown(self) -> int:
        """Bytes that are read from the other end before it has."""

    def carried(self, transport: WebSocketTransport, tls: ssl.SSLObject | None) -> None:
        """Bytes flow."""

    def take(self, data: bytes) -> None:
        """Give received bytes to the engine."""

    def error(self, text: str) -> None:
        """A line of the log."""

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function after so many seconds, if the loop still runs."""


class WebSocketTransport(AsyncioTransport):
    """One connection after its upgrade, at either end."""

    __slots__ = ("_buffer", "_connection", "_late", "_most", "_protocol", "_unknown", "_waiting")

    def __init__(
        self,
        connection: WebSocketConnection,
        protocol: Frames,
        *,
        buffer: memoryview,
        is_browser: bool,
        after_tick: Callable[[], None],
        on_stalled: Callable[[AsyncioTransport], None],
    ) -> None:
        super().__init__(connection.link, after_tick, self._connected, on_stalled)
        self._connection = connection
        self._protocol = protocol
        self._buffer = buffer  # shared: what a read puts there is taken out at once
        self._most = FOR_BROWSERS if is_browser else 0
        self._waiting = b""
        self._late = b""
        self._unknown = 0

    def _connected(self, transport: asyncio.Transport) -> None:
        self._connection.carried(self, transport.get_extra_info("ssl_object"))

    def take_early(self, frames: Iterable[Frame], rest: bytes) -> None:
        """Take data that came together with the upgrade: frames, and bytes behind them."""
        self._waiting = rest
        self._take_frames(frames)
        self._take_waiting()

    def _take_frames(self, frames: Iterable[Frame]) -> None:
        self._connection.take(b"".join([frame.data for frame in frames if frame.opcode in _DATA]))
        self._answer()

    # -- asyncio's side

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._link.router.touch()
        self._waiting += self._buffer[:nbytes]
        if self._connection.is_unknown and self._is_too_much(nbytes):
            self._waiting = b""
        self._take_waiting()
        if self._link.is_held or self._link.is_stalled:
            self._pause()
            if self._link.is_stalled:
                self._on_stalled(self)
        self._after_tick()

    def _is_too_much(self, nbytes: int) -> bool:
        """True if a client has sent more than is read from one that has not said who it is."""
        self._unknown += nbytes
        if self._unknown <= self._connection.most_unknown:
            return False
        self._connection.error("too many bytes before authentication")
        self._link.doom(CloseReason.AUTHENTICATION_VIOLATION)
        return True

    def _take_waiting(self) -> None:
        """Feeds the engine what has come, as far as it may be read now."""
        data, at = self._waiting, 0
        protocol, link = self._protocol, self._link
        while at < len(data) and not (link.is_held or link.is_stalled or link.is_closing):
            protocol.receive_data(data[at : at + PIECE])
            at += PIECE
            frames = cast("list[Frame]", protocol.events_received())
            self._take_frames(frames)
        self._waiting = b"" if link.is_closing else data[at:]

    def _answer(self) -> None:
        """Send what the protocol itself has to say: pongs, and the end."""
        for chunk in self._protocol.data_to_send():
            if not chunk or self._transport is None:
                continue  # an end of file: it comes with the close
            if self._is_blocked:
                self._late = chunk  # a pong to the latest ping answers those before it too
            else:
                self._transport.write(chunk)
        if self._protocol.state is not State.OPEN:
            self._end()

    def _end(self) -> None:
        """The client has closed, or sent what is no WebSocket."""
        problem = self._protocol.parser_exc
        if problem is not None:
            self._connection.error(f"read error: {problem}")
        self._link.doom(CloseReason.CLIENT_CLOSED if problem is None else CloseReason.READ_ERROR)

    def resume_writing(self) -> None:
        if self._late and self._transport is not None:
            self._transport.write(self._late)
        self._late = b""
        super().resume_writing()

    # -- the engine's side

    def _send(self, transport: asyncio.Transport) -> None:
        protocol = self._protocol
        if protocol.state is not State.OPEN:
            self._link.discard()
            return
        data = self._link.take()
        step = self._most or len(data)
        for at in range(0, len(data), step):
            protocol.send_binary(data[at : at + step])
        transport.writelines(protocol.data_to_send())

    # -- Transport

    def close(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        reason = CloseReason(self._link.reason)
        code = close_code(reason)
        if self._protocol.state is State.OPEN:
            if code is None:
                transport.abort()
                return
            self._protocol.send_close(code, reason.text[:_MAX_REASON])
            transport.writelines(self._protocol.data_to_send())
        transport.close()
        if transport.get_write_buffer_size():
            self._connection.later(LINGER, transport.abort)

    def resume(self) -> None:
        self._take_waiting()
        if not (self._link.is_held or self._link.is_stalled):
            super().resume()
        elif self._link.is_stalled:
            self._on_stalled(self)
