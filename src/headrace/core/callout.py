"""A callout: a service that decides who a connecting user is, and is asked by message.

Here live the question, the reading of the answer, and what the answer grants, for a service that the
configuration names (`ConfiguredCallout`) or an account's token (`OperatorCallout`). Never lives here:
sending, waiting, the lookup of the account that the answer names (the caller does it between `answer` and
`identity`).

A question is a token that the server signs; it names a user key made for this connection only, and the
answer must be about that key and for this server, so that no answer is good for another connection. Where
there is a curve key the question is encrypted for it, and the answer may be encrypted for the server's.
As in the Go server, an answer's limits of payload, subscriptions and source networks are not applied, and of
its connection types only that they are known.
Source: nats-server 2.15.1, in whose order the checks come, and whose words for a refusal these are.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from headrace.conf.account_options import Permissions, SubjectPermission
from headrace.core.grants import (
    Home,
    ProxyRequired,
    Refused,
    end_of,
    identity_of,
    known_connection_types,
    limits_of,
    shown,
)
from headrace.protocol.jwt import rules
from headrace.protocol.jwt.claims import (
    EVERYBODY,
    NO_LIMIT,
    AuthorizationRequestClaims,
    ConnectClaims,
)
from headrace.protocol.jwt.decoding import (
    MAX_TOKEN,
    JWTError,
    decode_authorization_response,
    decode_user,
)
from headrace.protocol.jwt.encoding import encode
from headrace.protocol.keypairs import SEALED_EXTRA, SealError
from headrace.protocol.nkeys import KeyKind, encode_public
from headrace.structures import Discreet

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.account_options import CalloutOptions
    from headrace.core.grants import TokenIdentity, TrustedAccount
    from headrace.protocol.info import ClientConnect
    from headrace.protocol.jwt.claims import (
        AuthorizationResponseClaims,
        ClientClaims,
        ServerClaims,
        TLSClaims,
        UserClaims,
        UserLimitClaims,
    )
    from headrace.protocol.keypairs import CurveKeyPair, SigningKeyPair

SUBJECT: Final = "$SYS.REQ.USER.AUTH"
"""The subject of questions, in the callout's account; no user of the account may publish to it."""

AUDIENCE: Final = "nats-authorization-request"
CURVE_KEY_HEADER: Final = "Nats-Server-Xkey"
"""The header of an encrypted question, with the public key that encrypted it."""

_TOKEN_BEGINS: Final = b"eyJ"
_KEY_BYTES: Final = 32
_GLOBAL_ACCOUNT: Final = "$G"


class Callout(Protocol):
    """A callout. `account` is that in which its service listens, `subject` the addressee of its questions."""

    account: str
    subject: str
    curve_key: str
    """Questions are encrypted for it; "" if they are not."""

    def check_response_signer(self, response: AuthorizationResponseClaims) -> None:
        """Check the signer of an (unencrypted) answer.

        Raises: Refused if it does not speak for the account.
        """

    def placement(self, user: UserClaims) -> str:
        """The account that the answer puts this user in. Raises: Refused if it may not."""


class ConfiguredCallout:
    """The service that `auth_callout` names; accounts have names, and are those of the configuration."""

    def __init__(self, options: CalloutOptions) -> None:
        self.account = options.account
        self.subject = options.issuer
        self.curve_key = options.curve_key or ""
        self._options = options

    def decides_about(self, user: str, account: str) -> bool:
        """True if the service is asked about a connection, whatever the configuration says of its
        credentials.

        `user`: the configured user whose credentials these are, or if they are nobody's, `claimed_user`: who
        pretends to be the service is refused, and not asked about. `account`: that user's, or "$G".
        """
        options = self._options
        if (
            account != _GLOBAL_ACCOUNT
            and options.allowed_accounts
            and account not in options.allowed_accounts
        ):
            return False
        return user not in options.users

    def check_response_signer(self, response: AuthorizationResponseClaims) -> None:
        if response.issuer != self._options.issuer:
            raise Refused(_sentence("auth callout signing key is unknown"))

    def placement(self, user: UserClaims) -> str:
        """The user's audience. Raises: Refused for a user of another issuer."""
        if user.issuer_account:
            where = f"error non operator mode account {_quoted(self.account)}"
            raise Refused(_sentence(f"{where}: attempted to use issuer_account"))
        if user.issuer != self._options.issuer:
            where = f"wrong issuer for auth callout response on account {_quoted(self.account)}"
            raise Refused(
                _sentence(f"{where}, expected {_quoted(self._options.issuer)} got {_quoted(user.issuer)}")
            )
        return user.audience

    def identity(self, user: UserClaims, now: float) -> TokenIdentity:
        """Return the identity of a user in the account that `placement` names; the account may not exist.

        As in the Go server, default permissions of a configured account are for configured users only.
        Units: `now` is seconds since 1970.
        Raises: Refused.
        """
        name = self.placement(user)
        expires_at = _times(user, now, self.account)
        return identity_of(user, _unlimited(user.limits), Home(name, name), expires_at)


