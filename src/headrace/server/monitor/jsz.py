"""`/jsz`: JetStream as a whole, and on demand its accounts, streams and consumers.

Field names and order are the Go server's. There streams of an account come in random order, here as they were
made. A server without JetStream says that it has none, with all numbers at zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.protocol.rfc3339 import short_time
from headrace.server.monitor import jetstream
from headrace.server.monitor import query as options
from headrace.server.monitor.archive import archive_field
from headrace.server.monitor.bucket import bucket_field
from headrace.server.monitor.gathered import at_once

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from headrace.conf.account_options import AccountOptions
    from headrace.server.monitor.jetstream import Document, JetStreamStats, ShownAccount, ShownStream
    from headrace.server.monitor.source import MonitorSource

    Steps = Generator[None, None, Document]

DEFAULT_LIMIT: Final = 1024
"""Accounts in one answer when the request names no limit."""

STREAMS_PER_STEP: Final = 20
"""Streams told of before the event loop gets its turn: about a millisecond, with a few consumers each."""

_UNSIGNED: Final = 1 << 64
_OF_STREAM: Final = ("name", "created", "cluster", "config", "state")
_ORIGINS: Final = ("mirror", "sources")
_NOTHING: Final = {
    "memory": 0,
    "storage": 0,
    "reserved_memory": 0,
    "reserved_storage": 0,
    "accounts": 0,
    "ha_assets": 0,
    "api": {"level": 0, "total": 0, "errors": 0},
}


class JszOptions(Struct, frozen=True):
    """The parts of accounts that a request asks for."""

    streams: bool = False
    consumers: bool = False
    direct_consumers: bool = False
    config: bool = False


def jsz(source: MonitorSource, query: Mapping[str, str]) -> Document:
    """The document. Raises: QueryError for an option that cannot be understood."""
    return at_once(jsz_steps(source, query))


def jsz_steps(source: MonitorSource, query: Mapping[str, str]) -> Steps:
    """The document in steps, between which others may work. Raises: as `jsz`."""
    wanted, account, lists = _wanted(query)
    leads = options.boolean(query, "raft")  # what this server leads, which is all of it
    wants_leader, _ = (options.boolean(query, name) for name in ("leader-only", "stream-leader-only"))
    offset, limit = options.integer(query, "offset"), options.integer(query, "limit")
    server, stats = source.server(), source.jetstream()
    head = {"server_id": server.server_id, "now": short_time(server.now_ns)}
    runs = stats is not None and server.options.jetstream is not None
    if wants_leader and not (runs and stats is not None and stats.is_leader):
        raise options.QueryError("filtered response: not leader")
    if stats is None or server.options.jetstream is None:
        return {**_NOTHING, **head, "disabled": True, **_totals(None, leads=False), "total": 0}
    document: Document = {
        **jetstream.statistics(stats),
        **head,
        "config": jetstream.configuration(server.options.jetstream, stats),
        "limits": jetstream.limits(server.options.jetstream),
        **_totals(stats, leads=leads),
        **({} if stats.meta_cluster is None else {"meta_cluster": stats.meta_cluster}),
        **archive_field(stats.archive),
        **bucket_field(source.buckets().get("JetStream")),
    }
    chosen = _chosen(stats, account, lists, max(offset, 0), limit or DEFAULT_LIMIT)
    if chosen:
        known = {each.name: each.options for each in source.accounts()}
        details = []
        for each in chosen:
            details.append((yield from _detail(each, known.get(each.name), wanted)))
        document["account_details"] = details
    document["total"] = len(stats.accounts)
    return document


def account_jsz_steps(source: MonitorSource, account: str, query: Mapping[str, str]) -> Steps:
    """One account. Raises: QueryError when there is none of that name, or none with JetStream."""
    stats = source.jetstream()
    if stats is None:
        raise options.QueryError("jetstream not enabled")
    known = {each.name: each.options for each in source.accounts()}
    if account not in known:
        raise options.QueryError(f'account "{account}" not found')
    found = next((each for each in stats.accounts if each.name == account), None)
    if found is None:
        raise options.QueryError(f'account "{account}" not jetstream enabled')
    wanted, _, _ = _wanted(query, follows=False)
    return (yield from _detail(found, known[account], wanted))


def _wanted(query: Mapping[str, str], *, follows: bool = True) -> tuple[JszOptions, str, bool]:
    """Read a request: the parts to show, the account, and whether accounts are listed at all.

    `follows`: who asks for consumers sees streams too, and their accounts.
    """
    lists, streams, consumers, direct, config = (
        options.boolean(query, name)
        for name in ("accounts", "streams", "consumers", "direct-consumers", "config")
    )
    account = query.get("acc", "")
    if follows:
        streams = streams or consumers
        lists = lists or (streams and not account)
    return JszOptions(streams, consumers, direct, config), account, lists


def _totals(stats: JetStreamStats | None, *, leads: bool) -> Document:
    if stats is None:
        return {"config": {"max_memory": 0, "max_storage": 0}, "streams": 0, "consumers": 0, **_sums(())}
    streams = [stream for account in stats.accounts for stream in account.streams]
    consumers = sum(len(stream.consumers) for stream in streams)
    return {
        "streams": len(streams),
        **({"streams_leader": len(streams)} if leads and streams else {}),
        "consumers": consumers,
        **({"consumers_leader": consumers} if leads and consumers else {}),
        **_sums(streams),
    }


def _sums(streams: Sequence[ShownStream]) -> Document:
    return {
        "messages": sum(stream.messages for stream in streams),
        "bytes": sum(stream.bytes for stream in streams),
    }


def _chosen(
    stats: JetStreamStats, account: str, lists: bool, offset: int, limit: int
) -> Sequence[ShownAccount]:
    """Return the accounts to list, the named one first; one that is not there leaves the choice to the other
    options.
    """
    named = [each for each in stats.accounts if each.name == account]
    if named or not lists:
        return named
    return stats.accounts[offset : offset + limit] if limit > 0 else stats.accounts


def _detail(account: ShownAccount, known: AccountOptions | None, wanted: JszOptions) -> Steps:
    """Yield the details of one account.

    `reserved_…` are the account's limits, -1 as the largest number, as in the Go server.
    """
    limits = (known.jetstream or {}).get("") if known is not None else None
    document: Document = {
        "name": known.title if known is not None else account.name,
        "id": account.name,
        "memory": account.memory,
        "storage": account.storage,
        "reserved_memory": limits.max_memory % _UNSIGNED if limits else 0,
        "reserved_storage": limits.max_storage % _UNSIGNED if limits else 0,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": account.api_total, "errors": account.api_errors},
    }
    if not wanted.streams:
        return document
    details = []
    for number, stream in enumerate(account.streams, 1):
        said = stream.document()
        if said:
            details.append(_stream(stream, said, wanted))
        if number % STREAMS_PER_STEP == 0:
            yield
    if details:
        document["stream_detail"] = details
    return document


def _stream(stream: ShownStream, said: Document, wanted: JszOptions) -> Document:
    found = {"name": stream.name, **jetstream.configured(said, wanted=wanted.config)}
    document: Document = {name: found[name] for name in _OF_STREAM if name in found}
    for direct, field in ((False, "consumer_detail"), (True, "direct_consumer_detail")):
        if wanted.consumers and (wanted.direct_consumers or not direct):
            consumers = [
                jetstream.configured(each, wanted=wanted.config)
                for each in stream.consumer_documents(direct=direct)
            ]
            if consumers:
                document[field] = consumers
    document.update((name, found[name]) for name in _ORIGINS if found.get(name))
    return document
