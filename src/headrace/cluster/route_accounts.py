"""The accounts of routes: which connection carries an account, and the interest that is told on it.

A connection for one account carries that one, a connection of a pool the accounts whose number it has. Never
lives here: how an account gets connections of its own (`reconfiguration`). Source: cluster specification B4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.cluster.dialect import LEGACY_ACCOUNT
from headrace.cluster.registry import DEDICATED, pool_index
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from headrace.cluster.port import ClusterHost
    from headrace.cluster.registry import Registry
    from headrace.cluster.route import RouteSession
    from headrace.conf.peer_options import ClusterOptions


class ConfiguredMesh(Protocol):
    """The mesh as the accounts of its routes see it."""

    @property
    def options(self) -> ClusterOptions:
        """The options that are in force now."""


class RouteAccounts:
    """The accounts whose interest a mesh tells, as they were when `changed` was called last."""

    def __init__(self, host: ClusterHost, mesh: ConfiguredMesh, registry: Registry) -> None:
        self._host: Final = host
        self._mesh: Final = mesh
        self._registry: Final = registry
        self._names: set[str] = set()

    def start(self) -> None:
        """Take the accounts that are there."""
        self._names = set(self._host.account_names())

    def index(self, account: str) -> int:
        """The index in each pool of the connection that an account uses; DEDICATED: it has its own."""
        if account in self._registry.dedicated:
            return DEDICATED
        return pool_index(self._mesh.options.pool_size, account)

    def serve(self, session: RouteSession) -> None:
        """Tell the interest of all accounts that a connection carries."""
        for account in (session.account,) if session.account else sorted(self._names):
            if self._carries(session, account):
                self._tell(session, account)

    def serve_account(self, account: str) -> None:
        """Tell an account's interest on the connections that carry it now."""
        for session in list(self._registry):
            if self._carries(session, account):
                self._tell(session, account)
        self._host.wake()

    def changed(self) -> None:
        """Compare the accounts with those of before; called after a change.

        A peer that has told interest in an account that was not there is connected to anew: it tells it
        again.
        """
        before, self._names = self._names, set(self._host.account_names())
        for account in sorted(before - self._names):
            for session in list(self._registry):
                session.withdraw(account)
        for account in sorted(self._names - before):
            self.serve_account(account)
            for session in list(self._registry):
                if session.may_want(account):
                    session.retries = True
                    session.close(CloseReason.ROUTE_REMOVED)
        self._host.wake()

    def _carries(self, session: RouteSession, account: str) -> bool:
        """Return True when interest and messages of an account go over this connection."""
        if session.is_legacy:
            return account == LEGACY_ACCOUNT
        if session.is_unpooled:
            return True
        if session.account:
            return session.account == account
        return session.pool_index == self.index(account)

    def _tell(self, session: RouteSession, account: str) -> None:
        interest = self._host.interest(account)
        if interest is not None:
            is_alone = session.is_legacy or bool(session.account)
            session.link.serve(account.encode(), interest, dedicated=is_alone)
