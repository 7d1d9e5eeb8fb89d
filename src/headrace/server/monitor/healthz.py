"""`/healthz`: one word for probes, with the reason when the word is not "ok".

The query options and the texts are those of the Go server. What is looked at of JetStream: that its streams
could be recovered and can be written to, and that what a request names is there. What is ours: buckets that
cannot be used, or are too far behind; and how far they are where messages are acknowledged before.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from headrace.server.monitor import query as options
from headrace.server.monitor.bucket import bucket_problem, promises

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.server.monitor.bucket import BucketStats
    from headrace.server.monitor.jetstream import JetStreamStats, ShownAccount
    from headrace.server.monitor.source import MonitorSource

_NOT_FOUND, _UNAVAILABLE = HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE


class _Failure(NamedTuple):
    """One failure that /healthz shows.

    `status` is the word without details; `what` says of which account, stream and consumer.
    """

    code: HTTPStatus
    kind: str
    error: str
    status: str = "error"
    what: tuple[str, ...] = ()


def healthz(source: MonitorSource, query: Mapping[str, str]) -> tuple[int, dict[str, object]]:
    """HTTP status and document: 200, 400 for options that contradict, 500 when clients cannot be served; of
    JetStream 404 for what is not there and 503 for what does not work.

    Raises: QueryError for an option that cannot be understood.
    """
    enabled, enabled_only, server_only, _ = (
        options.boolean(query, name)
        for name in ("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only")
    )
    with_details = options.boolean(query, "details")
    account, stream, consumer = (query.get(name, "") for name in ("account", "stream", "consumer"))
    found = _of_options(account, stream, consumer)
    error = source.health().error
    if found is None and error is not None:
        found = _Failure(HTTPStatus.INTERNAL_SERVER_ERROR, "CONNECTION", error)
    if found is not None:
        return _document([found], with_details)
    if server_only or enabled or enabled_only:
        return HTTPStatus.OK, {"status": "ok"}
    buckets = source.buckets()
    broken = [
        *_broken_buckets(buckets),
        *_broken_jetstream(source.jetstream(), account, stream, consumer),
    ]
    if broken:
        return _document(broken, with_details)
    return HTTPStatus.OK, {"status": "ok", **promises(buckets)}


def failure(document: Mapping[str, object]) -> str:
    """Return the log line of a document that is not well."""
    errors = document.get("errors")
    return (
        f"{len(errors)} errors"
        if isinstance(errors, list)
        else json.dumps(document["error"], ensure_ascii=False)
    )


def _of_options(account: str, stream: str, consumer: str) -> _Failure | None:
    for name, wanted, thing in (("account", stream, "stream"), ("stream", consumer, "consumer")):
        if wanted and not {"account": account, "stream": stream}[name]:
            error = f'"{name}" must not be empty when checking {thing} health'
            return _Failure(HTTPStatus.BAD_REQUEST, "BAD_REQUEST", error)
    return None


def _apart(stats: JetStreamStats) -> _Failure | None:
    """Return the failure of a server that can neither serve streams nor follow the one that does."""
    meta = stats.meta_cluster
    if meta is None or ("leader" in meta and not stats.trouble):
        return None
    error = stats.trouble or "JetStream has not established contact with a meta leader"
    return _Failure(_UNAVAILABLE, "JETSTREAM", error, "unavailable")


def _missing(stats: JetStreamStats, account: str, stream: str, consumer: str) -> _Failure | None:
    """Return the failure of a request that names an account, stream or consumer that is missing."""
    if not account:
        return None
    of_account = next((each for each in stats.accounts if each.name == account), None)
    if of_account is None:
        error = f'JetStream account "{account}" not found'
        return _Failure(_NOT_FOUND, "ACCOUNT", error, "unavailable", (account,))
    of_stream = next((each for each in of_account.streams if each.name == stream), None)
    if stream and of_stream is None and stream not in of_account.broken:
        error = f'JetStream stream "{stream}" not found on account "{account}"'
        return _Failure(_NOT_FOUND, "STREAM", error, "unavailable", (account, stream))
    if consumer and of_stream is not None and consumer not in of_stream.consumers:
        error = f'JetStream consumer "{consumer}" not found for stream "{stream}" on account "{account}"'
        return _Failure(_NOT_FOUND, "CONSUMER", error, "unavailable", (account, stream, consumer))
    return None


def _broken(account: ShownAccount) -> Iterator[_Failure]:
    for stream, reason in account.broken.items():
        error = f"JetStream stream '{account.name} > {stream}' could not be recovered: {reason}"
        yield _Failure(_UNAVAILABLE, "STREAM", error, "unavailable", (account.name, stream))


def _broken_jetstream(
    stats: JetStreamStats | None, account: str, stream: str, consumer: str
) -> Iterator[_Failure]:
    """Yield the failures of JetStream, of the account and stream that are named or of all."""
    if stats is None:
        return
    apart = _apart(stats)
    if apart is not None:
        yield apart
    if apart is not None or not stats.is_leader:  # what is asked for is at the leader
        return
    missing = _missing(stats, account, stream, consumer)
    if missing is not None:
        yield missing
        return
    for each in stats.accounts:
        if account in ("", each.name):
            yield from (found for found in _broken(each) if stream in ("", found.what[1]))


def _broken_buckets(buckets: Mapping[str, BucketStats]) -> Iterator[_Failure]:
    for service, stats in buckets.items():
        problem = bucket_problem(service, stats)
        if problem is not None:
            yield _Failure(_UNAVAILABLE, "BUCKET", problem, "unavailable")


def _document(failures: list[_Failure], with_details: bool) -> tuple[int, dict[str, object]]:
    """Return the status and document of /healthz: with details all failures, else the first one."""
    first = failures[0]
    if not with_details:
        return first.code, {"status": first.status, "error": first.error}
    errors = [
        {
            "type": each.kind,
            **dict(zip(("account", "stream", "consumer"), each.what, strict=False)),
            "error": each.error,
        }
        for each in failures
    ]
    return first.code, {"status": "error", "errors": errors}
