"""Services that accounts have of their own: started with an account, changed and stopped with it.

Here lives which account has one now. Never lives here: what such services do (`headrace.jetstream`), which
accounts there are (`core.accounts`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from headrace import limits
from headrace.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.conf.account_options import AccountOptions
    from headrace.conf.options import Options
    from headrace.core.account import Account
    from headrace.core.service import Service
    from headrace.server.ownership import Ownership
    from headrace.server.port import AccountServicesHost
    from headrace.server.services import ServiceHost


class AccountServices(Protocol):
    """Makes the services of accounts. Called on the server's loop."""

    def open(self, server_name: str, server_id: str) -> None:
        """Prepare the services, before the first account. Raises: StartError."""

    def service(self, account: AccountOptions, *, is_system: bool) -> Service | None:
        """Make the service of an account that has none yet; None: it needs none. Raises: StartError."""

    def change(self, account: AccountOptions) -> bool:
        """New options of an account with a service; False: its service has to go, and another is asked for.

        Raises: StartError; then everything stays as it was.
        """

    def remove(self, account: str) -> None:
        """The service of this account was stopped, or could not be started."""

    def stored(self) -> Iterable[str]:
        """Accounts that have something stored, by name, whether the server knows them or not."""

    def ready(self, seconds: float) -> None:
        """Note that all accounts of the start have their services, after so many seconds."""

    def close(self, *, at_once: bool = False) -> None:
        """The last service was stopped, or `open` failed, or was never called. Safe to call twice.

        `at_once`: the services were abandoned, and what they wrote last counts no more. `open` may follow.
        """


@runtime_checkable
class SharedServices(Protocol):
    """Services whose stores several servers have: one of these servers serves."""

    @property
    def ownership(self) -> Ownership:
        """The part that opens and closes the services."""


@runtime_checkable
class Hearing(Protocol):
    """A service that can do without requests for a moment."""

    def hear(self, *, on: bool) -> None:
        """Begin or end its subscription to requests."""


class HostedAccounts:
    """The services of one server's accounts, as options and tokens say now.

    They can be opened and closed any number of times while the server goes on.
    """

    def __init__(self, server: AccountServicesHost, services: AccountServices) -> None:
        self._server = server
        self.services: Final = services
        self._ownership = services.ownership if isinstance(services, SharedServices) else None
        self._proof = None if self._ownership is None else self._ownership.proven_until
        self._hosts: Final[dict[str, ServiceHost]] = {}
        self._seen: Final[dict[str, AccountOptions]] = {}
        self.is_open = False
        """Accounts are served."""

    async def start(self) -> None:
        """Start the services of all accounts, unless other servers may have them: see `join`.

        Raises: StartError for the first account that cannot be served.
        """
        if self._ownership is None:
            await self.open()
        self._server.accounts.follow(self.follow)

    async def join(self) -> None:
        """Take part in serving what several servers share, now that others can be heard.

        Returns when it is known which one serves, after `limits.OWNER_LOOK` at the latest.
        Raises: StartError.
        """
        ownership = self._ownership
        if ownership is None:
            return
        await ownership.begin(self._server, self)
        try:
            async with asyncio.timeout(limits.OWNER_LOOK):
                await ownership.settled()
        except TimeoutError:
            self._server.log.warning("It is not known yet which server has the streams")

    def reload(self, new: Options) -> None:
        """Take over changed options of what several servers share."""
        if self._ownership is not None:
            self._ownership.reload(new)

    async def leave(self) -> None:
        """Have another server serve what several share: this one is about to end."""
        if self._ownership is not None:
            await self._ownership.leave()

    async def part(self) -> None:
        """Take part no more in serving what several servers share. Safe to call twice."""
        if self._ownership is not None:
            await self._ownership.end()

    async def open(self) -> None:
        """Serve all accounts. Raises: StartError for the first account that cannot be served."""
        server = self._server
        began = server.loop.time()
        self.services.open(server.name, server.server_id)
        if server.authorizer is not None:
            # Who has something stored is served from the start, not from the first client on.
            await server.authorizer.load(self.services.stored())
        system = server.accounts.system
        for account in sorted(server.accounts, key=lambda account: account.name != system):
            self._add(account)  # the system account hears of the others
        self.is_open = True
        self.services.ready(server.loop.time() - began)

    async def retire(self) -> None:
        """Serve no account any more, in order: all that was taken is committed and answered first."""
        self.is_open = False
        hosts = list(self._hosts.values())
        loop = self._server.loop
        retiring = [loop.create_future() for _ in hosts]
        for host, retired in zip(hosts, retiring, strict=True):
            host.retire(partial(_set, retired))
        self._server.ticks.wake()
        await asyncio.gather(*retiring)
        self._server.stop_services(hosts)
        self._forget()
        self.services.close()

    def abandon(self) -> None:
        """Serve no account any more, from this call on: nothing is written, nobody is answered."""
        self.is_open = False
        self._server.stop_services(list(self._hosts.values()), at_once=True)
        self._forget()
        self.services.close(at_once=True)

    def _forget(self) -> None:
        for name in self._hosts:
            self.services.remove(name)
        self._hosts.clear()
        self._seen.clear()

    def follow(self) -> None:
        """Accounts have come, gone or changed; one that cannot be served is told of in the log."""
        if not self.is_open:
            return
        present = {account.name: account for account in self._server.accounts}
        for name in [name for name in self._seen if name not in present]:
            self._end(name)
        for account in present.values():
            if self._seen.get(account.name) != account.options:
                try:
                    self._change(account)
                except StartError as error:
                    self._server.log.error(
                        "Error configuring jetstream for account [%s]: %s", account.name, error
                    )

    def hear_anew(self, change: Callable[[], object]) -> None:
        """Call `change` while no service listens to requests."""
        hearing = [host.service for host in self._hosts.values() if isinstance(host.service, Hearing)]
        for service in hearing:
            service.hear(on=False)
        change()
        for service in hearing:
            service.hear(on=True)

    def stop(self) -> None:
        """Accounts that go from here on go with the server, which stops their services."""
        self.is_open = False

    def close(self) -> None:
        """Close what the services share, after they were stopped."""
        self.services.close()

    def _change(self, account: Account) -> None:
        self._seen[account.name] = account.options
        if account.name in self._hosts:
            if self.services.change(account.options):
                return
            self._end(account.name)
        self._add(account)

    def _add(self, account: Account) -> None:
        self._seen[account.name] = account.options
        is_system = account.name == self._server.accounts.system
        service = self.services.service(account.options, is_system=is_system)
        if service is None:
            return
        try:
            self._hosts[account.name] = self._server.start_service(
                service, account, maps=False, proof=self._proof
            )
        except StartError:
            self.services.remove(account.name)
            raise

    def _end(self, name: str) -> None:
        """Stop the service; its last messages still go out."""
        del self._seen[name]
        host = self._hosts.pop(name, None)
        if host is None:
            return
        self._server.stop_services([host])
        self.services.remove(name)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
