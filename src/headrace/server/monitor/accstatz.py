"""`/accstatz`: how many clients accounts have, and how much went through them.

Field names and order are the Go server's; there accounts come in random order, here as they are configured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.protocol.rfc3339 import short_time
from headrace.server.monitor import query as options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.server.monitor.source import AccountSnapshot, MonitorSource

_NO_LINKS: Final = {link: {"msgs": 0, "bytes": 0} for link in ("gateways", "routes", "leafs")}
"""The traffic of links to other servers, of which this server has none."""


def accstatz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """The document; accounts without clients are in it if asked for.

    Raises: QueryError for an option that cannot be understood.
    """
    include_unused = options.boolean(query, "unused")
    server = source.server()
    chosen = [account for account in source.accounts() if include_unused or account.connections]
    return statistics(server.server_id, server.now_ns, chosen)


def statistics(server_id: str, now_ns: int, accounts: Iterable[AccountSnapshot]) -> dict[str, object]:
    """The document on these accounts."""
    return {
        "server_id": server_id,
        "now": short_time(now_ns),
        "account_statz": [account_statistics(account) for account in accounts],
    }


def account_statistics(account: AccountSnapshot) -> dict[str, object]:
    """One account; `received` is what its clients sent."""
    return {
        "acc": account.name,
        "name": account.options.title,
        "conns": account.connections,
        "leafnodes": account.leafnodes,
        "total_conns": account.connections + account.leafnodes,
        "num_subscriptions": account.sublist.num_subscriptions,
        "sent": {"msgs": account.out_msgs, "bytes": account.out_bytes, **_NO_LINKS},
        "received": {"msgs": account.in_msgs, "bytes": account.in_bytes, **_NO_LINKS},
        "slow_consumers": account.slow_consumers,
    }
