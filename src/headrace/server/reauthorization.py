"""Clients that are connected while users, permissions, accounts or limits change: what becomes of each.

Here lives the judgement, all at once after a change. Never lives here: which change (`reload`), one
client's policy (`session`).
Source: who is closed, with which words and which reason, compared with the Go server 2.15.1. Other than
there, who has not said who it is may still do so, and of too many connections the youngest are closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.engine.reasons import CloseReason
from headrace.server.account_membership import keep_to_limits, refuse_place
from headrace.server.log_text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.core.account import Account
    from headrace.server.access import Access
    from headrace.server.auth import Authenticator, Identity
    from headrace.server.clients import Clients
    from headrace.server.port import AccountsHost
    from headrace.server.session import ClientSession

    class OtherProcesses(Protocol):
        """The other processes of a server."""

        @property
        def connections_elsewhere(self) -> int: ...

    class ClientsServer(AccountsHost, Protocol):
        """A server with its clients."""

        @property
        def clients(self) -> Clients: ...
        @property
        def worker(self) -> OtherProcesses | None: ...


_TOO_MANY: Final = "maximum connections exceeded"


def judge_clients(server: ClientsServer, before: Mapping[Access, Authenticator]) -> None:
    """Judge every client by what holds now; `before` is what has let them in, for each listener.

    Closed are those whose user is gone or in another account (without a word, they may come back as somebody
    else), those whose credentials are not accepted any more, and those that exceed a limit of their account.
    The others lose the subscriptions that are not permitted any more.
    """
    for session in _open(server):
        _judge(server, before[session.access], session)
    for account in server.accounts:
        _keep_to_limit(server, account)
    server.ticks.wake()


def close_excess(server: ClientsServer) -> int:
    """Close the youngest connections where there are more than `max_connections`; return how many."""
    most = server.options.max_connections
    sessions = _open(server)
    elsewhere = server.worker.connections_elsewhere if server.worker is not None else 0
    if not 0 < most < len(sessions) + elsewhere:
        return 0
    most = most * len(sessions) // (len(sessions) + elsewhere)  # each process its share
    for session in sessions[most:]:
        session.error(_TOO_MANY)
        session.refuse(_TOO_MANY, CloseReason.MAX_CONNECTIONS_EXCEEDED)
    return len(sessions) - most


def _open(server: ClientsServer) -> list[ClientSession]:
    """Return the open sessions by age, the oldest first."""
    return [session for session in server.clients if not session.link.is_closing]


def _judge(server: ClientsServer, before: Authenticator, session: ClientSession) -> None:
    if session.is_undecided:
        return  # its credentials are being looked at, and by the rules of now in the end
    identity = session.identity
    if not session.is_connected and not session.link.subscriptions_count:
        session.begin_again()
        return
    assert identity is not None, "an op other than CONNECT has settled who it is"
    if identity.token is not None:  # whom others let in they also send away; but its account may be gone
        if not _is_in(server, session, identity.account):
            _send_away(session)
        return
    after = session.access.authenticator
    account = after.account_of(identity)
    if before.account_of(identity) is not None and (account is None or not _is_in(server, session, account)):
        _send_away(session)
        return
    options, credentials = session.options, session.credentials
    renewed = None
    if credentials.mapped_certificates is None:
        renewed = after.recognised(identity, options, before, session.access.connection_type)
    if renewed is None and credentials.is_slow(options):
        session.is_undecided = True
        session.link.hold()
        server.tasks.run(_judge_in_thread(server, session))
        return
    if renewed is None:
        renewed = credentials.authenticate(options)
    _settle(server, session, renewed)


async def _judge_in_thread(server: ClientsServer, session: ClientSession) -> None:
    """A hash is new: looking at it takes long, and only this client waits."""
    identity = await session.credentials.in_thread(session.options)
    session.is_undecided = False
    if not session.is_closed:
        _settle(server, session, identity)
        session.go_on()


def _settle(server: ClientsServer, session: ClientSession, identity: Identity | None) -> None:
    """Let a client go on as `identity`, or close it."""
    if identity is None or (identity.proxy_required and not session.proxy_key):
        session.reject()
    elif not _is_in(server, session, identity.account):
        _send_away(session)
    elif keep_to_limits(session):
        session.act_as(identity)
        drop_forbidden(server, session, identity)


def _is_in(server: ClientsServer, session: ClientSession, account: str) -> bool:
    """True if a client is in the account that has this name now."""
    return account in server.accounts and server.accounts[account] is session.account


def _send_away(session: ClientSession) -> None:
    session.end(CloseReason.CLIENT_CLOSED)


def drop_forbidden(server: ClientsServer, session: ClientSession, identity: Identity) -> None:
    """Subscriptions that `identity` may not have end, and the client is told."""
    for subject, queue, sid in session.permissions.drop_forbidden(session.link):
        group = f" using queue {quoted(queue)}" if queue else ""
        what = f"{quoted(subject)}{group} (sid {quoted(sid)})"
        session.link.send(session.words.complaint(f"Permissions Violation for Subscription to {what}"))
        server.log.info("Removed sub %s for User %s - not authorized", what, quoted(identity.user or ""))


def _keep_to_limit(server: ClientsServer, account: Account) -> None:
    most = account.options.limits.max_connections
    if not 0 <= most < account.connections:
        return
    members = [session for session in _open(server) if session.account is account]
    for session in members[most:]:
        refuse_place(session)
