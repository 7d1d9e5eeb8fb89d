"""Authentication of leaf nodes: by users of `leafnodes { authorization }`, else as clients are.

Here lives the way from a CONNECT to a grant. Never lives here: what a grant permits, the wire.
Source: nats-server 2.15.1.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from headrace.cluster.leaf_port import LeafGrant
from headrace.conf.account_options import ConnectionType
from headrace.engine.reasons import CloseReason
from headrace.protocol import nkeys
from headrace.protocol.info import ClientConnect
from headrace.server import passwords
from headrace.server.auth import CredentialCheck

if TYPE_CHECKING:
    from headrace.cluster.leaf import LeafSession
    from headrace.conf.leaf_options import LeafAuthorization, LeafNodeOptions
    from headrace.core.accounts import Accounts
    from headrace.core.grants import TokenIdentity
    from headrace.server.auth import Authenticator, Identity
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.port import Authorizer

    class LeafUsersServer(Protocol):
        """A server with the users that leaf nodes may be."""

        @property
        def accounts(self) -> Accounts: ...
        @property
        def authenticator(self) -> Authenticator: ...
        @property
        def authorizer(self) -> Authorizer | None: ...


_TYPE: Final = ConnectionType.LEAFNODE
_OVER_WEBSOCKET: Final = ConnectionType.LEAFNODE_WS


class LeafApplicant:
    """One leaf node that wants in, as those who decide about clients (`authorizer`, `auth`) see one."""

    kind = "leafnode"
    proxy_key = ""

    def __init__(self, server: LeafUsersServer, options: LeafNodeOptions, session: LeafSession) -> None:
        self._server = server
        self._options = options
        self._wire = cast("PeerConnection[LeafSession]", session.wire)
        self.connection_type: Final = (_OVER_WEBSOCKET if self._wire.is_of_websocket_port else _TYPE).value
        self.cid: Final = self._wire.number
        self.address: Final = self._wire.address
        self.tls_version: Final = self._wire.tls_version
        self.tls_cipher: Final = self._wire.tls_cipher
        self.credentials: Final = CredentialCheck(self, session.nonce.encode())
        self.credentials.peer_certificates = self._wire.peer_certificates
        self.refusal = CloseReason.AUTHENTICATION_VIOLATION
        self.token: TokenIdentity | None = None

    @property
    def access(self) -> LeafApplicant:
        """The rules of the port at which the leaf node connects: this object has them, too."""
        return self

    @property
    def authenticator(self) -> Authenticator:
        return self._server.authenticator

    @property
    def maps_certificates(self) -> bool:
        """True if a leaf node's certificate says who it is (`verify_and_map`)."""
        tls = self._options.tls
        return tls is not None and tls.verify_and_map

    def debug(self, text: str) -> None:
        self._wire.debug(text)

    def error(self, text: str) -> None:
        self._wire.error(text)

    # -- the decision -----------------------------------------------------------------------------

    async def decide(self, text: bytes) -> LeafGrant | None:
        """Decide about the CONNECT of a leaf node; None: it is refused.

        Raises: ProtocolError for fields of wrong types.
        """
        connect = ClientConnect().merged(text)
        authorization = self._options.authorization
        if authorization.has_users:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, self._listed, authorization, connect)
        identity = await self._identity(connect)
        if identity is None or self._is_anybody(identity):
            return None if identity is None else self._granted(LeafGrant(authorization.account), connect)
        if identity.proxy_required:
            self.debug("proxy connection required")
            return None
        self.token = identity.token
        permissions = None if identity.permissions is None else identity.permissions.given
        return self._granted(LeafGrant(identity.account, permissions, identity.user or ""), connect)

    async def _identity(self, connect: ClientConnect) -> Identity | None:
        if self._server.authorizer is not None:
            return await self._server.authorizer.identity(self, connect)
        return await self.credentials.check(connect)

    def _is_anybody(self, identity: Identity) -> bool:
        """True if no credentials are needed here."""
        return self._server.authorizer is None and not self.authenticator.has_users and identity.token is None

    def _granted(self, grant: LeafGrant, connect: ClientConnect) -> LeafGrant | None:
        if grant.account in self._server.accounts:
            return grant
        user = connect.nkey or connect.user
        self.error(f'authentication of user "{user}" failed, unable to lookup account "{grant.account}"')
        return None

    def _listed(self, authorization: LeafAuthorization, connect: ClientConnect) -> LeafGrant | None:
        """One of the users for leaf nodes only. Cost: that of bcrypt, so it is called in a thread."""
        if authorization.nkey:
            is_right = connect.nkey == authorization.nkey and nkeys.verify_signature(
                connect.nkey, self.credentials.nonce, connect.sig
            )
            return (
                self._granted(LeafGrant(authorization.account, user=connect.nkey), connect)
                if is_right
                else None
            )
        if authorization.user:
            users = {authorization.user: (authorization.password or "", authorization.account, False)}
        else:
            users = {
                each.user: (each.password, each.account, each.proxy_required) for each in authorization.users
            }
        name = self._named(connect, tuple(users))
        found = users.get(name)
        if found is None or not passwords.matches(found[0], connect.password):
            return None
        if found[2] or authorization.proxy_required:
            self.debug("proxy connection required")
            return None
        return self._granted(LeafGrant(found[1], user=name), connect)

    def _named(self, connect: ClientConnect, users: tuple[str, ...]) -> str:
        certificates = self.credentials.mapped_certificates
        if certificates is None:
            return connect.user
        from headrace.core.certificate_names import mapped_user

        return (mapped_user(certificates[0], list(users)) if certificates else None) or ""
