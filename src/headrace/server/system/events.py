"""Events of the system account: connections, refusals, accounts, the server's statistics, its end.

Here live the moments and the timers. Nothing is composed for a subject that nobody listens to, and what
composes is loaded with the first event. Never lives here: what an event says (`messages`).
Source: subjects, order and intervals compared with the Go server 2.15.1, which falls silent in lame duck
mode; here events go on until the end.
"""

from __future__ import annotations

from functools import lru_cache
from time import time_ns
from typing import TYPE_CHECKING, Final, Protocol

from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.server.account_links import AccountLinks

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.account import Account
    from headrace.core.service import Host
    from headrace.server.ocsp.chains import Certificate
    from headrace.server.port import ConnectedClient, HasServiceHost, LinkHost
    from headrace.server.system.messages import SystemMessages

    class _System(HasServiceHost, Protocol):
        def statsz(self) -> bytes:
            """Compose the server's statistics now."""

    class _Server(LinkHost, Protocol):
        @property
        def server_id(self) -> str: ...
        @property
        def system(self) -> _System: ...


CONNECTIONS_INTERVAL: Final = 30.0
"""Seconds after which an account's connections are told again when they have not changed."""

STATSZ_FIRST: Final = 0.25
STATSZ_INTERVAL: Final = 10.0
"""Seconds between two statistics of the server; they begin with STATSZ_FIRST, and double."""

STATSZ_LEAST: Final = 1.0
"""Seconds that lie at least between two that are sent to everybody."""

_REFUSED: Final = b"$SYS.ACCOUNT.CLIENT.AUTH.ERR"


