"""`/accountz`: the names of all accounts, or one account with what it exports, imports and maps.

Field names and order are the Go server's; exports and imports of system services are listed, too.
"""

from __future__ import annotations

from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from headrace.conf.account_rules import export_for
from headrace.protocol.rfc3339 import short_time
from headrace.server.monitor.query import QueryError
from headrace.server.monitor.subsz import sublist_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.conf.account_options import ExportOptions, ImportOptions, LatencyOptions, SubjectMapping
    from headrace.server.monitor.source import AccountSnapshot, MonitorSource

_RESPONSE_TYPES: Final = {"singleton": "Singleton", "stream": "Streamed", "chunked": "Chunked"}
_ALL: Final = 100


def accountz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """The document. Raises: QueryError for an account that does not exist."""
    server = source.server()
    accounts = {account.name: account for account in source.accounts()}
    document: dict[str, object] = {"server_id": server.server_id, "now": short_time(server.now_ns)}
    if server.system_account is not None:
        document["system_account"] = server.system_account
    name = query.get("acc", "")
    if not name:
        document["accounts"] = list(accounts)
        return document
    if name not in accounts:
        raise QueryError(f"Account {name} does not exist")
    document["account_detail"] = _detail(
        accounts[name],
        accounts,
        is_system=name == server.system_account,
        runs_jetstream=server.options.jetstream is not None,
    )
    return document


def _detail(
    account: AccountSnapshot,
    accounts: Mapping[str, AccountSnapshot],
    *,
    is_system: bool,
    runs_jetstream: bool,
) -> dict[str, object]:
    options = account.options
    importing = [_import(item, _latency_of(item, account.name, accounts)) for item in options.imports]
    fields: dict[str, object] = {
        "account_name": account.name,
        "update_time": short_time(account.loaded_ns),
        "is_system": is_system or None,
        "expired": False,
        "complete": True,
        "jetstream_enabled": runs_jetstream and options.jetstream is not None,
        "leafnode_connections": account.leafnodes,
        "client_connections": account.connections,
        "subscriptions": account.sublist.num_subscriptions,
        "mappings": _mappings(options.mappings) or None,
        "exports": [_export(item) for item in options.exports] or None,
        "imports": importing or None,
        "name_tag": options.title,
        "sublist_stats": sublist_document(account.sublist),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _mappings(mappings: Sequence[SubjectMapping]) -> dict[str, list[dict[str, object]]]:
    """Destinations by subject: those of no cluster, then those of each."""
    by_source: dict[str, dict[str, list[tuple[int, str]]]] = {}
    for mapping in mappings:
        clusters = by_source.setdefault(mapping.source, {"": []})
        clusters.setdefault(mapping.cluster, []).append((mapping.weight, mapping.destination))
    return {source: _destinations(source, by_source[source]) for source in sorted(by_source)}


def _destinations(source: str, clusters: Mapping[str, list[tuple[int, str]]]) -> list[dict[str, object]]:
    """Return the destinations of a mapping, each with the sum of the weights up to it.

    The rest stays with the source.
    """
    loses = any(subject == source for weighted in clusters.values() for _, subject in weighted)
    found: list[dict[str, object]] = []
    for cluster, weighted in clusters.items():
        rest = _ALL - sum(weight for weight, _ in weighted)
        same = [(rest, _numbered(source))] if rest and not loses else []
        total = 0
        for weight, subject in sorted((*weighted, *same), key=itemgetter(0)):
            total += weight
            found.append({"subject": subject, "weight": total, **({"cluster": cluster} if cluster else {})})
    return found


def _numbered(source: str) -> str:
    """The source as its own destination: each `*` is one by number."""
    numbers = count(1)
    return ".".join(f"${next(numbers)}" if token == "*" else token for token in source.split("."))


def _export(export: ExportOptions) -> dict[str, object]:
    fields: dict[str, object] = {
        "subject": export.subject,
        "type": "service" if export.is_service else "stream",
        "response_type": _RESPONSE_TYPES[export.response_type] if export.is_service else None,
        "service_latency": _latency(export.latency) if export.latency else None,
        "approved_accounts": list(export.accounts) if export.accounts else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _latency(latency: LatencyOptions) -> dict[str, object]:
    return {"sampling": latency.sampling or "headers", "results": latency.subject}


def _latency_of(
    item: ImportOptions, importer: str, accounts: Mapping[str, AccountSnapshot]
) -> LatencyOptions | None:
    """Return the sampling of an imported service's response times, as its export defines it."""
    exporter = accounts.get(item.account)
    export = export_for(item, importer, exporter.options) if exporter is not None else None
    return export.latency if export is not None else None


def _import(item: ImportOptions, latency: LatencyOptions | None) -> dict[str, object]:
    fields: dict[str, object] = {
        "subject": item.subject,
        "account": item.account,
        "to": item.local if item.is_service else None,
        "local_subject": item.local,
        "type": "service" if item.is_service else "stream",
        "invalid": False,
        "share": item.share,
        "tracking": False,
        "latency": _latency(latency) if latency is not None else None,
    }
    return {name: value for name, value in fields.items() if value is not None}
