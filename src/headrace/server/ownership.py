"""The contract of what decides which server serves its accounts, of several that have the same stores.

Here live protocols, which `headrace.jetstream_membership` keeps, over object storage, and which other servers
there may be. Never lives here: which one of them serves.
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


class OneOfProcesses(Protocol):
    """The view that one server of several processes has of them."""

    @property
    def has_private_mesh(self) -> bool:
        """True if the processes are a cluster among themselves."""


def lasting_cluster_name(options: Options, worker: OneOfProcesses | None) -> str:
    """Return the name of the cluster that a configuration gives; "" where one is made up at each start."""
    if options.cluster is None or (worker is not None and worker.has_private_mesh):
        return ""
    return options.cluster.name


def hears_others(routes: object | None, worker: OneOfProcesses | None) -> bool:
    """True if routes lead to other servers, and not only to the processes of this one."""
    return routes is not None and (worker is None or not worker.has_private_mesh)


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
    def options(self) -> Options: ...
    @property
    def worker(self) -> OneOfProcesses | None: ...
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
