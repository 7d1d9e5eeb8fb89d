"""One client connection's policy: handshake, authentication, permissions, liveness, its place in logs.

The engine calls a session for every rare op (the list is at the head of `engine/client.pyx`). A
session owns no socket: it asks its transport to flush and close. What happens per message is the
engine's.
Source: client protocol specification, sections 2, 3, 8 and 9.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from time import monotonic_ns, time, time_ns
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from headrace import limits
from headrace.engine.client import ClientLink
from headrace.engine.permission_cache import PermissionCache
from headrace.engine.reasons import CloseReason
from headrace.errors import ProtocolError
from headrace.protocol import nkeys
from headrace.protocol.info import NO_OPTIONS, PROTOCOL_WITH_ASYNC_INFO, ConnectOptions
from headrace.server.auth import AUTHORIZATION_VIOLATION
from headrace.server.traced_client import TracedClient
from headrace.server.wording import (
    claimed_user,
    client_label,
    quoted,
    redacted_connect,
    shown,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Mapping

    from headrace.core.account import Account
    from headrace.core.permissions import ResponseTracker
    from headrace.server.access import Access
    from headrace.server.auth import Identity
    from headrace.server.port import SessionHost
    from headrace.server.transport import Transport

    # A function: what a task has not begun when it is cancelled must not have been made.
    _Decision: TypeAlias = Callable[[], Coroutine[Any, Any, Identity | None]]

_UNLIMITED: Final = -1
_LONGEST_TIMER: Final = 86_400.0  # seconds; a loop's timers are not made for years
_USER_EXPIRED: Final = "User Authentication Expired"
_TOO_MANY_IN_ACCOUNT: Final = "maximum account active connections exceeded"
_TOO_MANY_SUBSCRIPTIONS: Final = "maximum subscriptions exceeded"
_REFUSED, _ALLOWED, _FILTERED = 0, 1, 2
_REFUSED_BY_ENGINE: Final = {
    CloseReason.MAX_PAYLOAD_EXCEEDED: "maximum payload exceeded",
    CloseReason.MAX_CONTROL_LINE_EXCEEDED: "maximum control line exceeded",
}
"""Closes that the engine decides and says on the wire by itself: what the log says of them."""


class ClientSession(TracedClient):
    """A client from accept to close. `cid` numbers clients from 1; times are as their names say."""

    __slots__ = (
        "_deadline",
        "_expiry",
        "_has_pinged",
        "_introduction",
        "_known_as",
        "_ping_sent_ns",
        "_pings_out",
        "_responses",
        "_server",
        "access",
        "account",
        "address",
        "behind",
        "cid",
        "close_reason",
        "estimated_rtt_ns",
        "identity",
        "is_closed",
        "is_connected",
        "link",
        "nonce",
        "options",
        "peer_certificates",
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

    _server: SessionHost

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
        self.nonce = nkeys.new_nonce() if access.authenticator.needs_nonce else b""
        self.is_connected = False
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
        self.peer_certificates: tuple[bytes, ...] = ()  # DER, its own first
        self.transport: Transport | None = None
        self._has_pinged = False
        self._introduction: tuple[ConnectOptions, Identity] | None = None  # makes `_known_as`
        self._known_as = ""
        self._pings_out = 0
        self._ping_sent_ns = 0
        self._responses: ResponseTracker | None = None
        self._deadline = 0  # its slot in the server's deadlines; 0: it has none
        self._expiry: asyncio.TimerHandle | None = None
        self.link = ClientLink(
            server.router,
            self,
            max_payload=options.max_payload,
            max_control_line=options.max_control_line,
            max_subscriptions=options.max_subscriptions,
            max_subscription_tokens=options.max_sub_tokens,
            must_connect=access.needs_first_op,
        )
        self.link.traced = options.trace
        self.account: Account | None = None
        self._enter(server.accounts.default)
        if not access.needs_first_op:
            self.identity = access.authenticator.default_identity(access.connection_type)
            assert self.identity is not None
            self._restrict(self.identity)

    @property
    def connection_type(self) -> str:
        """How it is connected, in the words users are limited with: STANDARD or WEBSOCKET."""
        return self.access.connection_type

    # -- opening ----------------------------------------------------------------------------------

    def info(self, **changes: Any) -> bytes:
        """This client's INFO line; the nonce is in the first one only."""
        own = {"client_id": self.cid, "client_ip": self.address, **changes}
        if self.is_connected:  # the first one hides what a no_auth_user need not know
            own["auth_required"] = self.access.requires_authentication
        elif self.nonce:
            own["nonce"] = self.nonce.decode()
        return self.access.info_line(own)

    def opened(self) -> None:
        """The connection can carry the protocol: start the clock on authentication, or on liveness."""
        self._start_clock()
        self.debug("Client connection created")

    def _start_clock(self) -> None:
        if self.access.authenticator.has_users:
            self._arm(self.access.auth_timeout, self._authentication_due)
        else:
            self._arm_first_ping()

    def begin_again(self) -> None:
        """It has said nothing yet, and what it may say without CONNECT has changed."""
        self.identity = None
        if self.access.needs_first_op:
            self.link.demand_connect()
        else:
            self.link.adopt()
            anybody = self.access.authenticator.default_identity(self.connection_type)
            assert anybody is not None
            self.act_as(anybody)
        if self.transport is not None:  # else it is being opened, which starts the clock
            self._start_clock()

    def secured(self, connection: ssl.SSLObject) -> bool:
        """A TLS handshake has ended. False: this client may not connect, and is being closed."""
        from headrace.server import tls

        self.tls_version, self.tls_cipher = tls.negotiated_names(connection)
        self.peer_certificates = tls.peer_certificates(connection)
        options = self.access.tls
        if options is not None and not tls.is_pinned(self.peer_certificates, options.pinned_certs):
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
                self.failed(error)
            self._server.after_tick()

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """For transports: `call` after that time, if the loop still runs."""
        self._server.loop.call_later(seconds, call)

    def _authentication_due(self) -> None:
        if self.is_connected:
            return
        if self.identity is not None:  # it has said something, and acts as the user of those who say no more
            self._arm_first_ping()
        else:
            self.debug("Authentication Timeout")
            self.refuse("Authentication Timeout", CloseReason.AUTHENTICATION_TIMEOUT)

    # -- called by the engine ---------------------------------------------------------------------

    def connect(self, text: bytes) -> None:
        """CONNECT, the first or a later one."""
        try:
            options = self.options.merged(text).completed(self.stand_ins)
        except ProtocolError as problem:
            self.error(f"parse error: {problem}")
            self.link.doom(CloseReason.PROTOCOL_VIOLATION)
            return
        if not self.estimated_rtt_ns:
            self.estimated_rtt_ns = time_ns() - self.start_ns
        if self.link.traced:
            self._trace_line("<<-", f"CONNECT {redacted_connect(text)}")
        if self.is_connected or not self._is_nobody:
            self.link.drop_subscriptions()
        if options.account or options.new_account:
            self._authentication_failed(options)
        elif options.proxy_sig and self._server.options.trusted_proxies and not self._is_passed_on(options):
            self.debug("proxy is not trusted")
            self.refusal = CloseReason.PROXY_NOT_TRUSTED
            self._authentication_failed(options)
        elif self._server.gate is not None:
            self._disarm()  # who asks others about a client does not wait for them for ever
            self._decide_later(options, partial(self._server.gate.identity, self, options))
        elif self.access.authenticator.is_slow(options, self.mapped_certificates):
            self._decide_later(options, partial(self.checked_in_thread, options))
        else:
            check = self.access.authenticator.authenticate
            identity = check(options, self.nonce, self.connection_type, self.mapped_certificates)
            self._authenticated(options, identity)

    def _is_passed_on(self, options: ConnectOptions) -> bool:
        """Whether a trusted proxy signed for this connection."""
        keys, signature = self._server.options.trusted_proxies, options.proxy_sig
        found = (key for key in keys if nkeys.verify_signature(key, self.nonce, signature))
        self.proxy_key = next(found, "")
        return bool(self.proxy_key)

    async def checked_in_thread(self, options: ConnectOptions) -> Identity | None:
        """bcrypt takes long on purpose: the loop goes on, this connection waits.

        Whom the authenticator of the end sees in these credentials: it may be replaced meanwhile.
        """
        loop = asyncio.get_running_loop()
        given = (options, self.nonce, self.connection_type, self.mapped_certificates)
        while True:
            authenticator = self.access.authenticator
            identity = await loop.run_in_executor(None, authenticator.authenticate, *given)
            if authenticator is self.access.authenticator:
                return identity

    @property
    def mapped_certificates(self) -> tuple[bytes, ...] | None:
        """The certificates that say which user this is; None where they do not (`verify_and_map`)."""
        return self.peer_certificates if self.access.maps_certificates else None

    def _decide_later(self, options: ConnectOptions, decision: _Decision) -> None:
        self.link.hold()
        self._server.run(self._decided(options, decision))

    async def _decided(self, options: ConnectOptions, decision: _Decision) -> None:
        try:
            identity = await decision()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody is let in by it, or left waiting
            self.failed(error)
            self._server.after_tick()
            return
        if self.is_closed or self.link.is_closing:
            return
        self._authenticated(options, identity)
        self.go_on()

    def go_on(self) -> None:
        """What came while the link was held is parsed now."""
        self.link.release()
        if self.transport is not None and not self.link.is_held:
            self.transport.resume()
        self._server.after_tick()

    def _authenticated(self, options: ConnectOptions, identity: Identity | None) -> None:
        if identity is not None and identity.proxy_required and not self.proxy_key:
            self.debug("proxy connection required")
            self.refusal = CloseReason.PROXY_REQUIRED
            identity = None
        if identity is None:
            self._authentication_failed(options)
            return
        server = self._server
        self.options = options = self._renamed(options, identity)
        if not self._enters(identity):
            return
        if not 0 <= options.protocol <= PROTOCOL_WITH_ASYNC_INFO:
            self.error("invalid client protocol")
            self.refuse("invalid client protocol", CloseReason.BAD_CLIENT_PROTOCOL_VERSION)
            return
        has_headers = options.headers and not server.options.no_header_support
        if options.no_responders and not has_headers:
            self.error("no responders requires headers support")
            self.refuse("no responders requires headers support", CloseReason.NO_RESPONDERS_REQUIRES_HEADERS)
            return
        self._restrict(identity)
        self._expire_with(identity)
        self.is_connected = True
        server.clients.admission.leave(self)
        if not self._name_in_log:
            self._introduction = options, identity
        self.link.configure(
            verbose=options.verbose,
            pedantic=options.pedantic,
            echo=options.echo,
            headers=has_headers,
            no_responders=options.no_responders,
            info_on_ping=not self._has_pinged,
        )
        if options.verbose:
            self.link.send(b"+OK\r\n")
        self._arm_first_ping()
        server.system.events.connected(self)

    def _renamed(self, options: ConnectOptions, identity: Identity) -> ConnectOptions:
        """CONNECT with the user that a certificate or a callout found in place of the one it named."""
        if identity.token is not None:
            if identity.user in (None, identity.token.user, options.nkey, options.user):
                return options
        elif self.mapped_certificates is None or options.nkey:
            return options
        elif options.user:
            text = f"User {quoted(options.user)} found in connect proto, but user required from cert"
            self._server.log.warning("%s", text)
        return replace(options, user=identity.user or "", nkey="", auth_token="")

    def _authentication_failed(self, options: ConnectOptions) -> None:
        self.options = options  # monitoring shows who it said it was
        if self.account is not self._server.accounts.default:
            self._leave()
            self._enter(self._server.accounts.default)
        self.reject()

    @property
    def has_async_info(self) -> bool:
        """Whether this client may be sent INFO at any time."""
        return self._has_pinged and self.options.protocol >= PROTOCOL_WITH_ASYNC_INFO

    @property
    def _is_nobody(self) -> bool:
        """No credentials asked for, none given: the one case where CONNECT keeps subscriptions."""
        return self.identity is not None and self.identity.user is None

    def op_before_connect(self) -> None:
        """An op where CONNECT was due."""
        identity = self.access.authenticator.default_identity(self.connection_type)
        if identity is None or self._server.gate is not None or self.access.maps_certificates:
            self.reject()
        elif self._enters(identity):
            self._restrict(identity)
            self.link.adopt()
            self._server.system.events.connected(self)

    def first_ping(self) -> None:
        """The first PING after CONNECT: who takes INFO at any time gets one with what CONNECT settled."""
        self._has_pinged = True
        if self.has_async_info:
            account = self.identity.account if self.identity else ""
            is_system = {"acc_is_sys": True} if account == self._server.accounts.system else {}
            changes = {"max_payload": self.link.max_payload, "remote_account": account, **is_system}
            self.link.send(self.info(connect_info=True, **changes))

    def pong(self) -> None:
        self._pings_out = 0
        if self._ping_sent_ns:
            self.rtt_ns = self.estimated_rtt_ns = max(1, monotonic_ns() - self._ping_sent_ns)
            self._ping_sent_ns = 0

    def peer_error(self, text: bytes) -> None:
        self.error(f"Client Error {shown(text)}")

    def peer_info(self, text: bytes) -> None:
        try:
            info = json.loads(text)
        except (ValueError, RecursionError) as problem:
            self.parse_failed(f"INFO is not valid JSON: {problem}")
            self.link.doom(CloseReason.PROTOCOL_VIOLATION)
            return
        if info is not None and not isinstance(info, dict):
            self.parse_failed("INFO is not a JSON object")
            self.link.doom(CloseReason.PROTOCOL_VIOLATION)

    def parse_failed(self, text: str) -> None:
        self.error(text)

    def failed(self, error: Exception) -> None:
        """A mistake of ours while serving this connection: it ends, the others go on."""
        self._say(logging.ERROR, "internal error", error)
        self.link.doom(CloseReason.INTERNAL_ERROR)

    # -- account ----------------------------------------------------------------------------------

    def _enters(self, identity: Identity) -> bool:
        """Takes its place in the account of an identity, if its limits leave one. Subscriptions are gone."""
        account = self._server.accounts[identity.account]
        if account is not self.account:
            self._leave()
            self.identity = identity  # monitoring shows where it wanted to
            if account.is_full:
                self.refuse_place()
                return False
            self._enter(account)
            return self.limit()
        self.identity = identity
        return identity.token is None or self.limit()

    def _enter(self, account: Account) -> None:
        self.account = account
        self.link.interest = account.interest
        account.enter(self.link)
        self._set_limits()
        self._server.system.events.connections_changed(account)

    def limit(self) -> bool:
        """The server's, the account's and the user's limits, as they are now, hold.

        False, and the connection ends, if it has as many subscriptions as it may have: what it would add is
        refused without that, but as in the Go server a limit that is met when it is set counts as exceeded.
        """
        most = self._set_limits()
        if most == _UNLIMITED or self.link.subscriptions_count < most:
            return True
        self.error(_TOO_MANY_SUBSCRIPTIONS)
        self.refuse(_TOO_MANY_SUBSCRIPTIONS, CloseReason.MAX_SUBSCRIPTIONS_EXCEEDED)
        return False

    def _set_limits(self) -> int:
        """Gives the most subscriptions."""
        assert self.account is not None
        options, of_account = self._server.options, self.account.options.limits
        payload = _tighter(options.max_payload, of_account.max_payload)
        most = _tighter(options.max_subscriptions or _UNLIMITED, of_account.max_subscriptions)
        token = self.identity.token if self.identity is not None else None
        if token is not None:
            payload, most = _tighter(payload, token.payload), _tighter(most, token.subscriptions)
        self.link.limit(max_payload=payload, max_subscriptions=max(most, 0))
        return most

    def _leave(self) -> None:
        account, self.account = self.account, None
        if account is not None:
            account.leave(self.link)
            if not self.is_closed:  # else that comes with the disconnection
                self._server.system.events.connections_changed(account)

    def request_info(self, shares: bool, service: str | None, names_server: bool) -> bytes | None:
        """What a service of another account is told of who asks; `service`: the account it passed last."""
        from headrace.server.requester import request_info  # only who imports services pays for loading it

        account = self.account.name if self.account else ""
        server = self._server.name if names_server else None
        return request_info(self, account=account, shares=shares, service=service, server=server)

    def publisher_info(self) -> bytes | None:
        """Its account and the user that it has proved to be, for services that keep users apart."""
        identity = self.identity
        if identity is None or identity.proven is None:
            return None
        return json.dumps({"acc": identity.account, "user": identity.proven}).encode()

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

    # -- permissions ------------------------------------------------------------------------------

    def act_as(self, identity: Identity) -> None:
        """Is somebody else of the same account from now on, or the same one with other permissions."""
        before, self.identity = self.identity, identity
        if before is None or before.permissions != identity.permissions:
            self._restrict(identity)

    def _restrict(self, identity: Identity) -> None:
        permissions = identity.permissions
        if permissions is None:
            self._responses = None
            self.link.restrict(None, None, False, False)
            return
        self._responses = permissions.response_tracker(monotonic_ns)
        publish, deliver = PermissionCache(permissions.may_publish), PermissionCache(self._may_deliver)
        self.link.restrict(publish, deliver, True, self._responses is not None)

    def _may_deliver(self, key: bytes) -> bool:
        assert self.identity is not None
        assert self.identity.permissions is not None
        subject, _, queue = key.partition(b" ")
        return self.identity.permissions.may_deliver(subject, queue or None)

    def subscribe_permission(self, subject: bytes, queue: bytes | None) -> int:
        """0 refused, 1 allowed, 2 allowed but each delivery is checked."""
        permissions = self.identity.permissions if self.identity else None
        if permissions is None:
            return _ALLOWED
        if not permissions.may_subscribe(subject, queue):
            name = quoted(subject)
            self._violate(f"Subscription to {name}" + (f" using queue {quoted(queue)}" if queue else ""))
            self.error(
                f"Subscription Violation - Subject {name}" + (f", Queue: {quoted(queue)}" if queue else "")
            )
            return _REFUSED
        return _FILTERED if permissions.filters_delivery(subject, queue) else _ALLOWED

    def publish_refused(self, subject: bytes) -> bool:
        """True when the publish is a permitted response after all."""
        if self._responses is not None and self._responses.may_publish(subject):
            return True
        self.refuse_publish(subject)
        return False

    def reply_refused(self, reply: bytes) -> None:
        self._violate(f"Publish with Reply of {quoted(reply)}")
        self.error(f"Publish Violation - Reply {quoted(reply)}")

    def note_reply(self, reply: bytes) -> None:
        permissions = self.identity.permissions if self.identity else None
        if self._responses is None or permissions is None or permissions.may_publish(reply):
            return
        # As with the Go server this look counts: a reply subject that is seen again before it was
        # answered uses up one of the answers it was good for.
        if not self._responses.may_publish(reply):
            self._responses.track(reply)

    def subscriptions_exceeded(self) -> None:
        self.error(_TOO_MANY_SUBSCRIPTIONS)

    def _violate(self, what: str) -> None:
        self.link.send(f"-ERR 'Permissions Violation for {what}'\r\n".encode())

    # -- liveness ---------------------------------------------------------------------------------

    def _disarm(self) -> None:
        if self._deadline:
            self._server.deadlines.drop(self, self._deadline)
            self._deadline = 0

    def _arm(self, seconds: float, due: Callable[[], object]) -> None:
        self._disarm()
        self._deadline = self._server.deadlines.set(self, seconds, due)

    def _arm_first_ping(self) -> None:
        """Up to a fifth later than it should be: clients that came all at once are not asked all at once."""
        first = min(limits.FIRST_PING_DELAY, self.access.ping_interval)
        self._arm(first * (1 + self.cid % 256 / 1280), self._ping_due)

    def _ping_due(self) -> None:
        """Sends a PING unless the client was heard of, or gives it up."""
        options = self._server.options
        interval = self.access.ping_interval
        interval_ns = int(interval * 1e9)
        is_idle = monotonic_ns() - self.link.last_activity >= interval_ns
        if self.rtt_ns == 0 or is_idle or self._pings_out:
            if self._pings_out + 1 > options.ping_max:
                self.debug("Stale Client Connection - Closing")
                self._server.clients.stale_connections += 1
                self.refuse("Stale Connection", CloseReason.STALE_CONNECTION)
                return
            self._pings_out += 1
            self._ping_sent_ns = monotonic_ns()
            self.debug("Client Ping Timer")
            self.link.send(b"PING\r\n")
            self._server.after_tick()
        self._arm(interval, self._ping_due)

    # -- closing ----------------------------------------------------------------------------------

    def refuse(self, text: str, reason: CloseReason) -> None:
        """-ERR, then close."""
        self.link.send(f"-ERR '{text}'\r\n".encode())
        self.link.doom(reason)
        self._server.after_tick()

    def reject(self) -> None:
        """Whoever it is, it may not be here (any more)."""
        self.error(f"authentication error{claimed_user(self.options)}")
        self.refuse(AUTHORIZATION_VIOLATION, self.refusal)
        self._server.system.events.refused(self, self.refusal.text)

    def refuse_place(self) -> None:
        """The account has more connections than it may have."""
        self.error(_TOO_MANY_IN_ACCOUNT)
        self.refuse(_TOO_MANY_IN_ACCOUNT, CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED)

    @property
    def party(self) -> ClientSession:
        """With whom the server ends the connection."""
        return self

    @property
    def write_deadline(self) -> float:
        """Seconds."""
        return self._server.options.write_deadline

    def count_slow(self) -> None:
        """It did not take its messages as fast as they came."""
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
        self._leave()
        self._server.clients.admission.leave(self)
        self.close_reason = reason
        self.stop_ns = time_ns()
        self._disarm()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if reason in _REFUSED_BY_ENGINE:
            self.error(_REFUSED_BY_ENGINE[reason])
        self.debug(f"Client connection closed: {reason.text}")

    # -- words ------------------------------------------------------------------------------------

    @property
    def client_type(self) -> str:
        """What kind of client it is, as monitoring and services are told."""
        return "nats" if self.connection_type == "STANDARD" else self.connection_type.lower()

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


def _tighter(first: int, second: int) -> int:
    """The smaller one of two limits, of which -1 is none."""
    return max(first, second) if _UNLIMITED in (first, second) else min(first, second)
