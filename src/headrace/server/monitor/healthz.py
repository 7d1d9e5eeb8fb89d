"""`/healthz`: one word for probes, with the reason when the word is not "ok".

The query options are those of the Go server; the ones about JetStream are read and, without JetStream,
change nothing, as there.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from headrace.server.monitor import query as options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.server.monitor.source import MonitorSource

_JETSTREAM_OPTIONS: Final = ("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only")


def healthz(source: MonitorSource, query: Mapping[str, str]) -> tuple[int, dict[str, object]]:
    """HTTP status and document: 200, 400 for options that contradict, 500 when clients cannot be served.

    Raises: QueryError for an option that cannot be understood.
    """
    for name in _JETSTREAM_OPTIONS:
        options.boolean(query, name)
    with_details = options.boolean(query, "details")
    account, stream, consumer = (query.get(name, "") for name in ("account", "stream", "consumer"))
    if stream and not account:
        return _failure(
            HTTPStatus.BAD_REQUEST,
            "BAD_REQUEST",
            '"account" must not be empty when checking stream health',
            with_details,
        )
    if consumer and not stream:
        return _failure(
            HTTPStatus.BAD_REQUEST,
            "BAD_REQUEST",
            '"stream" must not be empty when checking consumer health',
            with_details,
        )
    error = source.health().error
    if error is not None:
        return _failure(HTTPStatus.INTERNAL_SERVER_ERROR, "CONNECTION", error, with_details)
    return HTTPStatus.OK, {"status": "ok"}


def _failure(status: HTTPStatus, kind: str, error: str, with_details: bool) -> tuple[int, dict[str, object]]:
    if with_details:
        return status, {"status": "error", "errors": [{"type": kind, "error": error}]}
    return status, {"status": "error", "error": error}