class OperatorCallout:
    """The service of an account whose token says so (`authorization`); accounts have public keys."""

    def __init__(self, account: TrustedAccount) -> None:
        self.account = account.key
        self.subject = account.key
        self.curve_key = account.claims.callout.curve_key
        self._account = account
        self._callout = account.claims.callout

    @staticmethod
    def is_wanted(account: TrustedAccount) -> bool:
        return bool(account.claims.callout.users)

    def decides_about(self, identity: TokenIdentity) -> bool:
        """True if the service is asked about this user of its account.

        Users whom `Trust` refuses are not asked about.

        The Go server publishes a question about the latter where no service hears it, and refuses them when
        no answer has come in time.
        """
        return identity.user not in self._callout.users

    def check_response_signer(self, response: AuthorizationResponseClaims) -> None:
        if response.issuer_account not in ("", self.account):
            where = f"auth callout response issuer account {_quoted(response.issuer_account)}"
            raise Refused(_sentence(f"{where} is not the callout account"))
        if response.issuer != self.account and response.issuer not in self._account.signers:
            raise Refused(_sentence("auth callout signing key is unknown"))

    def placement(self, user: UserClaims) -> str:
        """The account that signed the user: this one, or one that its token allows. Raises: Refused."""
        allowed = self._callout.allowed_accounts
        if user.account != self.account and allowed != (EVERYBODY,) and user.account not in allowed:
            raise Refused(
                _sentence(
                    f"account {_quoted(user.issuer)} not permitted as valid account option "
                    f"for auth callout for account {_quoted(self.account)}"
                )
            )
        return user.account

    def identity(self, user: UserClaims, target: TrustedAccount, now: float) -> TokenIdentity:
        """Return the identity of a user in the account that `placement` named. Raises: Refused.

        Units: `now` is seconds since 1970.
        """
        if target.key != self.placement(user):
            raise ValueError("another account than the answer names")
        # The hours that count are the user's own, before a scope replaces them.
        expires_at = _times(user, now, self.account)
        if user.issuer not in target.signers:
            raise Refused(_sentence(f"user JWT issuer {_quoted(user.issuer)} is not known"))
        return identity_of(user, _unlimited(limits_of(user, target)), Home.of(target), expires_at)


class CalloutRequest(Discreet, frozen=True):
    """A question for `SUBJECT`, with its headers, and the user key that the answer must be about."""

    HIDDEN = frozenset({"payload"})

    payload: bytes
    headers: tuple[tuple[str, str], ...]
    user_key: str


