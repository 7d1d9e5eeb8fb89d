"""Reconfiguration of a running cluster: new options, and accounts that get connections of their own.

An account moves in two steps, so that nothing of it is told twice: who moves it says so on the connection
that carried it, the peer takes it off there and says that it is ready, then the new connection is made.
Source: cluster specification B4; the texts and times from nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace import limits
from headrace.cluster.names import ClusterName
from headrace.cluster.pooling import pool_index
from headrace.cluster.rules import Rules
from headrace.engine.reasons import CloseReason
from headrace.protocol.peers import PeerInfo

if TYPE_CHECKING:
    from headrace.cluster.mesh import Mesh
    from headrace.cluster.port import Timer
    from headrace.cluster.route import RouteSession
    from headrace.conf.peer_options import ClusterOptions


class Reconfiguration:
    """Accounts that are on their way to connections of their own.

    `_awaited`: connections whose peers have not said yet that they are ready, each with the account.
    """

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._request = ""
        self._accounts: tuple[str, ...] = ()
        self._awaited: list[tuple[RouteSession, str]] = []
        self._timer: Timer | None = None
        self._unused: set[str] = set()

    def stop(self) -> None:
        self._awaited.clear()
        self._accounts = ()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- options ----------------------------------------------------------------------------------

    def reload(self, options: ClusterOptions) -> None:
        """Other options of the same cluster; host and port are not changed so.

        A changed name, permission or pool closes connections, which are made again. Raises: ConfigError for
        permissions that are no subjects; nothing is changed then.
        """
        mesh = self._mesh
        rules = Rules(options)
        before, mesh.options, mesh.rules = mesh.options, options, rules
        if options.name and options.name != mesh.name.text:
            mesh.rename(ClusterName(options.name, is_dynamic=False))
        old, new = (set(mesh.pinned_accounts(each)) for each in (before, options))
        begun_anew = ("name", "imports", "exports", "pool_size", "compression", "compression_rtts")
        is_anew = any(getattr(before, name) != getattr(options, name) for name in begun_anew)
        for session in list(mesh.sessions):
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
        mesh.solicit(added, ("", *sorted(old & new)))
        if is_anew:
            for account in sorted(new - old):
                mesh.registry.dedicated[account] = {}
            mesh.solicit(options.routes, sorted(new - old))
        elif new - old:
            self._begin(sorted(new - old))

    # -- accounts moved here ----------------------------------------------------------------------

    def _begin(self, accounts: list[str]) -> None:
        self.stop()
        mesh = self._mesh
        self._request = mesh.port.new_name()
        self._accounts = tuple(accounts)
        for account in accounts:
            mesh.registry.dedicated.setdefault(account, {})
            carried_by = pool_index(mesh.options.pool_size, account)
            info = PeerInfo(
                route_pool_size=mesh.options.pool_size,
                route_account=account,
                route_acc_add_reqid=self._request,
            )
            for session in list(mesh.registry.pooled()):
                if session.is_unpooled:
                    continue
                mesh.withdraw_account(account, session)
                if session.pool_index == carried_by:
                    session.link.send(info.line())
                    self._awaited.append((session, account))
        if self._awaited:
            self._timer = mesh.port.call_later(limits.ROUTE_ACCOUNT_TIMEOUT, self._finish)
            mesh.port.wake()
        else:
            self._finish()

    def _finish(self) -> None:
        accounts = self._accounts
        self.stop()
        self._mesh.solicit(self._mesh.options.routes, accounts)

    def ended(self, session: RouteSession) -> None:
        """A connection is over: nothing is awaited there."""
        self._answered([each for each in self._awaited if each[0] is session])

    def _answered(self, done: list[tuple[RouteSession, str]]) -> None:
        if not done:
            return
        for each in done:
            self._awaited.remove(each)
        if not self._awaited:
            self._finish()

    def refused(self, session: RouteSession) -> None:
        """A peer does not want the connection: if only peers moved its account, none is kept for it."""
        mesh = self._mesh
        if session.account and session.account not in mesh.pinned_accounts(mesh.options):
            self._give_back(session.account)

    def give_back(self) -> None:
        """Accounts that only a peer has moved, and has moved back, use the pool again.

        Called now and then: one that has had no connection of its own the last time and this time.
        """
        mesh = self._mesh
        own = mesh.pinned_accounts(mesh.options)
        unused = {
            name
            for name, connections in mesh.registry.dedicated.items()
            if name not in own and not any(each.has_answered for each in connections.values())
        }
        for account in sorted(unused & self._unused):
            self._give_back(account)
        self._unused = unused - self._unused

    def _give_back(self, account: str) -> None:
        mesh = self._mesh
        for session in list(mesh.sessions):
            if session.account == account:
                session.may_reconnect = False
                session.close(CloseReason.ROUTE_REMOVED)
        if mesh.registry.dedicated.pop(account, None) is not None:
            mesh.serve_account(account)

    # -- asked by a peer --------------------------------------------------------------------------

    def asked(self, session: RouteSession, info: PeerInfo) -> None:
        """An INFO about moving: a peer moves an account, or is ready for one that was moved here."""
        account = info.route_account
        mesh = self._mesh
        if not account:
            if info.route_acc_add_reqid == self._request:
                self._answered([each for each in self._awaited if each[0] is session][:1])
            return
        if mesh.port.interest(account) is None:
            session.unknown_account(account)
            return
        mesh.registry.dedicated.setdefault(account, {})
        for other in list(mesh.registry.pooled()):
            if not other.is_unpooled:
                mesh.withdraw_account(account, other)
        session.link.send(replace(info, route_account="").line())
        mesh.port.wake()
