"""Trust in operator mode: who a connecting user is, by its token.

Here lives the decision: the operator's keys sign accounts, an account's keys sign users, the user's key
signs the nonce. Never lives here: what tokens grant (`grants`), where account tokens come from (the caller
looks them up between `user` and `identity`), the wire, timers. Nothing is remembered but the configuration,
so that an account's new token holds from the next connection on.

A nonce belongs to one connection, so a signature seen on another is worth nothing.
Source: nats-server 2.15.1, in whose order the checks come, and whose words for a refusal these are.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.conf.account_options import ConnectionType
from headrace.core.grants import (
    Home,
    ProxyRequired,
    Refused,
    TrustedAccount,
    check_connection_type,
    end_of,
    identity_of,
    limits_of,
    permissions_of,
    shown,
)
from headrace.protocol import nkeys
from headrace.protocol.jwt import limits, rules
from headrace.protocol.jwt.claims import EVERYBODY
from headrace.protocol.jwt.decoding import JWTError, decode_account, decode_user

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from headrace.core.grants import TokenIdentity
    from headrace.protocol.jwt.claims import UserClaims


class Peer(Struct, frozen=True):
    """The other end of a connection: its address, the nonce it was sent and what it answered."""

    host: str
    nonce: bytes
    signature: str = ""
    connection_type: ConnectionType = ConnectionType.STANDARD
    by_trusted_proxy: bool = False


class Trust:
    """The operators that a server trusts.

    `keys`: public keys of operators and of their signing keys. `strict_keys`: those among them whose accounts
    sign with signing keys only. `pinned_accounts`: the only accounts to let in, None for all.
    `default_sentinel`: the token of who brings none, "" for nobody. `now`: seconds since 1970.
    """

    def __init__(
        self,
        keys: Collection[str],
        *,
        strict_keys: Collection[str] = (),
        pinned_accounts: Collection[str] | None = None,
        default_sentinel: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys = frozenset(keys)
        self._strict = frozenset(strict_keys)
        self._pinned = None if pinned_accounts is None else frozenset(pinned_accounts)
        self._sentinel = default_sentinel
        self._now = now

    def user(self, token: str, *, by_trusted_proxy: bool = False) -> UserClaims:
        """Check a user's token on its own, and return its claims; `account` names the user's account.

        Raises: Refused.
        """
        claims = self._decoded(token)
        if claims.limits.proxy_required and not by_trusted_proxy:
            raise ProxyRequired
        issues = rules.user_issues(claims, self._now())
        if issues:
            raise Refused(f"User JWT no longer valid: {shown('; '.join(issues))}")
        if self._pinned is not None and claims.account not in self._pinned:
            raise Refused(f"Account {claims.account} not listed as operator pinned account")
        return claims

    def account(self, key: str, token: str) -> TrustedAccount:
        """The account with this public key, as its token describes it.

        Costs a signature check; who keeps the result looks at its expiry, as `identity` does.
        Raises: Refused.
        """
        try:
            claims = decode_account(token)
        except JWTError as error:
            raise Refused(f"Account JWT lookup error: {error}") from None
        valid = claims.issuer in self._keys and claims.subject == key
        if not valid or rules.account_issues(claims, self._now()):
            raise Refused("Account JWT lookup error: account validation failed")
        signers = dict(claims.signing_keys)
        if claims.issuer not in self._strict:
            signers[claims.subject] = None
        permissions, _ = permissions_of(claims.default_permissions)
        return TrustedAccount(claims, signers, permissions)

    def identity(self, user: UserClaims, account: TrustedAccount, peer: Peer) -> TokenIdentity:
        """Return the identity of a user that `user` gave, in the account that it names.

        Raises: Refused.
        """
        if account.key != user.account:
            raise Refused("Account JWT lookup error: account validation failed")
        if account.claims.issuer not in self._keys:  # it was, before the operator's keys changed
            raise Refused("Account JWT not signed by trusted operator")
        user_limits = limits_of(user, account)
        now = self._now()
        if user_limits.proxy_required and not peer.by_trusted_proxy:
            raise ProxyRequired
        if account.claims.expires and account.claims.expires <= int(now):
            raise Refused("Account JWT has expired")
        if user_limits.bearer_token and account.claims.limits.disallow_bearer:
            raise Refused("Account does not allow bearer tokens")
        check_connection_type(user_limits, peer.connection_type)
        if not user_limits.bearer_token:
            _check_signature(user.subject, peer)
        if is_revoked(account.claims.revocations, user.subject, user.issued_at):
            raise Refused("User authentication revoked")
        if not limits.is_source_allowed(user_limits.source_networks or (), peer.host):
            raise Refused(f"Bad src Ip {peer.host}", is_error=True)
        expires_at = end_of(user, user_limits, now)
        return identity_of(user, user_limits, Home.of(account), expires_at)

    def identify(self, token: str, peer: Peer, lookup: Callable[[str], str]) -> TokenIdentity:
        """Decide about a user in all steps, for a `lookup` that has account tokens at hand: it gives one by
        public key.

        Raises: Refused, also for what `lookup` raises as LookupError.
        """
        user = self.user(token, by_trusted_proxy=peer.by_trusted_proxy)
        try:
            found = lookup(user.account)
        except LookupError as error:
            raise Refused(f"Account JWT lookup error: {error}") from None
        return self.identity(user, self.account(user.account, found), peer)

    def _decoded(self, token: str) -> UserClaims:
        try:
            return decode_user(token)
        except JWTError:
            if not self._sentinel:
                raise Refused("Authentication requires a user JWT") from None
        try:
            return decode_user(self._sentinel)
        except JWTError as error:
            raise Refused(f"User JWT not valid: {error}") from None


def is_revoked(revocations: Mapping[str, int], key: str, issued_at: int) -> bool:
    """True if a token that was issued to this key at this time is revoked, by its key or with all others."""
    return any(name in revocations and revocations[name] >= issued_at for name in (key, EVERYBODY))


def _check_signature(key: str, peer: Peer) -> None:
    if not peer.signature:
        raise Refused("Signature missing")
    if not nkeys.verify_signature(key, peer.nonce, peer.signature):
        raise Refused("Signature not verified")