class Interviewer:
    """Asks in the name of one server.

    `server` says who that is but for its keys, which come from `key` (its public half is the server's id)
    and `curve`. `now`: seconds since 1970.
    """

    def __init__(
        self,
        server: ServerClaims,
        key: SigningKeyPair,
        curve: CurveKeyPair,
        now: Callable[[], float] = time.time,
    ) -> None:
        if key.kind is not KeyKind.SERVER:
            raise ValueError("a server signs with a key of a server")
        self._server = replace(server, server_id=key.public)
        self._key = key
        self._curve = curve
        self._now = now

    def question(
        self,
        callout: Callout,
        client: ClientClaims,
        connect: ConnectClaims,
        *,
        timeout: float,
        tls: TLSClaims | None = None,
    ) -> CalloutRequest:
        """One about this connection, good for `timeout` seconds.

        Raises: Refused if it cannot be made: too large, or the callout's curve key is no good.
        """
        # Nobody needs the private half, see `nkeys.new_server_id`.
        user_key = encode_public(KeyKind.USER, secrets.token_bytes(_KEY_BYTES))
        now = self._now()
        claims = AuthorizationRequestClaims(
            subject=callout.subject,
            audience=AUDIENCE,
            expires=int(now + timeout),
            server=replace(self._server, curve_key=self._curve.public if callout.curve_key else ""),
            user_nkey=user_key,
            client=client if connect.signature else replace(client, nonce=""),
            connect=connect,
            tls=tls,
        )
        try:
            payload = encode(claims, self._key, now).encode()
            if not callout.curve_key:
                return CalloutRequest(payload, (), user_key)
            sealed = self._curve.seal(payload, callout.curve_key)
        except JWTError as error:
            where = f"on account {_quoted(callout.account)}"
            raise Refused(f"Error encoding auth request claim {where}: {error}") from None
        except SealError as error:
            where = f"on account {_quoted(callout.account)}"
            raise Refused(f"Error encrypting auth request claim {where}: {error}") from None
        return CalloutRequest(sealed, ((CURVE_KEY_HEADER, self._curve.public),), user_key)

    def answer(
        self,
        callout: Callout,
        question: CalloutRequest,
        payload: bytes,
        *,
        proxy_required: bool = False,
        by_trusted_proxy: bool = False,
    ) -> UserClaims:
        """The user that the service answered with; `callout.placement` names the account.

        `proxy_required`: the token that the client came with says so.
        Raises: Refused if the service refused the user, or the answer is not one to this question.
        """
        user = self._user(callout, question, payload)
        if (proxy_required or user.limits.proxy_required) and not by_trusted_proxy:
            raise ProxyRequired(_sentence("proxy connection required"))
        issues = rules.user_issues(user, self._now())
        if issues:
            raise Refused(f"Error validating user JWT: {shown(issues[0])}")
        if user.subject != question.user_key:
            where = f"but got {_quoted(user.subject)} on account {_quoted(callout.account)}"
            raise Refused(f"Expected authorized user of {_quoted(question.user_key)} {where}")
        _times(user, self._now(), callout.account)
        try:
            known_connection_types(user.limits)
        except Refused:
            where = f"authorized user on account {_quoted(callout.account)}"
            raise Refused(_sentence(f"{where} using invalid connection type")) from None
        return user

    def _user(self, callout: Callout, question: CalloutRequest, payload: bytes) -> UserClaims:
        if not payload:
            where = f"on account {_quoted(callout.account)}"
            raise Refused(_sentence(f'auth callout violation: "no reason supplied" {where}'))
        token, was_encrypted = self._opened(callout, payload)
        try:
            response = decode_authorization_response(token)
            _check_response(response, question.user_key, self._key.public, self._now())
            if not was_encrypted:
                callout.check_response_signer(response)
            if response.error:  # of the service: what a stranger says is not repeated
                raise Refused(_sentence(f"auth callout service returned an error: {shown(response.error)}"))
            return decode_user(response.jwt)
        except JWTError as error:
            raise Refused(_sentence(str(error))) from None

    def _opened(self, callout: Callout, payload: bytes) -> tuple[str, bool]:
        if len(payload) > MAX_TOKEN + SEALED_EXTRA:
            raise Refused("The auth callout response is too large for a token")
        encrypted = bool(callout.curve_key) and not payload.startswith(_TOKEN_BEGINS)
        if encrypted:
            try:
                payload = self._curve.open(payload, callout.curve_key)
            except SealError as error:
                where = f"on account {_quoted(callout.account)}"
                raise Refused(f"Error decrypting auth callout response {where}: {error}") from None
        try:
            return payload.decode("ascii"), encrypted
        except UnicodeDecodeError:
            raise Refused("The auth callout response is no token") from None


def claimed_user(connect: ClientConnect, token: str = "", key: str = "") -> str:
    """Return the name that the client gives itself; a question uses it.

    In operator mode, `token` is the user token (the client's, or the default sentinel) and `key` the public
    key of its user. Without operator mode tokens mean nothing.
    """
    if connect.nkey or connect.user:
        return connect.nkey or connect.user
    if token:
        return key
    return "[REDACTED]" if connect.auth_token else ""


def connect_claims(connect: ClientConnect, token: str = "") -> ConnectClaims:
    """Return the part of a client's CONNECT for a question: its credentials, which the service checks.

    `token` as for `claimed_user`.
    """
    return ConnectClaims(
        jwt=token,
        nkey=connect.nkey,
        signature=connect.sig,
        token=connect.auth_token,
        user=connect.user,
        password=connect.password,
        name=connect.name,
        lang=connect.lang,
        version=connect.version,
        protocol=connect.protocol,
    )


def without_asking(permissions: Permissions | None) -> Permissions:
    """Return permissions that also refuse to publish questions: for all users in a callout's account."""
    permissions = permissions or Permissions()
    publish = permissions.publish or SubjectPermission()
    return replace(permissions, publish=replace(publish, deny=(*publish.deny, SUBJECT)))


def _check_response(response: AuthorizationResponseClaims, user_key: str, server_id: str, now: float) -> None:
    issues = rules.response_issues(response, now)
    if issues:
        raise Refused(_sentence(f"authorization response had validation errors: {shown(issues[0])}"))
    if response.subject != user_key:
        reason = "auth callout response is not for expected user"
        raise Refused(_sentence(f"auth callout violation: {reason}"))
    if response.audience != server_id:
        raise Refused(_sentence("auth callout violation: auth callout response is not for server"))


def _times(user: UserClaims, now: float, account: str) -> float | None:
    try:
        return end_of(user, user.limits, now)
    except Refused:
        where = f"authorized user on account {_quoted(account)}"
        raise Refused(_sentence(f"{where} outside of valid connect times")) from None


def _unlimited(user_limits: UserLimitClaims) -> UserLimitClaims:
    return replace(user_limits, subscriptions=NO_LIMIT, payload=NO_LIMIT)


def _quoted(name: str) -> str:
    return json.dumps(shown(name), ensure_ascii=False)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
