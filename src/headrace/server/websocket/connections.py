"""The connections that a WebSocket carries: a client, or another server as leaf node or hub.

Here lives what the transport needs of each. Never lives here: frames (`transport`), what is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import limits

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from headrace.cluster.leaf import LeafSession
    from headrace.engine.link import Link
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.port import Runtime
    from headrace.server.session import ClientSession
    from headrace.server.websocket.transport import WebSocketTransport


class CarriedClient:
    """A client over WebSocket: a `headrace.server.websocket.transport.WebSocketConnection`."""

    __slots__ = ("_server", "_session", "error", "most_unknown", "take")

    def __init__(self, server: Runtime, session: ClientSession, most_unknown: int) -> None:
        self._server = server
        self._session = session
        self.most_unknown = most_unknown
        self.error = session.error
        self.take = session.take

    @property
    def link(self) -> Link:
        return self._session.link

    @property
    def is_unknown(self) -> bool:
        return self._session.identity is None

    def carried(self, transport: WebSocketTransport, tls: ssl.SSLObject | None) -> None:
        self._session.transport = transport
        if tls is None or self._session.secured(tls):
            self._session.opened()

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        self._server.loop.call_later(seconds, call)


class LeafNode:
    """A leaf node over WebSocket: a `headrace.server.websocket.transport.WebSocketConnection`."""

    __slots__ = ("_connection", "_server", "error")

    most_unknown = limits.WEBSOCKET_BEFORE_CONNECT

    def __init__(self, server: Runtime, connection: PeerConnection[LeafSession]) -> None:
        self._server = server
        self._connection = connection
        self.error = connection.error

    @property
    def link(self) -> Link:
        return self._connection.link

    @property
    def is_unknown(self) -> bool:
        session = self._connection.session
        return session.remote is None and not session.is_registered

    def carried(self, transport: WebSocketTransport, tls: ssl.SSLObject | None) -> None:
        if tls is None or self._connection.secured(tls):
            self._connection.opened(transport)

    def take(self, data: bytes) -> None:
        if data:
            self._connection.take(data)

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        self._server.loop.call_later(seconds, call)
