"""The rare ops of one client, which the engine hands over: CONNECT, the questions of permission, errors.

The list is at the head of `engine/client.pyx`; what happens per message is the engine's. Never lives here:
the life of the connection (`session`), who a client is (`auth`, `authorizer`).
Source: client protocol specification, sections 2, 3 and 8.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from headrace.core.tracing import ConnectionKind, TracedConnection
from headrace.engine.reasons import CloseReason
from headrace.errors import ProtocolError
from headrace.protocol import nkeys
from headrace.protocol.info import PROTOCOL_WITH_ASYNC_INFO
from headrace.server.account_membership import TOO_MANY_SUBSCRIPTIONS, keep_to_limits, refuse_place
from headrace.server.client_permissions import REFUSED
from headrace.server.connection_log import ConnectionLog
from headrace.server.log_text import quoted, redacted_connect, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.protocol.info import ClientConnect
    from headrace.server.auth import Identity
    from headrace.server.port import SessionHost
    from headrace.server.session import ClientSession

    # A function: what a task has not begun when it is cancelled must not have been made.
    _Decision: TypeAlias = Callable[[], Coroutine[object, object, Identity | None]]


class ClientOps(ConnectionLog):
    """The session of a link, as the engine calls it; `connection` is the client's own.

    `cid`: the number of the client, which older routes are told with its subscriptions.
    """

    __slots__ = ("_server", "cid", "connection")

    _server: SessionHost

    def __init__(self, server: SessionHost, session: ClientSession) -> None:
        self._server = server
        self.connection = session
        self.cid = session.cid

    @property
    def address(self) -> str:
        """The host at the other end."""
        return self.connection.address

    @property
    def label(self) -> str:
        """The head of this client's log lines."""
        return self.connection.label

    # -- CONNECT ----------------------------------------------------------------------------------

    def connect(self, text: bytes) -> None:
        """CONNECT, the first or a later one."""
        session = self.connection
        try:
            options = session.options.merged(text).completed(session.stand_ins)
        except ProtocolError as problem:
            self.error(f"parse error: {problem}")
            session.link.doom(CloseReason.PROTOCOL_VIOLATION)
            return
        if not session.estimated_rtt_ns:
            session.estimated_rtt_ns = time_ns() - session.start_ns
        if session.link.traced:
            self._trace_line("<<-", f"CONNECT {redacted_connect(text)}")
        self._judge(options)

    def _judge(self, options: ClientConnect) -> None:
        """Decide about the credentials of a CONNECT, now or later."""
        session = self.connection
        if session.is_connected or not self._is_nobody:
            session.link.drop_subscriptions()
        if options.account or options.new_account:
            self._authentication_failed(options)
        elif options.proxy_sig and self._server.options.trusted_proxies and not self._is_passed_on(options):
            self.debug("proxy is not trusted")
            session.refusal = CloseReason.PROXY_NOT_TRUSTED
            self._authentication_failed(options)
        elif self._server.authorizer is not None:
            session.disarm()  # who asks others about a client does not wait for them for ever
            self._decide_later(options, partial(self._server.authorizer.identity, session, options))
        elif session.credentials.is_slow(options):
            self._decide_later(options, partial(session.credentials.in_thread, options))
        else:
            self._authenticated(options, session.credentials.authenticate(options))

    def _is_passed_on(self, options: ClientConnect) -> bool:
        """True if a trusted proxy signed for this connection."""
        keys, signature, nonce = (
            self._server.options.trusted_proxies,
            options.proxy_sig,
            self.connection.credentials.nonce,
        )
        found = (key for key in keys if nkeys.verify_signature(key, nonce, signature))
        self.connection.proxy_key = next(found, "")
        return bool(self.connection.proxy_key)

    def _decide_later(self, options: ClientConnect, decision: _Decision) -> None:
        self.connection.is_undecided = True
        self.connection.link.hold()
        self._server.tasks.run(self._decided(options, decision))

    async def _decided(self, options: ClientConnect, decision: _Decision) -> None:
        session = self.connection
        try:
            identity = await decision()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody is let in by it, or left waiting
            self.failed(error)
            self._server.ticks.wake()
            return
        finally:
            session.is_undecided = False
        if session.is_closed or session.link.is_closing:
            return
        self._authenticated(options, identity)
        session.go_on()

    def _authenticated(self, options: ClientConnect, identity: Identity | None) -> None:
        session = self.connection
        if identity is not None and identity.proxy_required and not session.proxy_key:
            self.debug("proxy connection required")
            session.refusal = CloseReason.PROXY_REQUIRED
            identity = None
        if identity is None:
            self._authentication_failed(options)
            return
        session.options = self._renamed(options, identity)
        if self._enters(identity):
            self._begin(identity)

    def _begin(self, identity: Identity) -> None:
        """Serve a client that has a place in its account, by what it asks for in its CONNECT."""
        session, options = self.connection, self.connection.options
        if not 0 <= options.protocol <= PROTOCOL_WITH_ASYNC_INFO:
            self.error("invalid client protocol")
            session.refuse("invalid client protocol", CloseReason.BAD_CLIENT_PROTOCOL_VERSION)
            return
        has_headers = options.headers and not self._server.options.no_header_support
        if options.no_responders and not has_headers:
            self.error("no responders requires headers support")
            session.refuse(
                "no responders requires headers support", CloseReason.NO_RESPONDERS_REQUIRES_HEADERS
            )
            return
        session.let_in(identity)
        session.link.configure(
            verbose=options.verbose,
            pedantic=options.pedantic,
            echo=options.echo,
            headers=has_headers,
            no_responders=options.no_responders,
            info_on_ping=not session.has_pinged,
        )
        if options.verbose:
            session.link.send(b"+OK\r\n")
        self._server.events.connected(session)

    def _renamed(self, options: ClientConnect, identity: Identity) -> ClientConnect:
        """CONNECT with the user that a certificate or a callout found in place of the one it named."""
        if identity.token is not None:
            if identity.user in (None, identity.token.user, options.nkey, options.user):
                return options
        elif self.connection.credentials.mapped_certificates is None or options.nkey:
            return options
        elif options.user:
            text = f"User {quoted(options.user)} found in connect proto, but user required from cert"
            self._server.log.warning("%s", text)
        return replace(options, user=identity.user or "", nkey="", auth_token="")

    def _authentication_failed(self, options: ClientConnect) -> None:
        session = self.connection
        session.options = options  # monitoring shows who it said it was
        default = self._server.accounts.default
        if session.account is not default:
            token = session.identity.token if session.identity is not None else None
            session.membership.leave()
            session.membership.enter(default, token)
        session.reject()

    @property
    def _is_nobody(self) -> bool:
        """True if no credentials were asked for and none given: the one case where CONNECT keeps
        subscriptions."""
        identity = self.connection.identity
        return identity is not None and identity.user is None

    def _enters(self, identity: Identity) -> bool:
        """Take a place in the account of an identity, if its limits leave one. Subscriptions are gone."""
        session, account = self.connection, self._server.accounts[identity.account]
        if account is not session.account:
            session.membership.leave()
            session.identity = identity  # monitoring shows where it wanted to
            if account.is_full:
                refuse_place(session)
                return False
            session.membership.enter(account, identity.token)
            return keep_to_limits(session)
        session.identity = identity
        return identity.token is None or keep_to_limits(session)

    def op_before_connect(self) -> None:
        """Let a client in that sends another op where CONNECT was due, or not."""
        session, access = self.connection, self.connection.access
        identity = access.authenticator.default_identity(access.connection_type)
        if identity is None or self._server.authorizer is not None or access.maps_certificates:
            session.reject()
        elif self._enters(identity):
            session.permissions.restrict(session.link, identity.permissions)
            session.link.adopt()
            self._server.events.connected(session)

    # -- PING, PONG, -ERR and INFO ----------------------------------------------------------------

    def first_ping(self) -> None:
        """The first PING after CONNECT: who takes INFO at any time gets one with what CONNECT settled."""
        session = self.connection
        session.has_pinged = True
        if session.has_async_info:
            account = session.identity.account if session.identity else ""
            is_system = {"acc_is_sys": True} if account == self._server.accounts.system else {}
            changes = {"max_payload": session.link.max_payload, "remote_account": account, **is_system}
            session.link.send(session.words.info(session, connect_info=True, **changes))

    def pong(self) -> None:
        """Note a PONG: the client is there, and the round trip is measured."""
        session = self.connection
        session.pings_out = 0
        if session.ping_sent_ns:
            session.rtt_ns = session.estimated_rtt_ns = max(1, monotonic_ns() - session.ping_sent_ns)
            session.ping_sent_ns = 0

    def peer_error(self, text: bytes) -> None:
        """Log an -ERR of the client."""
        self.error(f"Client Error {shown(text)}")

    def peer_info(self, text: bytes) -> None:
        """Check an INFO of the client, of which nothing is taken over."""
        try:
            info = json.loads(text)
        except (ValueError, RecursionError) as problem:
            self.parse_failed(f"INFO is not valid JSON: {problem}")
            self.connection.link.doom(CloseReason.PROTOCOL_VIOLATION)
            return
        if info is not None and not isinstance(info, dict):
            self.parse_failed("INFO is not a JSON object")
            self.connection.link.doom(CloseReason.PROTOCOL_VIOLATION)

    def parse_failed(self, text: str) -> None:
        """Log a protocol error; the link is doomed already."""
        self.error(text)

    def failed(self, error: Exception) -> None:
        """End this connection because of a mistake of ours; the others go on."""
        self._say(logging.ERROR, "internal error", error)
        self.connection.link.doom(CloseReason.INTERNAL_ERROR)

    # -- permissions ------------------------------------------------------------------------------

    def subscribe_permission(self, subject: bytes, queue: bytes | None) -> int:
        """0 refused, which the client is told, 1 allowed, 2 allowed but each delivery is checked."""
        found = self.connection.permissions.subscribe_permission(subject, queue)
        if found == REFUSED:
            name = quoted(subject)
            self._violate(f"Subscription to {name}" + (f" using queue {quoted(queue)}" if queue else ""))
            self.error(
                f"Subscription Violation - Subject {name}" + (f", Queue: {quoted(queue)}" if queue else "")
            )
        return found

    def publish_refused(self, subject: bytes) -> bool:
        """True when the publication is a permitted response after all."""
        if self.connection.permissions.may_respond(subject):
            return True
        self.refuse_publish(subject)
        return False

    def reply_refused(self, reply: bytes) -> None:
        """Tell the client that its publication has a reserved reply subject."""
        self._violate(f"Publish with Reply of {quoted(reply)}")
        self.error(f"Publish Violation - Reply {quoted(reply)}")

    def note_reply(self, reply: bytes) -> None:
        """Permit responses to a message that is being delivered."""
        self.connection.permissions.note_reply(reply)

    def subscriptions_exceeded(self) -> None:
        """Log that a subscription was one too many, which the client was told."""
        self.error(TOO_MANY_SUBSCRIPTIONS)

    def _violate(self, what: str) -> None:
        session = self.connection
        session.link.send(session.words.complaint(f"Permissions Violation for {what}"))

    # -- for services -----------------------------------------------------------------------------

    def request_info(self, shares: bool, service: str | None, names_server: bool) -> bytes | None:
        """Describe who asks to a service of another account. `service`: the account it passed last."""
        from headrace.server.requester import request_info  # only who imports services pays for loading it

        session = self.connection
        account = session.account.name if session.account else ""
        server = self._server.name if names_server else None
        return request_info(session, account=account, shares=shares, service=service, server=server)

    def publisher_info(self) -> bytes | None:
        """The account and the user that it has proved to be, for services that keep users apart.

        For the system account, whose commands are logged with who asked, the number of the connection, too.
        """
        identity = self.connection.identity
        if identity is None or identity.proven is None:
            return None
        fields: dict[str, object] = {"acc": identity.account, "user": identity.proven}
        if identity.account == self._server.accounts.system:
            fields["id"] = self.cid
        return json.dumps(fields).encode()

    # -- traces of messages -----------------------------------------------------------------------

    @property
    def traced_connection(self) -> TracedConnection:
        """The client as traces name it."""
        return TracedConnection(ConnectionKind.CLIENT, self.connection.cid, self.connection.options.name)

    def may_trace_to(self, dest: bytes) -> bool:
        """True if traces of its messages may be published there."""
        return self.connection.permissions.may_trace_to(dest)

    def refuse_publish(self, subject: bytes) -> None:
        """Tell the client that it may not publish there."""
        self._violate(f"Publish to {quoted(subject)}")
        self.error(f"Publish Violation - Subject {quoted(subject)}")
