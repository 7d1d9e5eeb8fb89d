"""WebSocket connections that this server begins: the upgrade, and a tunnel through an HTTP proxy before it.

Here lives the exchange. Never lives here: frames (`transport`), when to connect and to whom
(`headrace.cluster`). Source: RFC 6455; the path, the headers and words of nats-server 2.15.1.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.http11 import Response
from websockets.protocol import State
from websockets.streams import StreamReader
from websockets.uri import WebSocketURI

from headrace import limits
from headrace.errors import ProtocolError
from headrace.protocol.info import address_text
from headrace.server.websocket.transport import PIECE

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from websockets.frames import Frame

    from headrace.conf.leaf_options import LeafProxy, LeafRemote
    from headrace.conf.peer_options import PeerURL

    Upgraded = Callable[[asyncio.Transport, ClientProtocol, "Early"], None]

LEAF_PATH: Final = "leafnode"
"""The path that tells a WebSocket port that a leaf node connects."""

_NO_MASKING: Final = "Nats-No-Masking"
_QUIET: Final = logging.getLogger("headrace.websocket")
_READ_SIZE: Final = 4096
_OK: Final = 200


class Early(NamedTuple):
    """Data that came together with the answer to an upgrade: frames, and bytes that were not looked at."""

    frames: list[Frame]
    rest: bytes


class _Unmasked(ClientProtocol):
    """One whose server does not want what comes to be masked."""

    masks = True

    def send_frame(self, frame: Frame) -> None:
        if self.masks:
            super().send_frame(frame)
        else:
            self.writes.append(frame.serialize(mask=False, extensions=self.extensions))


def leaf_upgrade(remote: LeafRemote, url: PeerURL, *, is_secure: bool) -> _Unmasked:
    """Make the protocol that asks the server of this URL for a leaf link."""
    path = f"/{url.path}/{LEAF_PATH}" if url.path else f"/{LEAF_PATH}"
    extensions = None
    if remote.ws_compression:  # each message on its own, as the Go server does
        extensions = [
            ClientPerMessageDeflateFactory(server_no_context_takeover=True, client_no_context_takeover=True)
        ]
    return _Unmasked(
        WebSocketURI(is_secure, url.host, url.port, path, ""),
        extensions=extensions,
        max_size=limits.WEBSOCKET_MAX_MESSAGE,
        logger=_QUIET,
    )


class UpgradeAttempt(asyncio.Protocol):
    """One connection until its upgrade: then `upgraded` takes it over, with what came already.

    `done` is set when it is over, with a ProtocolError when it came to nothing.
    """

    def __init__(self, protocol: _Unmasked, *, asks_no_masking: bool, upgraded: Upgraded) -> None:
        self._protocol = protocol
        self._asks_no_masking = asks_no_masking
        self._upgraded = upgraded
        self._transport: asyncio.Transport | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        request = self._protocol.connect()
        if self._asks_no_masking:
            request.headers[_NO_MASKING] = "true"
        self._protocol.send_request(request)
        self._transport.write(b"".join(self._protocol.data_to_send()))

    def data_received(self, data: bytes) -> None:
        transport, protocol = self._transport, self._protocol
        if transport is None or self.done.done():
            return
        at = 0
        while at < len(data) and protocol.state is State.CONNECTING:
            protocol.receive_data(data[at : at + PIECE])
            at += PIECE
        if not self._is_refused() and protocol.state is not State.CONNECTING:
            response, *frames = protocol.events_received()
            agreed = cast("Response", response).headers.get(_NO_MASKING, "")
            protocol.masks = not (self._asks_no_masking and agreed == "true")
            self._transport = None
            self.done.set_result(None)
            self._upgraded(transport, protocol, Early(cast("list[Frame]", frames), data[at:]))

    def eof_received(self) -> None:
        """End the answer, which may not say how long it is."""
        self._protocol.receive_eof()
        problem = self._protocol.handshake_exc
        if problem is not None and not isinstance(problem.__cause__, EOFError):
            self._is_refused()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail("invalid websocket connection: connection closed")

    @property
    def has_succeeded(self) -> bool:
        """True if the connection was handed over."""
        return self.done.done() and not self.done.cancelled() and self.done.exception() is None

    def give_up(self) -> None:
        """End the upgrade without a connection."""
        if self._transport is not None:
            self._transport.abort()

    def _is_refused(self) -> bool:
        problem = self._protocol.handshake_exc
        if problem is None:
            return False
        self._fail(f"invalid websocket connection: {problem}")
        self.give_up()
        return True

    def _fail(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(ProtocolError(reason))


async def open_tunnel(sock: socket.socket, proxy: LeafProxy, url: PeerURL, seconds: float) -> None:
    """Have a proxy connect a socket that is connected to it to where the URL leads.

    Raises: ProtocolError when it does not, or not in time; OSError.
    """
    loop = asyncio.get_running_loop()
    target = address_text(url.host, url.port)
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.user and proxy.password:
        proof = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {proof}")
    try:
        async with asyncio.timeout(seconds):
            await loop.sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode())
            response, rest = await _answer(loop, sock)
    except TimeoutError:
        raise ProtocolError("failed to read proxy response: i/o timeout") from None
    if response.status_code != _OK:
        raise ProtocolError(f"proxy CONNECT failed: {response.status_code} {response.reason_phrase}")
    if rest:
        raise ProtocolError("failed to read proxy response: more came than it")


async def _answer(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> tuple[Response, bytes]:
    """The head of a proxy's answer, and what came behind it. Raises: ProtocolError, OSError."""
    reader = StreamReader()
    parsing = Response.parse(reader.read_line, reader.read_exact, reader.read_to_eof, proxy=True)
    try:
        while True:
            next(parsing)
            data = await loop.sock_recv(sock, _READ_SIZE)
            if data:
                reader.feed_data(data)
            else:
                reader.feed_eof()
    except StopIteration as end:
        return cast("Response", end.value), bytes(reader.buffer)
    except (EOFError, ValueError, LookupError, NotImplementedError) as error:
        raise ProtocolError(f"failed to read proxy response: {error}") from None
    except Exception as error:
        if type(error).__module__.startswith("websockets."):  # a head that is too large
            raise ProtocolError(f"failed to read proxy response: {error}") from None
        raise
