"""The part that sessions with all kinds of peers share: liveness, errors, closing, log lines.

A session owns no socket and closes nothing itself: it dooms its link. Never lives here: handshakes, and what
concerns more than one connection.
"""

from __future__ import annotations

import hmac
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from headrace import limits
from headrace.core.tracing import TracedConnection
from headrace.engine.reasons import CloseReason
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cluster.port import ClusterHost, Wire
    from headrace.conf.peer_options import ClusterOptions, GatewayOptions
    from headrace.conf.tls_options import TLSOptions
    from headrace.core.service import Timer
    from headrace.core.tracing import ConnectionKind
    from headrace.engine.link import Link
    from headrace.protocol.peers import PeerConnect, PeerInfo

_Said = TypeVar("_Said")


class Session(ABC):
    """A connection to a peer, from accept, or a successful dial, to the end.

    Times are nanoseconds of the port's clock. `rtt_ns`: how long the last PONG took, 0 before there was one.
    """

    kind: ClassVar[str]
    """The kind of peer in log lines about mistakes of ours, as `route`."""
    title: ClassVar[str]
    """The kind of peer in the log line about its end, as `Router`."""
    port_title: ClassVar[str]
    """The port of such peers in log lines about others that come there, as `Route`."""

    link: Link

    def __init__(self, port: ClusterHost, wire: Wire) -> None:
        self.wire: Final = wire
        self.is_closed = False
        self.start_ns: Final = port.now_ns()
        self.rtt_ns = 0
        self._port: Final = port
        self._pings_out = 0
        self._ping_sent_ns = 0
        self._auth_timer: Timer | None = None
        self._ping_timer: Timer | None = None

    @property
    def connection(self) -> Wire:
        """The connection that ends when the link is doomed."""
        return self.wire

    # -- called by the engine ---------------------------------------------------------------------

    def pong(self) -> None:
        """Note that the peer is alive, and has taken everything that was sent before the PING."""
        self._pings_out = 0
        if self._ping_sent_ns:
            self.rtt_ns = max(self._port.now_ns() - self._ping_sent_ns, 1)

    def _read(self, shape: Callable[[bytes], _Said], text: bytes) -> _Said | None:
        """Read an INFO or a CONNECT; None, and the connection ends, when it cannot be read."""
        try:
            return shape(text)
        except ProtocolError as problem:
            self._malformed(problem)
            return None

    def parse_failed(self, text: str) -> None:
        self.log(logging.ERROR, text)

    def failed(self, error: Exception) -> None:
        """End the connection because of a mistake of ours."""
        self._port.log(logging.ERROR, f"internal error on a {self.kind}: {error!r}")
        self.close(CloseReason.INTERNAL_ERROR)

    def trace(self, op: str, arguments: bytes, payload: bytes | None) -> None:
        self.wire.trace(op, arguments, payload)

    def trace_delivery(self, subject: bytes, key: bytes, reply: bytes, headers: int, size: int) -> None:
        self.wire.trace_delivery(subject, key, reply, headers, size)

    # -- messages that are traced -----------------------------------------------------------------

    trace_kind: ClassVar[ConnectionKind]

    @property
    def traced_connection(self) -> TracedConnection:
        """The peer as traces name it."""
        return TracedConnection(self.trace_kind, self.wire.number, self.trace_name)

    @property
    @abstractmethod
    def trace_name(self) -> str:
        """The name of the server at the other end."""

    def may_trace_to(self, dest: bytes) -> bool:
        """Return True when traces of messages from this peer may be published to that subject."""
        return True

    def refuse_publish(self, dest: bytes) -> None:
        self.log(logging.ERROR, f'Publish Violation - Subject "{dest.decode("utf-8", "replace")}"')

    def error(self, text: str) -> None:
        self.log(logging.ERROR, text)

    # -- authentication ---------------------------------------------------------------------------

    def _demand_connect(self, seconds: float) -> None:
        """Give the peer that many seconds to send CONNECT."""
        self._auth_timer = self._port.call_later(seconds, self._authentication_due)

    def _authentication_due(self) -> None:
        self._auth_timer = None
        self.log(logging.DEBUG, self._timeout_text)
        self.refuse(self._timeout_text, CloseReason.AUTHENTICATION_TIMEOUT)

    @property
    def _timeout_text(self) -> str:
        return "Authentication Timeout"

    def _disarm_auth(self) -> None:
        if self._auth_timer is not None:
            self._auth_timer.cancel()
            self._auth_timer = None

    def unauthenticated(self) -> None:
        """Refuse a peer whose first op is not CONNECT."""
        self.reject("")

    def reject(self, user: str) -> None:
        """Refuse a peer that may not be here."""
        self.log(logging.ERROR, "authentication error" + (f' - User "{user}"' if user else ""))
        self.refuse("Authorization Violation", CloseReason.AUTHENTICATION_VIOLATION)

    # -- liveness ---------------------------------------------------------------------------------

    @property
    def _ping_interval(self) -> float:
        """Seconds between PINGs."""
        return self._port.ping_interval

    @property
    def _ping_max(self) -> int:
        """The number of PINGs that may be without an answer."""
        return self._port.ping_max

    def _begin_pings(self, seconds: float = limits.ROUTE_FIRST_PING_DELAY) -> None:
        """Send the first PING after that many seconds, or up to a fifth later, so that not all go at once."""
        self._disarm_ping()
        self._arm_ping(min(seconds, self._ping_interval) * (1 + self._port.random() / 5))

    def _arm_ping(self, seconds: float) -> None:
        self._ping_timer = self._port.call_later(seconds, self._ping_due)

    def _ping_due(self) -> None:
        self._ping_timer = None
        if self._pings_out + 1 > self._ping_max:
            self._give_up()
            return
        self.ping()
        self._arm_ping(self._ping_interval)

    def _give_up(self) -> None:
        """Close the connection to a peer that is silent."""
        self._ping_timer = None
        self.log(logging.DEBUG, "Stale Client Connection - Closing")
        self.refuse("Stale Connection", CloseReason.STALE_CONNECTION)

    def _disarm_ping(self) -> None:
        if self._ping_timer is not None:
            self._ping_timer.cancel()
            self._ping_timer = None

    def ping(self) -> None:
        """Ask for a PONG."""
        self._pings_out += 1
        self._ping_sent_ns = self._port.now_ns()
        self.link.send(b"PING\r\n")
        self._port.wake()

    # -- closing ----------------------------------------------------------------------------------

    def _malformed(self, problem: ProtocolError) -> None:
        self.log(logging.ERROR, f"parse error: {problem}")
        self.close(CloseReason.PROTOCOL_VIOLATION)

    def refuse_loudly(self, text: str, reason: CloseReason) -> None:
        """Send -ERR and log an error line, then close."""
        self.log(logging.ERROR, text)
        self.refuse(text, reason)

    def violates(self, text: str) -> None:
        """End a handshake that cannot go on: told to the peer and logged."""
        self.refuse_loudly(text, CloseReason.PROTOCOL_VIOLATION)

    def _refuse_gateway(self, name: str) -> None:
        """Refuse a server of another cluster that came to the wrong port."""
        text = f'Rejecting connection from gateway "{name}" on the {self.port_title} port'
        self.refuse_loudly(text, CloseReason.WRONG_GATEWAY)

    def _refuse_name(self, name: str) -> None:
        """Refuse a server that has the name of another one."""
        self.log(logging.ERROR, f'Remote server has a duplicate name: "{name}"')
        self.close(CloseReason.DUPLICATE_SERVER_NAME)

    def refuse(self, text: str, reason: CloseReason) -> None:
        """Send -ERR, then close."""
        self.link.send(f"-ERR '{text}'\r\n".encode("utf-8", "replace"))
        self.close(reason)

    def close(self, reason: CloseReason) -> None:
        """Close the connection without a word to the peer."""
        self.link.doom(reason)
        self._port.wake()

    def ended(self, reason: CloseReason) -> None:
        """End the session; called once when the connection is over, before the link is detached."""
        self.is_closed = True
        self._disarm_auth()
        self._disarm_ping()
        remote = f" - Remote: {self.trace_name}" if self.trace_name else ""
        self.log(logging.INFO, f"{self.title} connection closed: {reason.text}{remote}")
        self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """Tell the owner of all connections that this one is over."""

    def log(self, level: int, text: str) -> None:
        self.wire.log(level, text)


