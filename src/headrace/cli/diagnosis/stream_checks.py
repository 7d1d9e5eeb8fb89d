"""Checks of streams and consumers, by the jsz of their server.

Never lives here: their texts and severities (`table`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.diagnosis.symptoms import Symptom
from headrace.cli.values import read_time, shown_duration, shown_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.diagnosis.evidence import Evidence

FULL: Final = 0.9
"""The share of a stream's limit from which on it is nearly reached."""

IDLE_NS: Final = 3_600_000_000_000
"""The time after which a consumer with messages waiting is one that nobody reads: 1 h."""

STILL_NS: Final = 60_000_000_000
"""The time after which a source that says nothing is lost: 1 min."""

_OF_MQTT: Final = "$MQTT_"
_LIMITS: Final = ("max_msgs", "max_bytes", "max_age", "max_msgs_per_subject")


def endless_streams(evidence: Evidence) -> Iterator[Symptom]:
    """Streams that grow until the disk is full: without a limit that removes messages.

    Those of MQTT have what sessions wait for, which is said of their consumers.
    """
    for place, stream in _streams(evidence):
        config = stream.get("config") or {}
        if str(stream.get("name", "")).startswith(_OF_MQTT):
            continue
        if not config or config.get("sealed") or any(config.get(name, -1) > 0 for name in _LIMITS):
            continue
        state = stream.get("state") or {}
        kept = f"{state.get('messages', 0):,} messages, {shown_size(state.get('bytes', 0))}"
        only = "" if config.get("retention", "limits") == "limits" else f", {config['retention']} retention"
        yield Symptom(place, f"no max_age, max_bytes or max_msgs ({kept}{only})")


def full_streams(evidence: Evidence) -> Iterator[Symptom]:
    """Streams that will refuse messages soon: nearly full, and new ones are discarded."""
    for place, stream in _streams(evidence):
        config, state = stream.get("config") or {}, stream.get("state") or {}
        if config.get("discard") != "new":
            continue
        most, count = config.get("max_msgs", -1), state.get("messages", 0)
        if most > 0 and count >= most * FULL:
            yield Symptom(place, f"{count:,} of {most:,} messages")
        most, count = config.get("max_bytes", -1), state.get("bytes", 0)
        if most > 0 and count >= most * FULL:
            yield Symptom(place, f"{shown_size(count)} of {shown_size(most)}")


def lost_sources(evidence: Evidence) -> Iterator[Symptom]:
    """Mirrors and streams with sources that do not follow these."""
    for place, stream in _streams(evidence):
        mirror = stream.get("mirror")
        for source in [*([mirror] if mirror else []), *(stream.get("sources") or ())]:
            error = source.get("error")
            active, lag = source.get("active", 0), source.get("lag", 0)
            if error:
                text = error.get("description", error) if isinstance(error, dict) else error
                yield Symptom(place, f"{source.get('name')}: {text}")
            elif active < 0:
                yield Symptom(place, f"{source.get('name')} has never answered")
            elif active > STILL_NS and lag > 0:
                yield Symptom(
                    place, f"{source.get('name')}: {lag:,} behind, silent for {shown_duration(active)}"
                )


def lost_replicas(evidence: Evidence) -> Iterator[Symptom]:
    """Streams with replicas that are offline or behind."""
    for place, stream in _streams(evidence):
        cluster = stream.get("cluster") or {}
        replicas = cluster.get("replicas") or ()
        away = [str(each.get("name")) for each in replicas if each.get("offline") or not each.get("current")]
        if away:
            yield Symptom(place, f"not current: {', '.join(away)}")
        if replicas and not cluster.get("leader"):
            yield Symptom(place, "it has no leader")


def unread_consumers(evidence: Evidence) -> Iterator[Symptom]:
    """Consumers with messages waiting that nobody asks for."""
    for place, consumer, now in _consumers(evidence):
        waiting = consumer.get("num_pending", 0) + consumer.get("num_ack_pending", 0)
        is_read = consumer.get("num_waiting", 0) or consumer.get("push_bound")
        if not waiting or is_read or consumer.get("paused"):
            continue
        moments = [
            (consumer.get("delivered") or {}).get("last_active"),
            (consumer.get("ack_floor") or {}).get("last_active"),
            consumer.get("created"),
        ]
        last = max((read_time(each) for each in moments if each), default=0)
        if now - last > IDLE_NS:
            yield Symptom(
                place, f"{waiting:,} messages wait, nobody has read for {shown_duration(now - last)}"
            )


def endless_redelivery(evidence: Evidence) -> Iterator[Symptom]:
    """Consumers that deliver again what nobody acknowledges, without a `max_deliver`."""
    for place, consumer, _ in _consumers(evidence):
        config = consumer.get("config") or {}
        again = consumer.get("num_redelivered", 0)
        if again and config.get("max_deliver", -1) < 1 and config.get("ack_policy") != "none":
            yield Symptom(
                place, f"{again:,} messages were delivered more than once, and are not acknowledged"
            )


def blocked_consumers(evidence: Evidence) -> Iterator[Symptom]:
    """Consumers that deliver nothing more: as many messages as may be are not acknowledged."""
    for place, consumer, _ in _consumers(evidence):
        most = (consumer.get("config") or {}).get("max_ack_pending", -1)
        now = consumer.get("num_ack_pending", 0)
        if most > 0 and now >= most and consumer.get("num_pending", 0):
            waiting = consumer["num_pending"]
            yield Symptom(place, f"{now:,} of {most:,} are not acknowledged, {waiting:,} wait behind them")


def single_copies(evidence: Evidence) -> Iterator[Symptom]:
    """Streams of one copy in a cluster of nats-servers that could keep three."""
    servers = [server for server in evidence.servers if server.varz and not server.is_headrace]
    if len([server for server in servers if server.varz.get("jetstream")]) < 3:
        return
    for place, stream in _streams(evidence):
        config = stream.get("config") or {}
        if config.get("num_replicas", 1) == 1 and config.get("storage") == "file":
            yield Symptom(place, "num_replicas is 1")


def _streams(evidence: Evidence) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each stream once, by its leader, with its account and name."""
    seen = set()
    for server in evidence.servers:
        for account in server.jsz.get("account_details") or ():
            for stream in account.get("stream_detail") or ():
                name = str(stream.get("name", ""))
                leader = (stream.get("cluster") or {}).get("leader")
                replicas = (stream.get("cluster") or {}).get("replicas")
                is_follower = replicas and leader and leader != server.name
                key = (account.get("name"), name, "" if replicas else server.server_id)
                if is_follower or key in seen:
                    continue
                seen.add(key)
                yield f"{_account(account)}stream {name}", stream


def _consumers(evidence: Evidence) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yield each consumer with its place and the time of its server's document, ns."""
    for place, stream in _streams(evidence):
        for consumer in stream.get("consumer_detail") or ():
            told = consumer.get("ts")
            now = read_time(told) if told else evidence.now_ns
            yield f"{place}, consumer {consumer.get('name', '')}", consumer, now


def _account(account: dict[str, Any]) -> str:
    name = account.get("name", "")
    return f"account {name}, " if name and name != "$G" else ""
