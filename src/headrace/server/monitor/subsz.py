"""`/subsz` (also `/subscriptionsz`): the subject index, and on request the subscriptions in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.protocol.rfc3339 import short_time
from headrace.server.monitor import query as options
from headrace.server.monitor.connz import subscription_document
from headrace.server.monitor.query import QueryError
from headrace.server.monitor.text import number
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.server.monitor.source import MonitorSource, SublistSnapshot

DEFAULT_LIMIT: Final = 1024
"""Subscriptions in one answer when the request names no limit."""


def subsz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """The document.

    Raises: QueryError for an option that cannot be understood.
    """
    with_list = options.boolean(query, "subs")
    offset, limit = options.page(query, DEFAULT_LIMIT)
    test_text = query.get("test", "")
    test = test_text.encode("utf-8", "replace")
    if test and not grammar.is_valid_literal(test):
        raise QueryError(f"invalid test subject, must be valid publish subject: {test_text}")
    server = source.server()
    sublist = source.subscriptions(query.get("acc") or None)
    chosen = [
        subscription
        for subscription in (sublist.details() if with_list else ())
        if not test or grammar.matches(subscription.subject.encode("utf-8", "replace"), test)
    ]
    document: dict[str, object] = {
        "server_id": server.server_id,
        "now": short_time(server.now_ns),
        **sublist_document(sublist),
        "total": len(chosen),
        "offset": offset,
        "limit": limit,
    }
    page = chosen[offset : offset + limit]
    if page:
        document["subscriptions_list"] = [subscription_document(s, with_account=True) for s in page]
    return document


def sublist_document(sublist: SublistSnapshot) -> dict[str, object]:
    """The counters, as `/subsz` and `/accountz` show them."""
    return {
        "num_subscriptions": sublist.num_subscriptions,
        "num_cache": sublist.num_cache,
        "num_inserts": sublist.num_inserts,
        "num_removes": sublist.num_removes,
        "num_matches": sublist.num_matches,
        "cache_hit_rate": number(sublist.cache_hit_rate),
        "max_fanout": sublist.max_fanout,
        "avg_fanout": number(sublist.avg_fanout),
    }