class Events:
    """The events of one server: silent before `begin`, after `end`, and when there is no system account."""

    def __init__(self, server: _Server, messages: Callable[[], SystemMessages]) -> None:
        self._server = server
        self._compose = messages
        self._host: Host | None = None
        self._told_at: dict[Account, int] = {}
        self._is_watching = False
        self._pause = STATSZ_FIRST
        self._sent_ns = round(-STATSZ_LEAST * 1e9)
        self._links = AccountLinks(server)

    # -- life -------------------------------------------------------------------------------------

    def begin(self, host: Host) -> None:
        self._host = host
        host.call_later(STATSZ_FIRST, self._statsz_due)

    def end(self) -> None:
        """The server stops: that is the last thing told."""
        subject = _subject("SERVER.%s.SHUTDOWN", self._server.server_id)
        self._tell(subject, lambda: self._compose().server())
        self._host = None
        self._links.close()

    def lame_duck(self) -> None:
        subject = _subject("SERVER.%s.LAMEDUCK", self._server.server_id)
        self._tell(subject, lambda: self._compose().server())

    # -- clients ----------------------------------------------------------------------------------

    def connected(self, session: ConnectedClient) -> None:
        """A client has got in."""
        if session.account is not None:
            subject = _subject("ACCOUNT.%s.CONNECT", session.account.name)
            self._tell(subject, lambda: self._compose().connected(session))

    def disconnected(self, session: ConnectedClient, account: Account | None) -> None:
        """A connection is over. `account`: which it acted in until now."""
        if self._host is None:
            return
        if account is not None:
            self.connections_changed(account)
        name, reason = _name_of(session, account), session.close_reason.text
        self._tell(
            _subject("ACCOUNT.%s.DISCONNECT", name),
            lambda: self._compose().disconnected(session, name, reason, session.stop_ns),
        )

    def refused(self, session: ConnectedClient, reason: str) -> None:
        """Credentials were wrong or missing: the account it acts in hears of it too, under its own
        subjects."""
        if self._host is None:
            return
        name = _name_of(session, session.account)
        if session.account is not None and any(session.account.interest.receivers(_REFUSED)):
            message = self._compose().disconnected(session, name, reason, time_ns())
            self._links.of(session.account).publish(_REFUSED, message)
        self._tell(
            _subject("SERVER.%s.CLIENT.AUTH.ERR", self._server.server_id),
            lambda: self._compose().disconnected(session, name, reason, time_ns()),
        )

    # -- peers that have failed a check ------------------------------------------------------------

    def peer_refused(self, kind: str, peer: Certificate, reason: str) -> None:
        """A peer was sent away. `kind`: of connection."""
        subject = _subject("SERVER.%s.OCSP.PEER.CONN.REJECT", self._server.server_id)
        self._tell(subject, lambda: self._compose().peer_refused(kind, peer, reason))

    def link_invalid(self, peer: Certificate, link: Certificate, reason: str) -> None:
        """A certificate of the peer's chain, which may be its own."""
        subject = _subject("SERVER.%s.OCSP.PEER.LINK.INVALID", self._server.server_id)
        self._tell(subject, lambda: self._compose().link_invalid(peer, link, reason))

    # -- accounts ---------------------------------------------------------------------------------

    def connections_changed(self, account: Account) -> None:
        """One client more or less. Of the global account this is not told, as in the Go server."""
        host = self._host
        if host is None or account.name == GLOBAL_ACCOUNT:
            return
        if account.connections:
            self._told_at[account] = host.now_ns()
            self._watch(CONNECTIONS_INTERVAL)
        else:
            self._told_at.pop(account, None)
        self._tell_connections(account)

    def _tell_connections(self, account: Account) -> None:
        old = _subject("SERVER.ACCOUNT.%s.CONNS", account.name)
        new = _subject("ACCOUNT.%s.SERVER.CONNS", account.name)
        wanted = [subject for subject in (old, new) if self._is_wanted(subject)]
        if not wanted:
            return
        messages = self._compose()
        event = messages.connections(account)
        for subject in wanted:
            self._publish(subject, messages.numbered(event))

    def _watch(self, seconds: float) -> None:
        if not self._is_watching and self._host is not None:
            self._is_watching = True
            self._host.call_later(seconds, self._tell_again)

    def _tell_again(self) -> None:
        """Accounts that were told of long ago are told of again; one timer serves all."""
        self._is_watching = False
        if self._host is None:
            return
        interval = round(CONNECTIONS_INTERVAL * 1e9)
        now = self._host.now_ns()
        for account in [each for each, told in self._told_at.items() if now - told >= interval]:
            self._told_at[account] = now
            self._tell_connections(account)
        if self._told_at:
            oldest = min(self._told_at.values())
            self._watch(max(oldest + interval - now, 0) / 1e9)

    # -- the server's statistics ------------------------------------------------------------------

    def _statsz_due(self) -> None:
        if self._host is None:
            return
        self._pause = min(self._pause * 2, STATSZ_INTERVAL)
        self._host.call_later(self._pause, self._statsz_due)
        least = min(self._pause, STATSZ_LEAST)
        if self._host.now_ns() - self._sent_ns >= least * 1e9:
            self.tell_statsz()

    def tell_statsz(self) -> None:
        """Publish the server's statistics now, to all who listen."""
        if self._host is None:
            return
        subject = _subject("SERVER.%s.STATSZ", self._server.server_id)
        if self._host.backlog(subject) is not None:
            self._sent_ns = self._host.now_ns()
            self._host.publish(subject, self._server.system.statsz())

    # -- sending ----------------------------------------------------------------------------------

    def _tell(self, subject: bytes, compose: Callable[[], bytes]) -> None:
        if self._is_wanted(subject):
            self._publish(subject, compose())

    def _is_wanted(self, subject: bytes) -> bool:
        return self._host is not None and self._host.backlog(subject) is not None

    def _publish(self, subject: bytes, message: bytes) -> None:
        if self._host is not None:
            self._host.publish(subject, message)


@lru_cache(maxsize=256)  # each client that comes and goes asks for two, of few accounts
def _subject(form: str, name: str) -> bytes:
    return b"$SYS." + (form % name).encode()


def _name_of(session: ConnectedClient, account: Account | None) -> str:
    """Return the account of a client that has left; one that was moved because another account was full
    belongs to that one.
    """
    if account is not None:
        return account.name
    return session.identity.account if session.identity else GLOBAL_ACCOUNT
