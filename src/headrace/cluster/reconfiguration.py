"""Reconfiguration of a running cluster: new options, and accounts that get connections of their own.

An account moves in two steps, so that nothing of it is told twice: who moves it says so on the connection
that carried it, the peer takes it off there and says that it is ready, then the new connection is made.
Source: cluster specification B4; the texts and times from nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from headrace import limits
from headrace.cluster.registry import pool_index
from headrace.engine.reasons import CloseReason
from headrace.protocol.peers import PeerInfo

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.cluster.port import ClusterHost
    from headrace.cluster.registry import Registry
    from headrace.cluster.route import RouteSession
    from headrace.cluster.route_accounts import RouteAccounts
    from headrace.cluster.soliciting import Solicitors
    from headrace.conf.peer_options import ClusterOptions
    from headrace.core.service import Timer

_NEEDS_NEW_CONNECTIONS: Final = (
    *("name", "imports", "exports"),
    *("pool_size", "compression", "compression_rtts"),
)
"""Options that are agreed on when a connection begins."""


class ReconfiguredMesh(Protocol):
    """The mesh as reconfiguration sees it."""

    @property
    def options(self) -> ClusterOptions:
        """The options that are in force now."""

    @property
    def accounts(self) -> RouteAccounts:
        """The accounts that connections carry."""


class Reconfiguration:
    """Accounts that are on their way to connections of their own, and what new options change.

    `system_account` has connections of its own where there are pools. `_awaited`: connections whose peers
    have not said yet that they are ready, each with the account.
    """

    def __init__(
        self,
        host: ClusterHost,
        mesh: ReconfiguredMesh,
        registry: Registry,
        sessions: Collection[RouteSession],
        solicitors: Solicitors,
        *,
        system_account: str | None,
    ) -> None:
        self._host = host
        self._mesh = mesh
        self._registry = registry
        self._sessions = sessions
        self._solicitors = solicitors
        self._system_account = system_account
        self._request = ""
        self._accounts: tuple[str, ...] = ()
        self._awaited: list[tuple[RouteSession, str]] = []
        self._timer: Timer | None = None
        self._unused: set[str] = set()

    def stop(self) -> None:
        """Await nothing any more."""
        self._awaited.clear()
        self._accounts = ()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pinned_accounts(self, options: ClusterOptions | None = None) -> tuple[str, ...]:
        """Names of the accounts that options (None: those in force) give connections of their own."""
        options = self._mesh.options if options is None else options
        if options.pool_size < 1 or options.protocol == "1.x":
            return ()
        system = () if self._system_account is None else (self._system_account,)
        return tuple(dict.fromkeys((*options.accounts, *system)))

    # -- options ----------------------------------------------------------------------------------

    def apply(self, before: ClusterOptions) -> None:
        """Close and make connections as the options want it that are now in force.

        A changed name, permission or pool closes connections, which are made again.
        """
        options, registry, solicitors = self._mesh.options, self._registry, self._solicitors
        old, new = (set(self.pinned_accounts(each)) for each in (before, options))
        is_anew = any(getattr(before, name) != getattr(options, name) for name in _NEEDS_NEW_CONNECTIONS)
        for session in list(self._sessions):
            target = session.target
            if target is not None and target.is_explicit and target.url not in options.routes:
                session.may_reconnect = False
                session.close(CloseReason.ROUTE_REMOVED)
            elif is_anew:
                session.retries = True
                session.close(CloseReason.ROUTE_REMOVED)
        for account in sorted(old - new):
            self._give_back(account)
        added = tuple(url for url in options.routes if url not in before.routes)
        solicitors.reach(added, ("", *sorted(old & new)))
        if is_anew:
            for account in sorted(new - old):
                registry.dedicated[account] = {}
            solicitors.reach(options.routes, sorted(new - old))
        elif new - old:
            self._begin(sorted(new - old))

    # -- accounts moved here ----------------------------------------------------------------------

    def _begin(self, accounts: list[str]) -> None:
        self.stop()
        pool_size = self._mesh.options.pool_size
        self._request = self._host.new_name()
        self._accounts = tuple(accounts)
        for account in accounts:
            self._registry.dedicated.setdefault(account, {})
            carried_by = pool_index(pool_size, account)
            info = PeerInfo(
                route_pool_size=pool_size, route_account=account, route_acc_add_reqid=self._request
            )
            for session in list(self._registry.pooled()):
                if session.is_unpooled:
                    continue
                session.withdraw(account)
                if session.pool_index == carried_by:
                    session.link.send(info.line())
                    self._awaited.append((session, account))
        if self._awaited:
            self._timer = self._host.call_later(limits.ROUTE_ACCOUNT_TIMEOUT, self._finish)
            self._host.wake()
        else:
            self._finish()

    def _finish(self) -> None:
        accounts = self._accounts
        self.stop()
        self._solicitors.reach(self._mesh.options.routes, accounts)

    def ended(self, session: RouteSession) -> None:
        """Await no answer on a connection that is over."""
        self._answered([each for each in self._awaited if each[0] is session])

    def _answered(self, done: list[tuple[RouteSession, str]]) -> None:
        if not done:
            return
        for each in done:
            self._awaited.remove(each)
        if not self._awaited:
            self._finish()

    def refused(self, session: RouteSession) -> None:
        """Give an account back to the pool that only peers have moved, when one refuses its connection."""
        if session.account and session.account not in self.pinned_accounts():
            self._give_back(session.account)

    def give_back(self) -> None:
        """Give accounts back to the pool that only a peer had moved, and has moved back.

        Called now and then: an account is given back that had no connection of its own the last time and
        this time.
        """
        own = self.pinned_accounts()
        unused = {
            name
            for name, connections in self._registry.dedicated.items()
            if name not in own and not any(each.has_answered for each in connections.values())
        }
        for account in sorted(unused & self._unused):
            self._give_back(account)
        self._unused = unused - self._unused

    def _give_back(self, account: str) -> None:
        for session in list(self._sessions):
            if session.account == account:
                session.may_reconnect = False
                session.close(CloseReason.ROUTE_REMOVED)
        if self._registry.dedicated.pop(account, None) is not None:
            self._mesh.accounts.serve_account(account)

    # -- asked by a peer --------------------------------------------------------------------------

    def asked(self, session: RouteSession, info: PeerInfo) -> None:
        """Act on an INFO about moving: a peer moves an account, or is ready for one that was moved here."""
        account = info.route_account
        if not account:
            if info.route_acc_add_reqid == self._request:
                self._answered([each for each in self._awaited if each[0] is session][:1])
            return
        if self._host.interest(account) is None:
            session.unknown_account(account)
            return
        self._registry.dedicated.setdefault(account, {})
        for other in list(self._registry.pooled()):
            if not other.is_unpooled:
                other.withdraw(account)
        session.link.send(replace(info, route_account="").line())
        self._host.wake()
