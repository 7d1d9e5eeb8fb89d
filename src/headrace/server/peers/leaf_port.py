"""The server as its leaf links see it: who a leaf node is let in as, its limits, where others listen.

It keeps the contract `headrace.cluster.leaf_port.LeafPort`. Never lives here: sockets (`leafs`), how a user
is found (`leaf_users`).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from headrace import limits
from headrace.cluster.leaf import LeafSession
from headrace.cluster.port import Address
from headrace.engine.reasons import CloseReason
from headrace.errors import ProtocolError
from headrace.protocol.info import JETSTREAM_API_LEVEL
from headrace.protocol.seeds import SeedError
from headrace.protocol.user_seeds import prove, read_credentials
from headrace.server.account_membership import UNLIMITED, tighter
from headrace.server.peers.leaf_users import LeafApplicant
from headrace.server.peers.machine_port import MachinePort

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from headrace.cluster.leaf_port import LeafGrant
    from headrace.cluster.port import Wire
    from headrace.conf.leaf_options import LeafRemote
    from headrace.conf.peer_options import PeerURL
    from headrace.core.grants import TokenIdentity
    from headrace.protocol.peers import LeafConnect, PeerInfo
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.peers.leaf_users import LeafUsersServer
    from headrace.server.peers.leafs import LeafNodes
    from headrace.server.peers.port import PeersServer

    class LeafsServer(PeersServer, LeafUsersServer, Protocol):
        """A server, as its leaf nodes see it."""

        @property
        def cluster_name(self) -> str | None: ...


_ANSWERS = frozenset((b"_GR_.>", b"$GR.*.>"))
"""Subjects on which answers to requests of other clusters are published."""
_LONGEST_TIMER = 86_400.0
"""Seconds: timers are not made for years."""


class LeafsPort(MachinePort[LeafSession]):
    """The server as its leaf links see it, and the leaf nodes that it has let in."""

    _server: LeafsServer
    _host: LeafNodes

    def __init__(self, server: LeafsServer, host: LeafNodes) -> None:
        super().__init__(server, host)
        self._expiries: dict[LeafSession, asyncio.TimerHandle] = {}
        self._tokens: dict[LeafSession, TokenIdentity] = {}
        self._admitted: dict[LeafSession, tuple[bytes, LeafGrant]] = {}

    @property
    def has_headers(self) -> bool:
        return not self._server.options.no_header_support

    @property
    def cluster_name(self) -> str:
        return self._server.cluster_name or ""

    @property
    def system_account(self) -> str | None:
        return self._server.accounts.system

    def identity(self) -> PeerInfo:
        host = self._host
        jetstream, tls = self._server.options.jetstream, host.tls
        address = Address("", 0) if host.listener is None else host.advertised
        return replace(
            self._identity(address, has_users=True),
            ip=host.own_url,
            tls_verify=tls is not None and tls.verify,
            jetstream=jetstream is not None,
            domain=jetstream.domain if jetstream is not None else "",
            info_on_connect=True,
            leafnode_urls=host.urls,
            ws_connect_urls=host.websocket_urls,
            api_lvl=JETSTREAM_API_LEVEL,
        )

    def dial(
        self,
        remote: LeafRemote,
        url: PeerURL,
        connected: Callable[[Wire], LeafSession | None],
        failed: Callable[[str | None], object],
    ) -> None:
        self._host.reach(remote, url, connected, failed)

    def always_wanted(self, account: str) -> Iterable[bytes]:
        accounts = self._server.accounts
        if account not in accounts:
            return ()
        wanted = {mapping.source.encode() for mapping in accounts[account].options.mappings}
        if self._server.gateways is not None:
            wanted |= _ANSWERS
        return sorted(wanted)

    def has_room(self, account: str) -> bool:
        most = self._server.accounts[account].options.limits.max_leafnodes
        return most == UNLIMITED or self._server.accounts[account].leafnodes < most

    def proof(self, remote: LeafRemote, nonce: str) -> dict[str, str]:
        if remote.credentials is not None:
            try:
                text = Path(remote.credentials).expanduser().read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "not a text file"
                raise SeedError(f"cannot read {remote.credentials}: {reason}") from error
            jwt, seed = read_credentials(text, remote.credentials)
            return prove(seed, nonce, jwt=jwt)
        return {} if remote.nkey is None else prove(remote.nkey, nonce, where="the nkey")

    def request_info(
        self, session: LeafSession, *, shares: bool, service: str | None, names_server: bool
    ) -> bytes | None:
        from headrace.server.requester import leaf_request_info  # only who imports services loads it

        server = self._server.name if names_server else None
        return leaf_request_info(session, shares=shares, service=service, server=server)

    # -- the leaf nodes that are let in -----------------------------------------------------------

    def authenticate(
        self,
        session: LeafSession,
        text: bytes,
        given: LeafConnect,
        decided: Callable[[LeafGrant | None], None],
    ) -> None:
        self._server.tasks.run(self._authenticate(session, text, decided))

    async def _authenticate(
        self, session: LeafSession, text: bytes, decided: Callable[[LeafGrant | None], None]
    ) -> None:
        applicant = LeafApplicant(self._server, self._host.options, session)
        try:
            grant = await applicant.decide(text)
        except ProtocolError as problem:
            session.violates(str(problem))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody is let in by it, or left waiting
            session.failed(error)
            return
        if session.link.is_detached:
            return
        if grant is not None:
            self._admitted[session] = text, grant
            if applicant.token is not None:
                self._tokens[session] = applicant.token
        decided(grant)
        wire = self._connection_of(session)
        if wire is not None and wire.transport is not None and not session.link.is_held:
            wire.transport.resume()
        self._server.ticks.wake()

    def _connection_of(self, session: LeafSession) -> PeerConnection[LeafSession] | None:
        return next((each for each in self._host.connections if each.session is session), None)

    def judge_again(self) -> None:
        """Send away leaf nodes that would not be let in as who they are now: the users have changed.

        They may come back; leaf nodes do.
        """
        for session, (text, grant) in list(self._admitted.items()):
            self._server.tasks.run(self._judge(session, text, grant))

    async def _judge(self, session: LeafSession, text: bytes, grant: LeafGrant) -> None:
        found = await LeafApplicant(self._server, self._host.options, session).decide(text)
        if session in self._admitted and found != grant:
            if found is None:
                session.reject(grant.user)
            else:
                session.close(CloseReason.CLIENT_CLOSED)

    def registered(self, session: LeafSession) -> None:
        account = self._server.accounts[session.account]
        account.leafnodes += 1
        token = self._tokens.pop(session, None)
        options, of_account = self._server.options, account.options.limits
        payload = tighter(options.max_payload, of_account.max_payload)
        most = tighter(options.max_subscriptions or UNLIMITED, of_account.max_subscriptions)
        if token is not None:
            payload, most = tighter(payload, token.payload), tighter(most, token.subscriptions)
            if token.expires_at is not None:
                self._await_expiry(session, token.expires_at)
        session.link.limit(
            max_payload=payload,
            max_control_line=options.max_control_line * limits.ROUTE_CONTROL_LINES,
            max_subscriptions=max(most, 0),
        )

    def _await_expiry(self, session: LeafSession, expires_at: float) -> None:
        left = min(max(expires_at - time(), 0.0), _LONGEST_TIMER)
        self._expiries[session] = self.call_later(left, partial(self._expired, session, expires_at))

    def _expired(self, session: LeafSession, expires_at: float) -> None:
        if expires_at > time():
            self._await_expiry(session, expires_at)
        else:
            session.refuse("User Authentication Expired", CloseReason.AUTHENTICATION_EXPIRED)

    def ended(self, session: LeafSession) -> None:
        expiry = self._expiries.pop(session, None)
        if expiry is not None:
            expiry.cancel()
        if session.account in self._server.accounts:
            self._server.accounts[session.account].leafnodes -= 1

    def forget(self, session: LeafSession) -> None:
        self._tokens.pop(session, None)
        self._admitted.pop(session, None)
