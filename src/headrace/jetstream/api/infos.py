"""The infos of the API: StreamInfo and ConsumerInfo.

State is theirs (`stream.state`, `consumer.info`); here is what stands around it. Source: JetStream
specification, 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.jetstream.leadership import cluster_info
from headrace.protocol.jetstream.levels import with_server
from headrace.protocol.jetstream.responses import stream_config
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.stream.stream import Stream


def stream_info(
    stream: Stream,
    *,
    with_version: bool = False,
    domain: bool = False,
    leader: bool = False,
    deleted_details: bool = False,
) -> dict[str, Any]:
    """Return the fields of StreamInfo.

    `with_version`: the configuration says which server answers. `leader`: that it leads itself.
    """
    account = stream.account
    info: dict[str, Any] = {
        "config": stream_config(stream.config, with_version=account.settings.version if with_version else ""),
        "created": short_time(stream.created_ns),
        "state": stream.state(deleted_details=deleted_details),
    }
    if domain and account.domain:
        info["domain"] = account.domain
    if account.settings.leadership is not None:
        info["cluster"] = cluster_info(account.settings.leadership())
    elif leader:
        info["cluster"] = {"leader": account.settings.server_name}
    info |= stream.sourcing.info()
    info["ts"] = short_time(account.turns.now_ns())
    return info


def consumer_info(consumer: Consumer, *, with_version: bool = False) -> dict[str, Any]:
    info: dict[str, Any] = consumer.info()
    leadership = consumer.account.settings.leadership
    if leadership is not None:
        told_at = info.pop("ts")
        info |= {"cluster": cluster_info(leadership()), "ts": told_at}
    if with_version:
        shown = info["config"]
        shown["metadata"] = with_server(shown.get("metadata", {}), consumer.account.settings.version)
    return info