class UserSession(Session):
    """A session whose peer is a single user of the configuration, where it must authenticate.

    `remote`: the INFO of the server at the other end, once it came.
    """

    def __init__(self, port: ClusterHost, wire: Wire) -> None:
        super().__init__(port, wire)
        self.remote: PeerInfo | None = None
        self._is_judged = False

    @property
    def trace_name(self) -> str:
        return self.remote.server_name if self.remote is not None else ""

    def _authenticate(
        self,
        given: PeerConnect,
        options: ClusterOptions | GatewayOptions,
        introduced: Callable[[PeerConnect], object],
    ) -> None:
        """Call `introduced` when the peer is who it should be, now or after a while; else refuse the peer.

        Where certificates say that, user and password count for nothing. A comparison of hashes takes long:
        nothing that follows is read until it is over.
        """
        user, password = options.user, options.password
        if options.tls is not None and options.tls.certifies:
            if self._is_certified(options, options.tls):
                introduced(given)
            else:
                self.reject(given.user)
            return
        if user is None:
            introduced(given)
            return
        is_user = hmac.compare_digest(user.encode(), given.user.encode("utf-8", "surrogatepass"))
        self._is_judged = False

        def judged(is_secret: bool) -> None:
            self._is_judged = True
            if self.is_closed or self.link.is_closing:
                return
            if is_user and is_secret:
                introduced(given)
            else:
                self.reject(given.user)
            if self.link.is_held:
                self.wire.resume()

        self._port.compare(password or "", given.password, judged)
        if not self._is_judged:
            self.link.hold()

    def _is_certified(self, options: ClusterOptions | GatewayOptions, tls: TLSOptions) -> bool:
        """Return True for a certificate of the user, or of a host that the configuration names."""
        from headrace.core.certificate_names import is_made_out_to, mapped_user

        if not self.wire.peer_certificates:
            return False
        own = self.wire.peer_certificates[0]
        if tls.check_known_urls and is_made_out_to(own, options.known_hosts):
            return True
        if not tls.verify_and_map or not options.user:
            return False
        return mapped_user(own, (options.user,)) is not None
