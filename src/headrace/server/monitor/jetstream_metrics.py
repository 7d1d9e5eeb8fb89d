"""The numbers of `/jsz` as Prometheus metrics.

Names and labels are those that prometheus-nats-exporter makes of that document (`jetstream_server_…`,
`jetstream_account_…`, `jetstream_stream_…`, `jetstream_consumer_…`). Accounts, streams and consumers come
only when a request asks for them (`?jsz=accounts`, `streams`, `consumers` or `all`), as they do there with
the flag of that name: each would be a time series of its own.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import Metric

from headrace.server.monitor.jsz import jsz

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.server.monitor.source import MonitorSource

_CONSUMERS: Final = {"consumers": "1", "config": "1", "raft": "1"}
_QUERIES: Final = {
    "account": {"accounts": "1"},
    "accounts": {"accounts": "1"},
    "stream": {"streams": "1"},
    "streams": {"streams": "1"},
    **dict.fromkeys(("consumer", "consumers", "all"), _CONSUMERS),
}

_OF_SERVER: Final = {
    "jetstream_disabled": ("disabled",),
    "max_memory": ("config", "max_memory"),
    "max_storage": ("config", "max_storage"),
    "total_streams": ("streams",),
    "total_consumers": ("consumers",),
    "total_messages": ("messages",),
    "total_message_bytes": ("bytes",),
}
_OF_ACCOUNT: Final = {
    "max_storage": ("reserved_storage",),
    "max_memory": ("reserved_memory",),
    "storage_used": ("storage",),
    "memory_used": ("memory",),
}
_OF_STREAM: Final = {
    "total_messages": ("state", "messages"),
    "total_bytes": ("state", "bytes"),
    "first_seq": ("state", "first_seq"),
    "last_seq": ("state", "last_seq"),
    "consumer_count": ("state", "consumer_count"),
    "subject_count": ("state", "num_subjects"),
}
_LIMITS_OF_STREAM: Final = {"limit_bytes": ("config", "max_bytes"), "limit_messages": ("config", "max_msgs")}
_OF_CONSUMER: Final = {
    "delivered_consumer_seq": ("delivered", "consumer_seq"),
    "delivered_stream_seq": ("delivered", "stream_seq"),
    "num_ack_pending": ("num_ack_pending",),
    "num_redelivered": ("num_redelivered",),
    "num_waiting": ("num_waiting",),
    "num_pending": ("num_pending",),
    "ack_floor_stream_seq": ("ack_floor", "stream_seq"),
    "ack_floor_consumer_seq": ("ack_floor", "consumer_seq"),
}
_SECONDS_OF_CONSUMER: Final = {"last_delivery_seconds": "delivered", "last_ack_seconds": "ack_floor"}

Labels = dict[str, str]


def jetstream_metrics(source: MonitorSource, which: str) -> Iterator[Metric]:
    """Yield the metrics of JetStream.

    `which`: the value of the option `jsz`; an unknown one is as good as none.
    """
    document = jsz(source, _QUERIES.get(which.lower(), {}))
    families = _Families()
    labels = {
        "server_id": document["server_id"],
        "server_name": source.server().server_name,
        "cluster": "",
        "domain": document["config"].get("domain", ""),
        "meta_leader": "",
        "is_meta_leader": "true",
    }
    families.add_all("server", _OF_SERVER, document, labels)
    for account in document.get("account_details", ()):
        _add_account(families, account, labels)
    yield from families.found.values()


class _Families:
    """Metrics by name, each with the samples of everything that has it."""

    def __init__(self) -> None:
        self.found: dict[str, Metric] = {}

    def add_all(
        self, kind: str, fields: Mapping[str, tuple[str, ...]], document: Mapping[str, Any], labels: Labels
    ) -> None:
        for name, path in fields.items():
            value: Any = document
            for step in path:
                value = value.get(step, 0)
            self.add(kind, name, float(value), labels)

    def add(self, kind: str, name: str, value: float, labels: Labels) -> None:
        full = f"jetstream_{kind}_{name}"
        family = self.found.get(full)
        if family is None:
            family = self.found[full] = Metric(full, name, "gauge")
        family.add_sample(full, labels, value)


def _add_account(families: _Families, account: Mapping[str, Any], server: Labels) -> None:
    labels = {
        **server,
        "account": account["name"],
        "account_name": account["name"],
        "account_id": account["id"],
    }
    families.add_all("account", _OF_ACCOUNT, account, labels)
    for stream in account.get("stream_detail", ()):
        _add_stream(families, stream, labels)


def _add_stream(families: _Families, stream: Mapping[str, Any], account: Labels) -> None:
    labels = {
        **account,
        "stream_name": stream["name"],
        "stream_leader": stream.get("cluster", {}).get("leader", ""),
        "is_stream_leader": "true",
        "stream_raft_group": "",
    }
    families.add_all("stream", _OF_STREAM, stream, labels)
    if "config" in stream:
        families.add_all("stream", _LIMITS_OF_STREAM, stream, labels)
    mirror = stream.get("mirror")
    for kind, origins in (("source", stream.get("sources", ())), ("mirror", (mirror,) if mirror else ())):
        for origin in origins:
            external = origin.get("external") or {}
            where = {
                **labels,
                f"{kind}_name": origin["name"],
                f"{kind}_api": external.get("api", ""),
                f"{kind}_deliver": external.get("deliver", ""),
            }
            families.add("stream", f"{kind}_lag", float(origin["lag"]), where)
            families.add("stream", f"{kind}_active_duration_ns", float(origin["active"]), where)
    for consumer in stream.get("consumer_detail", ()):
        _add_consumer(families, consumer, labels)


def _add_consumer(families: _Families, consumer: Mapping[str, Any], stream: Labels) -> None:
    labels = {
        **stream,
        "consumer_name": consumer["name"],
        "consumer_leader": "",
        "is_consumer_leader": "true",
        "consumer_desc": consumer.get("config", {}).get("description", ""),
    }
    families.add_all("consumer", _OF_CONSUMER, consumer, labels)
    for name, place in _SECONDS_OF_CONSUMER.items():
        last = consumer[place].get("last_active")
        if last is not None:
            passed = (datetime.fromisoformat(consumer["ts"]) - datetime.fromisoformat(last)).total_seconds()
            families.add("consumer", name, passed, labels)
