"""One client connection's life: opening, its user, liveness, its end, and its place in logs.

The engine calls a client's `client_ops` for every rare op. A session owns no socket: it asks its transport to
flush and close. What happens per message is the engine's.
Source: client protocol specification, sections 2, 3 and 9.
"""

from __future__ import annotations

from time import monotonic_ns, time, time_ns
from typing import TYPE_CHECKING, ClassVar, Final

from headrace import limits
from headrace.engine.client import ClientLink
from headrace.engine.reasons import CloseReason
from headrace.protocol import nkeys
from headrace.protocol.info import NO_OPTIONS, PROTOCOL_WITH_ASYNC_INFO
from headrace.server.account_membership import AccountMembership
from headrace.server.auth import AUTHORIZATION_VIOLATION, CredentialCheck
from headrace.server.client_ops import ClientOps
from headrace.server.client_permissions import ClientPermissions
from headrace.server.client_words import ClientWords
from headrace.server.connection_log import ConnectionLog
from headrace.server.log_text import claimed_user, client_label

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable, Mapping

    from headrace.core.account import Account
    from headrace.protocol.info import ClientConnect
    from headrace.server.access import Access
    from headrace.server.auth import Identity
    from headrace.server.port import SessionHost
    from headrace.server.transport import Transport

_LONGEST_TIMER: Final = 86_400.0  # seconds; a loop's timers are not made for years
_USER_EXPIRED: Final = "User Authentication Expired"


