"""The resolver of operator mode, which has the tokens of accounts.

Here live the contract of a resolver and the one in memory. A resolver hands out tokens as it finds them: who
trusts them is `headrace.core.trust`. The others are `resolver_url` and `resolver_directory`; which one a
server has is `operator_mode`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.protocol.jwt.rules import is_key
from headrace.protocol.nkeys import KeyKind

if TYPE_CHECKING:
    from collections.abc import Mapping

MISSING: Final = "account missing"


class ResolverError(LookupError):
    """A token that cannot be had, or cannot be kept; the text is for the log and shows no token."""


class Resolver(Protocol):
    """Accounts are named by their public key."""

    async def start(self) -> None:
        """Check that the resolver can work. Raises: StartError."""

    async def fetch(self, account: str) -> str:
        """The account's token. Raises: ResolverError."""

    async def store(self, account: str, token: str) -> bool:
        """Keep a token; False if a newer one is there. Raises: ResolverError."""

    async def close(self) -> None: ...


class MemoryResolver:
    """Tokens of the configuration, and those given to it since."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = dict(tokens)

    async def start(self) -> None:
        return

    async def fetch(self, account: str) -> str:
        """The account's token. Raises: ResolverError."""
        check_account(account)
        try:
            return self._tokens[account]
        except KeyError:
            raise ResolverError(MISSING) from None

    async def store(self, account: str, token: str) -> bool:
        """The last one counts. Raises: ResolverError."""
        check_account(account)
        self._tokens[account] = token
        return True

    async def close(self) -> None:
        return


def check_account(account: str) -> None:
    """Check the name of an account, which becomes a file name.

    Raises: ResolverError for a text that is not its public key.
    """
    if not is_key(account, KeyKind.ACCOUNT):
        raise ResolverError("will only fetch valid account keys")
