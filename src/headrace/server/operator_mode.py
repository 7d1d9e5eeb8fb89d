"""Operator mode at work: accounts are loaded when somebody needs them, and change while clients are in them.

Here lives which accounts are known, by which token, and what becomes of connections when a token changes.
Never lives here: who is trusted (`core.trust`), what a token grants (`core.grants`, `core.claimed_accounts`),
where tokens are kept (`resolver`), requests to change them (`claims_service`).

Bounds: one account is loaded once at a time, with what it imports; lookups for accounts nobody can name come
to nothing and are not remembered. Source: nats-server 2.15.1.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.core.callout import OperatorCallout, without_asking
from headrace.core.claimed_accounts import claimed_account, without_imports
from headrace.core.grants import Refused, TrustedAccount, permissions_of
from headrace.core.trust import Trust, is_revoked
from headrace.engine.reasons import CloseReason
from headrace.errors import StartError
from headrace.protocol.jwt.claims import NO_LIMIT, AccountClaims, AccountLimitClaims
from headrace.server.account_membership import keep_to_limits, refuse_place
from headrace.server.reauthorization import drop_forbidden
from headrace.server.resolver import MemoryResolver, ResolverError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.conf.account_options import AccountOptions
    from headrace.conf.operator_options import OperatorOptions
    from headrace.core.grants import TokenIdentity
    from headrace.server.reauthorization import ClientsServer
    from headrace.server.resolver import Resolver
    from headrace.server.session import ClientSession

_LONGEST_SLEEP: Final = 86_400.0  # seconds; a loop's timers are not made for years
_BOOTSTRAP_INTERVAL: Final = 1.0  # seconds between looks for the system account's token

_ACCOUNT_EXPIRED: Final = "Account Authentication Expired"
_USER_REVOKED: Final = "User Authentication Revoked"


class _Known(Struct):
    """An account that is here. `token` is "" while a system account waits for its own."""

    account: TrustedAccount
    token: str
    is_expired: bool = False
    end: asyncio.TimerHandle | None = None
    change: asyncio.TimerHandle | None = None

    def forget_timers(self) -> None:
        for timer in (self.end, self.change):
            if timer is not None:
                timer.cancel()


class OperatorMode:
    """The accounts of the operators that a server trusts.

    `ask_others`: gives an account's token as other servers know it, when this server's directory does not.
    Raises: ConfigError for a token of the configuration that is none.
    """

    def __init__(self, server: ClientsServer, options: OperatorOptions) -> None:
        self._server = server
        self.options: Final = options
        self.resolver = make_resolver(options)
        self.trust = Trust(
            options.trusted_keys,
            strict_keys=options.strict_keys,
            pinned_accounts=options.pinned_accounts,
            default_sentinel=options.default_sentinel,
        )
        self._known: dict[str, _Known] = {}
        self._importers: defaultdict[str, set[str]] = defaultdict(set)
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._changes = asyncio.Lock()
        self.ask_others: Callable[[str], Any] | None = None

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the tokens of the configuration.

        Raises: StartError if none can be had, or the system account's is missing.
        """
        if self.resolver is None:
            return
        await self.resolver.start()
        directory = self._directory()
        if directory is not None:
            directory.on_expired = self.forget
            directory.on_trouble = lambda text: self._server.log.error("DirResolver - %s", text)
        key = self.options.system_account
        if key is None:
            self._server.log.warning("Trusted Operators should utilize a System Account")
            return
        try:
            await self.account(key)
        except Refused as error:
            if self.options.resolver is not None and self.options.resolver.kind == "memory":
                raise StartError(f"error resolving system account: {error}") from None
            self._bootstrap(key)

    async def close(self) -> None:
        for task in list(self._loading.values()):
            task.cancel()
        for known in self._known.values():
            known.forget_timers()
        if self.resolver is not None:
            await self.resolver.close()

    def _directory(self) -> Any:
        return self.resolver if hasattr(self.resolver, "directory") else None

    def _bootstrap(self, key: str) -> None:
        """A system account without a token, so that somebody can bring the tokens."""
        self._server.log.info("Using bootstrapping system account")
        unlimited = AccountLimitClaims(
            subscriptions=NO_LIMIT,
            data=NO_LIMIT,
            payload=NO_LIMIT,
            imports=NO_LIMIT,
            exports=NO_LIMIT,
            wildcard_exports=True,
            connections=NO_LIMIT,
            leafnodes=NO_LIMIT,
        )
        issuer = self.options.trusted_keys[0]
        claims = AccountClaims(subject=key, issuer=issuer, limits=unlimited)
        self._known[key] = _Known(TrustedAccount(claims, {key: None}, None), "")
        self._server.tasks.run(self._fetch_system_account(key))

    async def _fetch_system_account(self, key: str) -> None:
        while not self._known[key].token:
            await asyncio.sleep(_BOOTSTRAP_INTERVAL)
            try:
                assert self.resolver is not None
                await self.change(key, await self.resolver.fetch(key))
            except (Refused, ResolverError):
                continue
        self._server.log.info("System account fetched and updated")

    # -- users ------------------------------------------------------------------------------------

    async def account(self, key: str) -> TrustedAccount:
        """The account with this public key, loaded together with what it imports if it is not here.

        Raises: Refused.
        """
        if not self._is_here(key):
            await self._brought(key)
        known = self._known[key]  # what was loaded may have changed since
        if known.is_expired:
            raise Refused("Account JWT has expired")
        return known.account

    async def _brought(self, key: str) -> None:
        task = self._loading.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._load(key))
            self._loading[key] = task
            task.add_done_callback(lambda done: self._loaded(key, done))
        # One who gives up must not take the answer from the others.
        await asyncio.shield(task)

    def is_known(self, key: str) -> bool:
        """True if an account has been needed since the start."""
        return key in self._known

    def _loaded(self, key: str, task: asyncio.Task[None]) -> None:
        self._loading.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone; then nobody else takes note of it

    async def _load(self, key: str) -> None:
        found = await self._with_imports({key: await self._fetched(key)})
        # Some may have come on another way meanwhile, perhaps with newer tokens.
        self._install({key: one for key, one in found.items() if not self._is_here(key)})

    def _is_here(self, key: str) -> bool:
        known = self._known.get(key)
        return known is not None and not known.is_expired

    async def _fetched(self, key: str) -> tuple[TrustedAccount, str]:
        """Return an account that the resolver has, with its token. Raises: Refused."""
        if self.resolver is None:
            raise Refused("Account JWT lookup error: no account resolver")
        try:
            token = await self.resolver.fetch(key)
        except ResolverError as error:
            if self.ask_others is None:
                raise Refused(f"Account JWT lookup error: {error}") from None
            token = await self.ask_others(key)
        return self.trust.account(key, token), token

    async def _with_imports(
        self, found: dict[str, tuple[TrustedAccount, str]]
    ) -> dict[str, tuple[TrustedAccount, str]]:
        """Return accounts with those they import from, over any number of steps, if these can be had."""
        seen = set(found)
        fresh = [account for account, _ in found.values()]
        while fresh:
            wanted = {entry.account for account in fresh for entry in account.claims.imports}
            wanted = {key for key in wanted - seen if not self._is_here(key)}
            seen |= wanted
            keys = sorted(wanted)
            loaded = await asyncio.gather(*map(self._fetched, keys), return_exceptions=True)
            fresh = []
            for key, one in zip(keys, loaded, strict=True):
                if isinstance(one, Refused):
                    self._server.log.error("Can't locate account [%s] for import (err=%s)", key, one)
                elif isinstance(one, BaseException):
                    raise one
                else:
                    found[key] = one
                    fresh.append(one[0])
        return found

    # -- changes ----------------------------------------------------------------------------------

    async def change(self, key: str, token: str) -> bool:
        """A token for an account that is here: it holds from now on, for live connections too.

        Gives whether it is another than before. Raises: Refused, and nothing is changed.
        """
        async with self._changes:
            account = self.trust.account(key, token)
            before = self._known.get(key)
            if before is not None and before.token == token and not before.is_expired:
                return False
            self._server.log.debug("Updating account claims: %s/%s", key, account.name)
            found = await self._with_imports({key: (account, token)})
            self._install(
                {other: one for other, one in found.items() if other == key or not self._is_here(other)}
            )
            if before is not None:
                self._sift(before.account, account)
            return True

    def forget(self, keys: Iterable[str]) -> None:
        """The tokens of these accounts are gone: their users go too, until there are others."""
        for key in keys:
            known = self._known.get(key)
            if known is not None:
                self._server.log.debug("Disable account %s due to remove", key)
                self._expire(known)

    def _install(self, found: Mapping[str, tuple[TrustedAccount, str]]) -> None:
        for key, (account, token) in found.items():
            before = self._known.get(key)
            if before is not None:
                before.forget_timers()
                for entry in before.account.claims.imports:
                    self._importers[entry.account].discard(key)
            for entry in account.claims.imports:
                self._importers[entry.account].add(key)
            known = self._known[key] = _Known(account, token)
            if account.claims.expires:
                self._wait(known, float(account.claims.expires))
        self._compose(set(found))

    def _compose(self, changed: set[str]) -> None:
        """Make these accounts, and those that import from them, what their tokens say now.

        Cost: of these and of the accounts they import from, however many others there are.
        """
        concerned = sorted(changed.union(*(self._importers.get(key, ()) for key in changed)))
        accounts = self._with_exporters(concerned)
        present = self._server.accounts
        options: dict[str, AccountOptions] = {
            key: without_imports(account) if key in concerned or key not in present else present[key].options
            for key, account in accounts.items()
        }
        for key in concerned:
            made = claimed_account(accounts[key], accounts, options, time.time())
            options[key] = made.options
            for trouble in made.troubles:
                self._server.log.debug("Error adding to account [%s]: %s", key, trouble)
            if made.changes_at is not None:
                self._compose_at(key, made.changes_at)
        present.replace(options[key] for key in concerned)

    def _with_exporters(self, keys: Iterable[str]) -> dict[str, TrustedAccount]:
        """Return accounts and those they import from, over any number of steps."""
        found: dict[str, TrustedAccount] = {}
        waiting = list(keys)
        while waiting:
            key = waiting.pop()
            known = self._known.get(key)
            if known is not None and key not in found:
                found[key] = known.account
                waiting += (entry.account for entry in known.account.claims.imports)
        return found

    def _compose_at(self, key: str, when: float) -> None:
        """An activation token begins or ends to hold then; looking at it too early does no harm."""
        known = self._known[key]
        if known.change is not None:
            known.change.cancel()
        delay = min(max(when - time.time(), 0.0) + 0.001, _LONGEST_SLEEP)
        known.change = self._server.loop.call_later(delay, self._compose, {key})

    def _wait(self, known: _Known, end: float) -> None:
        left = end - time.time()
        if left > _LONGEST_SLEEP:
            known.end = self._server.loop.call_later(_LONGEST_SLEEP, self._wait, known, end)
        else:
            known.end = self._server.loop.call_later(max(left, 0.0), self._expire, known)

    def _expire(self, known: _Known) -> None:
        known.is_expired = True
        for session in self._sessions(known.account.key):
            session.debug(_ACCOUNT_EXPIRED)
            session.refuse(_ACCOUNT_EXPIRED, CloseReason.AUTHENTICATION_EXPIRED)

    # -- live connections -------------------------------------------------------------------------

    def _sessions(self, key: str) -> list[ClientSession]:
        """The clients in an account, the oldest first."""
        return [
            session
            for session in self._server.clients
            if session.account is not None and session.account.name == key and not session.link.is_closing
        ]

    def _sift(self, before: TrustedAccount, now: TrustedAccount) -> None:
        """Clients of an account keep what its new token still grants them."""
        most = now.claims.limits.connections
        for place, session in enumerate(self._sessions(now.key)):
            if most != NO_LIMIT and place >= most:
                refuse_place(session)
                continue
            identity = session.identity.token if session.identity is not None else None
            if identity is not None and self._ends(session, identity, before, now):
                continue
            if keep_to_limits(session) and identity is not None:
                self._regrant(session, identity, now)

    def _ends(
        self, session: ClientSession, identity: TokenIdentity, before: TrustedAccount, now: TrustedAccount
    ) -> bool:
        """End the connection of a user that its account does not let in any more; True if it does not."""
        claims = now.claims
        if identity.is_bearer and claims.limits.disallow_bearer:
            session.debug("Bearer User JWT not allowed")
            session.reject()
        elif is_revoked(claims.revocations, identity.user, identity.issued_at):
            session.debug(_USER_REVOKED)
            session.refuse(_USER_REVOKED, CloseReason.CREDENTIALS_REVOKED)
        elif identity.issuer != now.key and (
            identity.issuer not in now.signers
            or now.signers[identity.issuer] != before.signers.get(identity.issuer)
        ):
            session.link.doom(CloseReason.AUTHENTICATION_VIOLATION)
            self._server.ticks.wake()
        else:
            return False
        return True

    def _regrant(self, session: ClientSession, identity: TokenIdentity, now: TrustedAccount) -> None:
        """Give a client that has its account's default permissions the new ones, where they changed."""
        permissions, _ = permissions_of(now.claims.default_permissions)
        if OperatorCallout.is_wanted(now):
            permissions = without_asking(permissions)
        if not identity.has_default_permissions or permissions == identity.permissions:
            return
        assert session.identity is not None
        renewed = session.identity.of_token(replace(identity, permissions=permissions))
        session.act_as(renewed)
        drop_forbidden(self._server, session, renewed)


def make_resolver(options: OperatorOptions) -> Resolver | None:
    """The configured resolver, not yet started; None where only `trusted_keys` are configured."""
    chosen = options.resolver
    if chosen is None:
        return None
    if chosen.kind == "memory":
        return MemoryResolver(options.preload)
    if chosen.kind == "url":
        from headrace.server.resolver_url import URLResolver

        return URLResolver(chosen)
    from headrace.server.resolver_directory import DirectoryResolver

    return DirectoryResolver(chosen, options.preload)
