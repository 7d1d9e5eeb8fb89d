"""One connection to another server, as the server has it: its transport, its end, its log lines.

What is said on it is the business of its session (`headrace.cluster`), which it outlives in nothing.
"""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Generic

from headrace.cluster.port import Address, SessionT
from headrace.engine.reasons import CloseReason
from headrace.server.connection_log import ConnectionLog
from headrace.server.disconnects import note_late

if TYPE_CHECKING:
    import ssl

    from headrace.engine.link import Link
    from headrace.server.peers.port import ConnectionHost, PeersServer
    from headrace.server.transport import Transport


class PeerConnection(ConnectionLog, Generic[SessionT]):
    """A connection to a peer, from accept or a successful dial to the end.

    `session` is set before a byte flows.
    """

    __slots__ = (
        "_host",
        "_is_slow",
        "_server",
        "address",
        "is_closed",
        "is_of_websocket_port",
        "number",
        "peer_certificates",
        "port",
        "session",
        "start_ns",
        "tls_cipher",
        "tls_version",
        "transport",
    )

    _server: PeersServer
    address: str
    session: SessionT

    def __init__(self, server: PeersServer, host: ConnectionHost, address: tuple[str, int]) -> None:
        self._server = server
        self._host = host
        self.number = server.next_number()
        self.address, self.port = address[:2]
        self.start_ns = time_ns()
        self.transport: Transport | None = None
        self.is_closed = False
        self.is_of_websocket_port = False
        self._is_slow = False
        self.tls_version = self.tls_cipher = ""
        self.peer_certificates: tuple[bytes, ...] = ()  # DER, its own first

    # -- the session's wire -----------------------------------------------------------------------

    @property
    def remote(self) -> Address:
        """The other end."""
        return Address(self.address, self.port)

    def log(self, level: int, text: str) -> None:
        """A line of the session's; the same one again and again from one host is counted instead."""
        self._say(level, text)

    def resume(self) -> None:
        self.link.release()
        if self.transport is not None and not self.link.is_held:
            self.transport.resume()
        self._server.ticks.wake()

    # -- opening ----------------------------------------------------------------------------------

    def secured(self, connection: ssl.SSLObject) -> bool:
        """A TLS handshake has ended. False: the other end's key is not one of those listed; it is closed."""
        from headrace.server import tls

        self.tls_version, self.tls_cipher = tls.negotiated_names(connection)
        self.peer_certificates = tls.peer_certificates(connection)
        self.debug("TLS handshake complete")
        self.debug(f"TLS version {self.tls_version}, cipher suite {self.tls_cipher}")
        if self.is_pinned:
            return True
        self.error(f"TLS {self._host.kind} handshake error: certificate not pinned")
        self.link.doom(CloseReason.TLS_HANDSHAKE_ERROR)
        self._server.ticks.wake()
        return False

    @property
    def is_pinned(self) -> bool:
        """True if `pinned_certs`, as configured now, lets the other end's certificate pass."""
        websocket = self._server.options.websocket if self.is_of_websocket_port else None
        options = self._host.tls if websocket is None else websocket.tls
        if options is None or not options.pinned_certs or not self.tls_version:
            return True
        from headrace.server import tls

        return tls.is_pinned(self.peer_certificates, options.pinned_certs)

    def opened(self, transport: Transport) -> None:
        """Bytes flow."""
        self.transport = transport
        self.session.opened()

    def take(self, seen: bytes) -> None:
        """Feed bytes that were read before the connection had its transport."""
        try:
            self.link.feed(seen)
        except Exception as error:  # noqa: BLE001 -- as the engine does it: this connection ends
            self.session.failed(error)
        self._server.ticks.wake()

    # -- the server's connection -----------------------------------------------------------------------

    @property
    def label(self) -> str:
        """The head of its log lines: `127.0.0.1:6222 - rid:7 -`."""
        return f"{self.remote} - {self._host.tag}:{self.number} -"

    @property
    def link(self) -> Link:
        return self.session.link

    @property
    def write_deadline(self) -> float:
        """Seconds."""
        return self._host.write_deadline

    def count_slow(self) -> None:
        """Count the connection as slow: it did not take its messages as fast as they came."""
        self._host.slow_consumers += 1

    def endures(self, now_ns: int) -> bool:
        """True as long as the peer takes something: other than a client it may take its time."""
        idle = now_ns - self.link.last_written
        if self._host.closes_late or idle > self.write_deadline * 1e9:
            return False
        if not self._is_slow:
            self._is_slow = True
            note_late(self)
        return True

    def over(self, reason: CloseReason) -> None:
        """The connection is closed."""
        if self.is_closed:
            return
        self.is_closed = True
        if reason is CloseReason.STALE_CONNECTION:
            self._host.stale_connections += 1
        self._server.disconnects.forget(self)
        self._host.connections.discard(self)
        self.session.ended(reason)
        self.link.detach()
