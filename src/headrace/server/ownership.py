"""The contract of what decides which server serves its accounts, of several that have the same stores.

Only protocols live here; `headrace.ownership` keeps them, over object storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from logging import Logger

    from headrace.conf.options import Options
    from headrace.core.account import Account
    from headrace.core.accounts import Accounts
    from headrace.core.service import Service


class TellsOfPeers(Protocol):
    """The routes of a server."""

    @property
    def when_left(self) -> list[Callable[[str], object]]:
        """The functions to call with the server_id of a peer that has no connection here any more."""


class SharingServer(Protocol):
    """A server that shares its stores, as the part sees it that decides who serves."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def log(self) -> Logger: ...
    @property
    def name(self) -> str: ...
    @property
    def server_id(self) -> str: ...
    @property
    def cluster_name(self) -> str | None: ...
    @property
    def accounts(self) -> Accounts: ...
    @property
    def routes(self) -> TellsOfPeers | None: ...
    def start_service(self, service: Service, account: Account, *, maps: bool = True) -> object:
        """Start a service in an account. Raises: StartError, as the service does."""


class ServedAccounts(Protocol):
    """The accounts of a server, which are served or not."""

    async def open(self) -> None:
        """Serve all accounts. Raises: StartError for the first account that cannot be served."""

    async def retire(self) -> None:
        """Serve no account any more, in order: all that was taken is committed and answered first."""

    def abandon(self) -> None:
        """Serve no account any more, from this call on: nothing is written, nobody is answered."""


class Ownership(Protocol):
    """The part that decides whether this server serves; it opens and closes the accounts."""

    async def begin(self, server: SharingServer, accounts: ServedAccounts) -> None:
        """Take part from now on. Raises: StartError."""

    async def settled(self) -> None:
        """Wait until it is known which server serves; this one does by then, if it is to."""

    def proven_until(self) -> int:
        """Return the time until which services may speak, as this server is the one: monotonic ns."""

    def reload(self, new: Options) -> None:
        """Take over what a running server takes over of changed options."""

    async def leave(self) -> None:
        """Have another server serve from now on, if there is one: this one is about to end."""

    async def end(self) -> None:
        """Take part no more; what this server serves is given up in order. Safe if it never began."""
