"""Credentials of those who may connect, from one `authorization` block or the command line.

Here live the block as a value and the rules on what may stand together in it. Never lives here: reading
(`authorization`), checking of clients (`headrace.server.auth`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.keys import Flag, key

if TYPE_CHECKING:
    from headrace.conf.problems import Problems
    from headrace.errors import Position


class AuthorizationBlock(AuthorizationOptions, frozen=True):
    """The block as written. `lists_users`: there is a list of users, which may be empty."""

    HIDDEN = frozenset({"password", "token"})

    user: str | None = key(
        None,
        "The one user",
        aliases=("username",),
        flag=Flag(("user",), "user", "User that clients must give", group="Authorization"),
    )
    password: str | None = key(
        None,
        "The one user's password",
        aliases=("pass",),
        flag=Flag(("pass",), "password", "Password that clients must give", group="Authorization"),
    )
    lists_users: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Names of the listed users, the only ones `no_auth_user` may name."""
        return frozenset(entry.nkey or entry.user or "" for entry in self.users)

    def options(self) -> AuthorizationOptions:
        """The block as options; the single user becomes a list of one."""
        users = self.users
        if self.user:
            users = (
                UserOptions(user=self.user, password=self.password or "", proxy_required=self.proxy_required),
            )
        return AuthorizationOptions(
            token=self.token or None,
            users=users,
            timeout=self.timeout or None,
            # The Go server applies them to listed users only; the single user may do everything.
            default_permissions=self.default_permissions if self.users else None,
            callout=self.callout,
            proxy_required=self.proxy_required,
        )


def check_credentials(block: AuthorizationBlock, problems: Problems, position: Position | None) -> None:
    """Report token, single user and list of users where one excludes the other."""
    if (block.user or block.password) and block.token:
        problems.add("a user and password cannot stand together with a token", position)
    if block.lists_users and block.user:
        problems.add("a single user cannot stand together with a list of users", position)
    if block.lists_users and block.token:
        problems.add("a token cannot stand together with a list of users", position)
    if block.password and not block.user:
        problems.add("a password needs a user; without one nobody would be asked for it", position)
