"""The authorizer of clients where the configuration does not decide: tokens, or a service that is asked.

Here lives the order of the questions for one CONNECT. Never lives here: the answers (`core.trust`,
`core.callout`, `auth`), accounts (`operator_mode`), the way of a question to its service (`callout_client`).
A server without operator and without callout has no such authorizer.
Source: nats-server 2.15.1.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from headrace.conf.account_options import ConnectionType
from headrace.core.callout import (
    ConfiguredCallout,
    Interviewer,
    OperatorCallout,
    claimed_user,
    connect_claims,
    without_asking,
)
from headrace.core.grants import ProxyRequired, Refused
from headrace.core.permissions import PermissionSet
from headrace.core.trust import Peer
from headrace.engine.reasons import CloseReason
from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.protocol.jwt.claims import ClientClaims, ServerClaims, UserClaims
from headrace.protocol.keypairs import CurveKeyPair, SigningKeyPair
from headrace.protocol.nkeys import KeyKind
from headrace.server.auth import Identity, authentication_timeout
from headrace.server.callout_client import CalloutClient, tls_claims
from headrace.server.claims_service import ClaimsService
from headrace.server.operator_mode import OperatorMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.conf.options import Options
    from headrace.core.grants import TokenIdentity
    from headrace.protocol.info import ClientConnect
    from headrace.server.port import Applicant
    from headrace.server.reauthorization import ClientsServer
    from headrace.server.system.service import SystemService

    class AuthorizerHost(ClientsServer, Protocol):
        """A server, as its authorizer sees it."""

        @property
        def name(self) -> str: ...
        @property
        def system(self) -> SystemService: ...


class ExternalAuthorizer:
    """The authorizer of one server that asks others.

    `server_id` and `curve_key` are public halves of pairs that were made for this run.
    """

    def __init__(self, server: AuthorizerHost) -> None:
        options = server.options
        self._server = server
        self._key = SigningKeyPair.generate(KeyKind.SERVER)
        self._curve = CurveKeyPair.generate()
        self.server_id: Final = self._key.public
        self.curve_key: Final = self._curve.public
        callout = options.authorization.callout
        self._configured = None if callout is None else ConfiguredCallout(callout)
        self.operator = None if options.operator is None else OperatorMode(server, options.operator)
        self._callouts: dict[str, CalloutClient] = {}
        self._interviewer: Interviewer | None = None
        self._claims: ClaimsService | None = None

    async def start(self) -> None:
        """Load the tokens of accounts. Raises: StartError if they cannot be had."""
        server = self._server
        described = ServerClaims(
            name=server.name,
            host=server.options.host,
            version=COMPATIBLE_VERSION,
            tags=server.options.server_tags,
        )
        self._interviewer = Interviewer(described, self._key, self._curve)
        if self.operator is not None:
            await self.operator.start()
            if server.accounts.system is not None and self.operator.resolver is not None:
                self._claims = ClaimsService(
                    server, self.operator, lambda: server.system.messages().server_info()
                )

    async def load(self, accounts: Iterable[str]) -> None:
        """Load these accounts, as far as there are tokens of them; the log says why others are not there."""
        if self.operator is None:
            return
        for key in accounts:
            try:
                await self.operator.account(key)
            except Refused as refused:
                self._server.log.warning("Account [%s] is not loaded: %s", key, refused)

    def use(self, options: Options) -> None:
        """The callout as it is configured now; who has been let in stays."""
        callout = options.authorization.callout
        self._configured = None if callout is None else ConfiguredCallout(callout)

    async def close(self) -> None:
        for callout in self._callouts.values():
            callout.close()
        self._callouts.clear()
        if self._claims is not None:
            self._claims.close()
        if self.operator is not None:
            await self.operator.close()

    async def identity(self, session: Applicant, connect: ClientConnect) -> Identity | None:
        """The identity of the client of a connection; None if it is refused, which is logged here then."""
        try:
            if self.operator is not None:
                return await self._by_token(self.operator, session, connect)
            return await self._by_configuration(session, connect)
        except Refused as refused:
            self._note_proxy(session, refused)
            (session.error if refused.is_error else session.debug)(str(refused))
            return None

    # -- configured users, and whoever the service knows ------------------------------------------

    async def _by_configuration(self, session: Applicant, connect: ClientConnect) -> Identity | None:
        callout = self._configured
        assert callout is not None
        identity = await self._checked(session, connect)
        user = (identity.user or "") if identity is not None else claimed_user(connect)
        account = identity.account if identity is not None else Identity().account
        if not callout.decides_about(user, account):
            return identity
        needs_proxy = identity is not None and identity.proxy_required
        answer = await self._asked(callout, session, connect, proxy_required=needs_proxy)
        if answer is None:
            return None
        try:
            place = callout.placement(answer)
            found = callout.identity(answer, time.time())
        except Refused as refused:
            self._warn(str(refused))
            return None
        if place not in self._server.accounts:
            self._warn(
                f'No valid account "{place}" for auth callout response on account '
                f'"{callout.account}": account missing'
            )
            return None
        return answered(found, callout.account, connect, answer)

    async def _checked(self, session: Applicant, connect: ClientConnect) -> Identity | None:
        """The identity that a client has by the configuration."""
        return await session.credentials.check(connect)

    # -- operator mode ----------------------------------------------------------------------------

    async def _by_token(
        self, operator: OperatorMode, session: Applicant, connect: ClientConnect
    ) -> Identity | None:
        peer = Peer(
            session.address,
            session.credentials.nonce,
            connect.sig,
            ConnectionType(session.access.connection_type),
            by_trusted_proxy=bool(session.proxy_key),
        )
        user = operator.trust.user(connect.jwt, by_trusted_proxy=peer.by_trusted_proxy)
        account = await operator.account(user.account)
        identity = operator.trust.identity(user, account, peer)
        if not OperatorCallout.is_wanted(account):
            return self._token_identity(session, identity, connect)
        callout = OperatorCallout(account)
        if not callout.decides_about(identity):
            permitted = without_asking(identity.permissions)
            return self._token_identity(session, replace(identity, permissions=permitted), connect)
        answer = await self._asked(callout, session, connect, user)
        if answer is None:
            return None
        try:
            target = await operator.account(callout.placement(answer))
            found = callout.identity(answer, target, time.time())
        except Refused as refused:
            self._warn(str(refused))
            return None
        return answered(found, callout.account, connect, answer)

    def _token_identity(self, session: Applicant, found: TokenIdentity, connect: ClientConnect) -> Identity:
        for subject in found.invalid_subjects:
            session.debug(f"User JWT with invalid subject {subject!r}")
        session.debug(
            f'Authenticated JWT: Client "{found.user}" (claim-name: "{found.user_name}") '
            f'signed with "{found.issuer}" by Account "{found.account}" (claim-name: "{found.account_name}")'
        )
        return _identity(found, connect.nkey or connect.user or found.user, found.user)

    # -- callouts ---------------------------------------------------------------------------------

    async def _asked(
        self,
        callout: ConfiguredCallout | OperatorCallout,
        session: Applicant,
        connect: ClientConnect,
        user: UserClaims | None = None,
        *,
        proxy_required: bool = False,
    ) -> UserClaims | None:
        """The user that the service answers with; None if it refuses, or says nothing in time.

        `user`: what the client's own token says, where tokens mean something.
        """
        assert self._interviewer is not None
        token = (connect.jwt or self._sentinel) if user is not None else ""
        client = ClientClaims(
            host=session.address,
            client_id=session.cid,
            user=claimed_user(connect, token, user.subject if user is not None else ""),
            name=connect.name,
            tags=user.tags if user is not None else (),
            name_tag=user.name if user is not None else "",
            kind="Client",
            connection_type=session.access.kind,
            nonce=session.credentials.nonce.decode(),
        )
        timeout = authentication_timeout(self._server.options)
        try:
            question = self._interviewer.question(
                callout, client, connect_claims(connect, token), timeout=timeout, tls=tls_claims(session)
            )
            payload = await self._desk(callout.account).ask(question, timeout)
            return self._interviewer.answer(
                callout,
                question,
                payload,
                proxy_required=proxy_required or (user is not None and user.limits.proxy_required),
                by_trusted_proxy=bool(session.proxy_key),
            )
        except TimeoutError:
            session.debug(
                f'Authorization callout response not received in time on account "{callout.account}"'
            )
            return None
        except Refused as refused:
            self._note_proxy(session, refused)
            self._warn(str(refused))
            return None

    @property
    def _sentinel(self) -> str:
        return self.operator.options.default_sentinel if self.operator is not None else ""

    def _note_proxy(self, session: Applicant, refused: Refused) -> None:
        if isinstance(refused, ProxyRequired):
            session.refusal = CloseReason.PROXY_REQUIRED

    def _warn(self, text: str) -> None:
        """The Go server's warning stands without the connection, and the client's own line follows."""
        self._server.log.warning("%s", text)

    def _desk(self, account: str) -> CalloutClient:
        callout = self._callouts.get(account)
        if callout is None:
            callout = self._callouts[account] = CalloutClient(self._server, self._server.accounts[account])
        return callout


def answered(found: TokenIdentity, asked_in: str, connect: ClientConnect, answer: UserClaims) -> Identity:
    """The identity that a callout's service answers for a client; it was asked in the account `asked_in`.

    The key in the answer is made for each question: only a name in it proves who the client is.
    """
    if found.account == asked_in:
        found = replace(found, permissions=without_asking(found.permissions))
    return _identity(found, answer.name or claimed_user(connect), answer.name or None)


def _identity(found: TokenIdentity, name: str, proven: str | None) -> Identity:
    permissions = None if found.permissions is None else PermissionSet(found.permissions)
    return Identity(name or None, permissions, found.account, found, proven=proven)
