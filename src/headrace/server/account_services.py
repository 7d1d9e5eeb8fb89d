"""Services that accounts have of their own: started with an account, changed and stopped with it.

Here lives which account has one now. Never lives here: what such services do (`headrace.jetstream`), which
accounts there are (`core.accounts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from headrace.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.conf.account_options import AccountOptions
    from headrace.core.account import Account
    from headrace.core.service import Service
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

    def close(self) -> None:
        """The last service was stopped, or `open` failed, or was never called. Safe to call twice."""


@runtime_checkable
class Hearing(Protocol):
    """A service that can do without requests for a moment."""

    def hear(self, *, on: bool) -> None:
        """Begin or end its subscription to requests."""


class HostedAccounts:
    """The services of one server's accounts, as options and tokens say now."""

    def __init__(self, server: AccountServicesHost, services: AccountServices) -> None:
        self._server = server
        self.services: Final = services
        self._hosts: Final[dict[str, ServiceHost]] = {}
        self._seen: Final[dict[str, AccountOptions]] = {}
        self._is_open = False

    async def start(self) -> None:
        """Start the services of all accounts.

        Raises: StartError for the first account that cannot be served.
        """
        server = self._server
        began = server.loop.time()
        self.services.open(server.name, server.server_id)
        if server.authorizer is not None:
            # Who has something stored is served from the start, not from the first client on.
            await server.authorizer.load(self.services.stored())
        for account in list(server.accounts):
            self._add(account)
        self._is_open = True
        server.accounts.follow(self.follow)
        self.services.ready(server.loop.time() - began)

    def follow(self) -> None:
        """Accounts have come, gone or changed; one that cannot be served is told of in the log."""
        if not self._is_open:
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
        self._is_open = False

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
            self._hosts[account.name] = self._server.start_service(service, account, maps=False)
        except StartError:
            self.services.remove(account.name)
            raise

    def _end(self, name: str) -> None:
        """Stop the service; its last messages still go out."""
        del self._seen[name]
        host = self._hosts.pop(name, None)
        if host is None:
            return
        self._server.stop_service(host)
        self.services.remove(name)
