"""Links by which the server itself publishes: one in each account, for as long as the account is there.

Never lives here: what is published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.service import Delivery
from headrace.engine.service import ServiceLink

if TYPE_CHECKING:
    from headrace.core.account import Account
    from headrace.server.port import LinkHost


class AccountLinks:
    """Links of one purpose. `maps`: whether what goes out by them is mapped, as what clients publish is."""

    def __init__(self, server: LinkHost, *, maps: bool = True) -> None:
        self._server = server
        self._maps = maps
        self._links: dict[Account, ServiceLink] = {}
        server.accounts.follow(self._accounts_changed)

    def knows(self, account: Account) -> bool:
        """True if the account is still one of the server's."""
        accounts = self._server.accounts
        return account.name in accounts and accounts[account.name] is account

    def of(self, account: Account) -> ServiceLink:
        """The one in an account, which is still one of the server's; made when it is first asked for."""
        link = self._links.get(account)
        if link is None:
            link = self._links[account] = ServiceLink(self._server.router, self._server.system.host, Delivery)
            link.interest = account.interest
            link.maps = self._maps
        return link

    def close(self) -> None:
        """Publish nothing any more."""
        for account in list(self._links):
            self._links.pop(account).detach()

    def _accounts_changed(self) -> None:
        for account in [account for account in self._links if not self.knows(account)]:
            self._links.pop(account).detach()
