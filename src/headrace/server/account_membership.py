"""The place of one client in an account, within the limits of the server, the account and the user.

Never lives here: accounts (`core.accounts`), who a client is (`auth`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from headrace.core.account import Account
    from headrace.core.grants import TokenIdentity
    from headrace.engine.client import ClientLink
    from headrace.server.auth import Identity
    from headrace.server.port import SessionHost

    class Member(Protocol):
        """A client with its place in an account."""

        @property
        def identity(self) -> Identity | None: ...
        @property
        def link(self) -> ClientLink: ...
        @property
        def membership(self) -> AccountMembership: ...

        def error(self, text: str) -> None:
            """Log an error line."""

        def refuse(self, text: str, reason: CloseReason) -> None:
            """Send -ERR and close."""


UNLIMITED: Final = -1
TOO_MANY_SUBSCRIPTIONS: Final = "maximum subscriptions exceeded"
_TOO_MANY_IN_ACCOUNT: Final = "maximum account active connections exceeded"


class AccountMembership:
    """The membership of one client in an account. `account` is None once the client has left its last one."""

    __slots__ = ("_link", "_server", "account")

    def __init__(self, server: SessionHost, link: ClientLink) -> None:
        self._server = server
        self._link = link
        self.account: Account | None = None

    def enter(self, account: Account, token: TokenIdentity | None = None) -> None:
        """Act in this account from now on; the client has left the one before."""
        self.account = account
        self._link.interest = account.interest
        account.enter(self._link)
        self.set_limits(token)
        self._server.events.connections_changed(account)

    def leave(self, *, is_closed: bool = False) -> None:
        """Give the place up. `is_closed`: the event of the disconnection tells it."""
        account, self.account = self.account, None
        if account is not None:
            account.leave(self._link)
            if not is_closed:
                self._server.events.connections_changed(account)

    def set_limits(self, token: TokenIdentity | None) -> int:
        """Set the link's limits as they are now; returns the most subscriptions, UNLIMITED for no limit."""
        assert self.account is not None
        options, of_account = self._server.options, self.account.options.limits
        payload = tighter(options.max_payload, of_account.max_payload)
        most = tighter(options.max_subscriptions or UNLIMITED, of_account.max_subscriptions)
        if token is not None:
            payload, most = tighter(payload, token.payload), tighter(most, token.subscriptions)
        self._link.limit(max_payload=payload, max_subscriptions=max(most, 0))
        return most


def keep_to_limits(session: Member) -> bool:
    """Let the limits of the server, the account and the user hold as they are now.

    False, and the connection ends, if it has as many subscriptions as it may have: what it would add is
    refused without that, but as in the Go server a limit that is met when it is set counts as exceeded.
    """
    most = session.membership.set_limits(session.identity.token if session.identity is not None else None)
    if most == UNLIMITED or session.link.subscriptions_count < most:
        return True
    session.error(TOO_MANY_SUBSCRIPTIONS)
    session.refuse(TOO_MANY_SUBSCRIPTIONS, CloseReason.MAX_SUBSCRIPTIONS_EXCEEDED)
    return False


def refuse_place(session: Member) -> None:
    """End a connection whose account has more than it may have."""
    session.error(_TOO_MANY_IN_ACCOUNT)
    session.refuse(_TOO_MANY_IN_ACCOUNT, CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED)


def tighter(first: int, second: int) -> int:
    """The smaller one of two limits, of which -1 is none."""
    return max(first, second) if UNLIMITED in (first, second) else min(first, second)
