"""`/metrics`: the numbers of `/varz`, `/connz`, `/subsz` and `/healthz` as Prometheus text.

Names and labels are those that prometheus-nats-exporter makes of a server's JSON, so that dashboards
made for it work unchanged: `gnatsd_<endpoint>_<field>{server_id="…"}`, nested fields joined by `_`,
identifying texts as a 1 with the text in the label `value`, times in milliseconds since the Unix epoch.
Counters carry no `_total` there either and are therefore exposed as gauges.

Numbers per connection come only with `?connz_detailed=true`, as they do there with the flag of that name:
each connection ever seen would be a time series of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.server.monitor import query as options
from headrace.server.monitor.bucket_metrics import bucket_metrics
from headrace.server.monitor.connz import DEFAULT_LIMIT
from headrace.server.monitor.jetstream_metrics import jetstream_metrics
from headrace.server.monitor.source import ConnectionSnapshot, ConnectionState
from headrace.server.monitor.subsz import subsz
from headrace.server.monitor.varz import varz

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.server.monitor.source import MonitorSource, MqttSnapshot, ServerSnapshot

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_TEXT_FIELDS: Final = frozenset(("server_id", "server_name", "version"))
_TIME_FIELDS: Final = {"start": "start_ns", "config_load_time": "config_load_time_ns"}
_NS_PER_MS: Final = 1_000_000
_NS_PER_US: Final = 1_000

_CONNECTION_STATS: Final[dict[str, Callable[[ConnectionSnapshot], int]]] = {
    "pending_bytes": lambda c: c.pending_bytes,
    "subscriptions": lambda c: c.num_subscriptions,
    "in_bytes": lambda c: c.in_bytes,
    "out_bytes": lambda c: c.out_bytes,
    "in_msgs": lambda c: c.in_msgs,
    "out_msgs": lambda c: c.out_msgs,
}


def metrics(source: MonitorSource, request_counts: Mapping[str, int], query: Mapping[str, str]) -> bytes:
    """The exposition text.

    Raises: QueryError for an option that cannot be understood.
    """
    detailed = options.boolean(query, "connz_detailed")
    collector = _ServerCollector(source, request_counts, detailed, query.get("jsz", ""))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


class _ServerCollector(Collector):
    """Reads the server once per scrape and yields everything it says."""

    def __init__(
        self, source: MonitorSource, request_counts: Mapping[str, int], detailed: bool, jsz: str
    ) -> None:
        self._jsz = jsz
        self._source = source
        self._request_counts = request_counts
        self._detailed = detailed

    def collect(self) -> Iterator[Metric]:
        server = self._source.server()
        connections = list(self._source.connections(ConnectionState.OPEN))
        stats = self._source.jetstream()
        yield from _flattened("varz", varz(server, self._request_counts, stats), server)
        yield from _flattened("subsz", subsz(self._source, {}), server)
        yield from _page_stats(server, len(connections))
        for name, count in _CONNECTION_STATS.items():
            family = _family("connz", name)
            _add(family, server, sum(map(count, connections)))
            if self._detailed:
                _add_each(family, server, connections, count)
            yield family
        if self._detailed:
            yield from _timings(server, connections)
        yield from _health(server, self._source.health().error is None)
        if server.options.jetstream is not None:
            yield from jetstream_metrics(self._source, self._jsz)
        yield from bucket_metrics(server.server_id, self._source.buckets())
        if server.mqtt is not None:
            yield from _mqtt(server, server.mqtt)


def _flattened(
    endpoint: str, document: Mapping[str, object], server: ServerSnapshot, prefix: str = ""
) -> Iterator[Metric]:
    for field, value in document.items():
        name = _joined(prefix, field)
        if isinstance(value, dict):
            yield from _flattened(endpoint, value, server, name)
            continue
        family = _family(endpoint, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            _add(family, server, value)
        elif name in _TEXT_FIELDS:
            _add(family, server, 1, {"value": str(value)})
        elif name in _TIME_FIELDS:
            _add(family, server, getattr(server, _TIME_FIELDS[name]) // _NS_PER_MS)
        else:
            continue
        yield family


def _page_stats(server: ServerSnapshot, count: int) -> Iterator[Metric]:
    """Yield the counts of the first page of `/connz`."""
    page = {
        "num_connections": min(count, DEFAULT_LIMIT),
        "total": count,
        "offset": 0,
        "limit": DEFAULT_LIMIT,
    }
    for name, value in page.items():
        family = _family("connz", name)
        _add(family, server, value)
        yield family


def _timings(server: ServerSnapshot, connections: Sequence[ConnectionSnapshot]) -> Iterator[Metric]:
    """Yield the times of each connection, in milliseconds, but the round trip in microseconds."""
    timings: dict[str, Callable[[ConnectionSnapshot], int]] = {
        "start": lambda c: c.start_ns // _NS_PER_MS,
        "last_activity": lambda c: c.last_activity_ns // _NS_PER_MS,
        "rtt": lambda c: c.rtt_ns // _NS_PER_US,
        "uptime": lambda c: (server.now_ns - c.start_ns) // _NS_PER_MS,
        "idle": lambda c: (server.now_ns - c.last_activity_ns) // _NS_PER_MS,
    }
    for name, timing in timings.items():
        family = _family("connz", name)
        _add_each(family, server, connections, timing)
        yield family


def _health(server: ServerSnapshot, is_ok: bool) -> Iterator[Metric]:
    """Yield the metrics of health.

    `status` is 0 when well, `status_value` is 1 then: both are the exporter's.
    """
    status = _family("healthz", "status")
    _add(status, server, 0 if is_ok else 1)
    yield status
    value = _family("healthz", "status_value")
    _add(value, server, 1 if is_ok else 0, {"value": "ok" if is_ok else "error"})
    yield value


def _mqtt(server: ServerSnapshot, counts: MqttSnapshot) -> Iterator[Metric]:
    for name, text, value in (
        ("clients", "Clients over MQTT that have a session", counts.clients),
        ("retained_messages", "Retained messages of accounts with such clients", counts.retained),
    ):
        family = Metric(f"headrace_mqtt_{name}", text, "gauge")
        _add(family, server, value)
        yield family


def _family(endpoint: str, name: str) -> Metric:
    return Metric(f"gnatsd_{endpoint}_{name}", name, "gauge")


def _add(
    family: Metric, server: ServerSnapshot, value: float, labels: Mapping[str, str] | None = None
) -> None:
    family.add_sample(family.name, {"server_id": server.server_id, **(labels or {})}, value)


def _add_each(
    family: Metric,
    server: ServerSnapshot,
    connections: Sequence[ConnectionSnapshot],
    count: Callable[[ConnectionSnapshot], int],
) -> None:
    for connection in connections:
        _add(family, server, count(connection), _connection_labels(connection))


def _connection_labels(connection: ConnectionSnapshot) -> dict[str, str]:
    account = "" if connection.account == GLOBAL_ACCOUNT else connection.account
    return {
        "cid": str(connection.cid),
        "kind": connection.kind,
        "type": connection.type,
        "ip": connection.ip,
        "port": str(connection.port),
        "name": connection.name,
        "name_tag": connection.account,
        "account": account,
        "account_id": account,
        "lang": connection.lang,
        "version": connection.version,
        "tls_version": connection.tls_version,
        "tls_cipher_suite": connection.tls_cipher,
    }


def _joined(prefix: str, field: str) -> str:
    """Nested names joined by one `_` each; the `/` of endpoint paths counts as one too."""
    return "_".join(part for part in f"{prefix}_{field}".replace("/", "_").split("_") if part)