class ClientSession(ConnectionLog):
    """A client from accept to close. `cid` numbers clients from 1; times are as their names say."""

    __slots__ = (
        "_deadline",
        "_expiry",
        "_introduction",
        "_known_as",
        "_server",
        "access",
        "address",
        "behind",
        "cid",
        "close_reason",
        "credentials",
        "estimated_rtt_ns",
        "has_pinged",
        "identity",
        "is_closed",
        "is_connected",
        "is_undecided",
        "link",
        "membership",
        "options",
        "permissions",
        "ping_sent_ns",
        "pings_out",
        "port",
        "proxy_key",
        "refusal",
        "rtt_ns",
        "stand_ins",
        "start_ns",
        "stop_ns",
        "tls_cipher",
        "tls_first",
        "tls_version",
        "transport",
    )

    words: ClassVar[ClientWords] = ClientWords()
    """The words to clients of this protocol."""

    _refused_by_engine: ClassVar[Mapping[CloseReason, str]] = {
        CloseReason.MAX_PAYLOAD_EXCEEDED: "maximum payload exceeded",
        CloseReason.MAX_CONTROL_LINE_EXCEEDED: "maximum control line exceeded",
    }
    """Closes that the engine decides and says on the wire by itself: what the log says of them."""

    _server: SessionHost
    address: str

    def __init__(self, server: SessionHost, access: Access, cid: int, address: str, port: int) -> None:
        options = server.options
        self._server = server
        self.access = access
        self.cid = cid
        self.address = address
        self.port = port
        self.behind = ""  # for log lines only: where it says it comes from, and a slash
        self.options = NO_OPTIONS
        self.identity: Identity | None = None
        self.credentials = CredentialCheck(
            access, nkeys.new_nonce() if access.authenticator.needs_nonce else b""
        )
        self.is_connected = False
        self.is_undecided = False  # its credentials are being looked at, and nothing is parsed meanwhile
        self.is_closed = False
        self.close_reason = CloseReason.NONE
        self.refusal = CloseReason.AUTHENTICATION_VIOLATION
        self.proxy_key = ""
        self.start_ns = time_ns()
        self.stop_ns = 0
        self.rtt_ns = self.estimated_rtt_ns = 0
        self.tls_version = ""
        self.tls_cipher = ""
        self.tls_first = False
        self.stand_ins: Mapping[str, str] = {}  # fields of CONNECT, for those it leaves out
        self.transport: Transport | None = None
        self._introduction: tuple[ClientConnect, Identity] | None = None  # makes `_known_as`
        self._known_as = ""
        self.has_pinged = False
        self.pings_out = 0
        self.ping_sent_ns = 0
        self._deadline = 0  # its slot in the server's deadlines; 0: it has none
        self._expiry: asyncio.TimerHandle | None = None
        self.link = self._new_link()
        self.link.traced = options.trace
        self.permissions = self._new_permissions()
        self.membership = AccountMembership(server, self.link)
        self.membership.enter(server.accounts.default)
        if not access.needs_first_op:
            self.identity = access.authenticator.default_identity(access.connection_type)
            assert self.identity is not None
            self.permissions.restrict(self.link, self.identity.permissions)

    def _new_link(self) -> ClientLink:
        options = self._server.options
        return ClientLink(
            self._server.router,
            ClientOps(self._server, self),
            max_payload=options.max_payload,
            max_control_line=options.max_control_line,
            max_subscriptions=options.max_subscriptions,
            max_subscription_tokens=options.max_sub_tokens,
            must_connect=self.access.needs_first_op,
        )

    def _new_permissions(self) -> ClientPermissions:
        return ClientPermissions()

    @property
    def account(self) -> Account | None:
        """The account it acts in; None when it has left its last one."""
        return self.membership.account

    @property
    def mqtt_client(self) -> str:
        """The client identifier of one over MQTT; empty for every other client."""
        return ""

    # -- opening ----------------------------------------------------------------------------------

    def opened(self) -> None:
        """The connection can carry the protocol: start the clock on authentication, or on liveness."""
        self._start_clock()
        self.debug("Client connection created")

    def _start_clock(self) -> None:
        if self.access.authenticator.has_users:
            self._arm(self.access.auth_timeout, self._authentication_due)
        else:
            self._watch()

    def begin_again(self) -> None:
        """Judge anew a client that has sent no op yet: the permissions without CONNECT have changed."""
        self.identity = None
        if self.access.needs_first_op:
            self.link.demand_connect()
        else:
            self.link.adopt()
            anybody = self.access.authenticator.default_identity(self.access.connection_type)
            assert anybody is not None
            self.act_as(anybody)
        if self.transport is not None:  # else it is being opened, which starts the clock
            self._start_clock()

    def secured(self, connection: ssl.SSLObject) -> bool:
        """A TLS handshake has ended. False: this client may not connect, and is being closed."""
        from headrace.server import tls

        self.tls_version, self.tls_cipher = tls.negotiated_names(connection)
        self.credentials.peer_certificates = tls.peer_certificates(connection)
        options = self.access.tls
        if options is not None and not tls.is_pinned(
            self.credentials.peer_certificates, options.pinned_certs
        ):
            self.error("TLS handshake error: certificate not pinned")
            self.link.discard()
            self.link.doom(CloseReason.TLS_HANDSHAKE_ERROR)
            return False
        self.debug("TLS handshake complete")
        self.debug(f"TLS version {self.tls_version}, cipher suite {self.tls_cipher}")
        return True

    def take(self, seen: bytes) -> None:
        """Bytes that came in before the connection had its transport."""
        if seen:
            try:
                self.link.feed(seen)
            except Exception as error:  # noqa: BLE001 -- as the engine does it: this connection ends
                self.link.session.failed(error)
            self._server.ticks.wake()

    def _authentication_due(self) -> None:
        if self.is_connected:
            return
        if self.identity is not None:  # it has said something, and acts as the user of those who say no more
            self._watch()
        else:
            self.debug("Authentication Timeout")
            self.refuse("Authentication Timeout", CloseReason.AUTHENTICATION_TIMEOUT)

    # -- being let in -----------------------------------------------------------------------------

    def go_on(self) -> None:
        """Parse what came while the link was held."""
        self.link.release()
        if self.transport is not None and not self.link.is_held:
            self.transport.resume()
        self._server.ticks.wake()

    def let_in(self, identity: Identity) -> None:
        """Serve a client from its CONNECT on as this user."""
        self.permissions.restrict(self.link, identity.permissions)
        self._expire_with(identity)
        self.is_connected = True
        self._server.clients.admitted(self)
        if not self._name_in_log:
            self._introduction = self.options, identity
        self._watch()

    def act_as(self, identity: Identity) -> None:
        """Be somebody else of the same account from now on, or the same one with other permissions."""
        before, self.identity = self.identity, identity
        if before is None or before.permissions != identity.permissions:
            self.permissions.restrict(self.link, identity.permissions)

    @property
    def has_async_info(self) -> bool:
        """True if this client may be sent INFO at any time."""
        return self.has_pinged and self.options.protocol >= PROTOCOL_WITH_ASYNC_INFO

    # -- tokens -----------------------------------------------------------------------------------

    def _expire_with(self, identity: Identity) -> None:
        """The connection ends when the token does, or the hours it may connect in."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if identity.token is None or identity.token.expires_at is None:
            return
        left = identity.token.expires_at - time()
        if left > _LONGEST_TIMER:
            self._expiry = self._server.loop.call_later(_LONGEST_TIMER, self._expire_with, identity)
        else:
            self._expiry = self._server.loop.call_later(max(left, 0.0), self._expired)

    def _expired(self) -> None:
        self.debug(_USER_EXPIRED)
        self.refuse(_USER_EXPIRED, CloseReason.AUTHENTICATION_EXPIRED)

    # -- liveness ---------------------------------------------------------------------------------

    def disarm(self) -> None:
        """Wait for nothing: neither for a CONNECT nor to send a PING."""
        if self._deadline:
            self._server.deadlines.drop(self, self._deadline)
            self._deadline = 0

    def _arm(self, seconds: float, due: Callable[[], object]) -> None:
        self.disarm()
        self._deadline = self._server.deadlines.set(self, seconds, due)

    def _watch(self) -> None:
        """Begin to ask whether the client is there: set the time of the first PING, up to a fifth late.

        Clients that came all at once are not asked all at once.
        """
        first = min(limits.FIRST_PING_DELAY, self.access.ping_interval)
        self._arm(first * (1 + self.cid % 256 / 1280), self._ping_due)

    def _ping_due(self) -> None:
        """Send a PING unless the client was heard of, or give it up."""
        options = self._server.options
        interval = self.access.ping_interval
        interval_ns = int(interval * 1e9)
        is_idle = monotonic_ns() - self.link.last_activity >= interval_ns
        if self.rtt_ns == 0 or is_idle or self.pings_out:
            if self.pings_out + 1 > options.ping_max:
                self.debug("Stale Client Connection - Closing")
                self._server.clients.stale_connections += 1
                self.refuse("Stale Connection", CloseReason.STALE_CONNECTION)
                return
            self.pings_out += 1
            self.ping_sent_ns = monotonic_ns()
            self.debug("Client Ping Timer")
            self.link.send(b"PING\r\n")
            self._server.ticks.wake()
        self._arm(interval, self._ping_due)

    # -- closing ----------------------------------------------------------------------------------

    def end(self, reason: CloseReason) -> None:
        """Close the connection, which the client is told where its protocol has a word for that."""
        self.refuse("", reason)

    def refuse(self, text: str, reason: CloseReason) -> None:
        """Tell the client of an error, then close."""
        self.link.send(self.words.farewell(self, text, reason))
        self.link.doom(reason)
        self._server.ticks.wake()

    def reject(self) -> None:
        """Refuse the client's credentials, now or after a reload, and close the connection."""
        self.error(f"authentication error{claimed_user(self.options)}")
        self.refuse(AUTHORIZATION_VIOLATION, self.refusal)
        self._server.events.refused(self, self.refusal.text)

    @property
    def write_deadline(self) -> float:
        """Seconds."""
        return self._server.options.write_deadline

    def count_slow(self) -> None:
        """Count the client as slow: it did not take its messages as fast as they came."""
        self._server.clients.slow_consumers += 1
        if self.account is not None:
            self.account.slow_consumers += 1

    def endures(self, now_ns: int) -> bool:
        """A client's write that is late is not waited for."""
        return False

    def over(self, reason: CloseReason) -> None:
        """The connection is closed."""
        self._server.clients.forget(self.cid, reason)

    def ended(self, reason: CloseReason) -> None:
        """Called once by the server when the connection is over: everything is given back."""
        self.is_closed = True
        self.membership.leave(is_closed=True)
        self._server.clients.admitted(self)
        self.close_reason = reason
        self.stop_ns = time_ns()
        self.disarm()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if reason in self._refused_by_engine:
            self.error(self._refused_by_engine[reason])
        self.debug(f"Client connection closed: {reason.text}")

    # -- words ------------------------------------------------------------------------------------

    @property
    def _name_in_log(self) -> str:
        """The client as its first CONNECT that says anything names it; most are never in the log."""
        if self._introduction is not None:
            self._known_as, self._introduction = client_label(*self._introduction), None
        return self._known_as

    @property
    def label(self) -> str:
        """The head of this client's log lines: `127.0.0.1:50000 - cid:7 - "python:name" -`."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.behind}{host}:{self.port} - {self.access.log_name}:{self.cid}{self._name_in_log} -"
