"""A consumer as its API shows it: the ConsumerInfo. Never here: the response around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.protocol.jetstream.responses import consumer_config
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from headrace.jetstream.consumer.port import ConsumerPort


def consumer_info(consumer: ConsumerPort) -> dict[str, object]:
    """Return the fields of ConsumerInfo, without the `type` of the response. Raises: LogError."""
    tracker, config = consumer.tracker, consumer.config
    state = tracker.state
    now = consumer.now_ns()
    last = state.delivered_stream
    if not tracker.is_stored and not state.delivered_consumer and not last:
        last = tracker.next_sequence - 1  # what it has passed by; a stored one shows that when it delivers
    delivered: dict[str, object] = {"consumer_seq": state.delivered_consumer, "stream_seq": last}
    if tracker.delivered_ns:
        delivered["last_active"] = short_time(tracker.delivered_ns)
    floor: dict[str, object] = {"consumer_seq": state.floor_consumer, "stream_seq": state.floor_stream}
    if tracker.acknowledged_ns:
        floor["last_active"] = short_time(tracker.acknowledged_ns)
    shown = consumer.delivery.info()
    info: dict[str, object] = {
        "stream_name": consumer.stream.name,
        "name": consumer.name,
        "created": short_time(consumer.created_ns),
        "config": consumer_config(config),
        "delivered": delivered,
        "ack_floor": floor,
        "num_ack_pending": len(tracker.pending),
        "num_redelivered": 0 if config.max_deliver == 1 else len(tracker.redelivered),
        "num_waiting": shown.waiting,
        "num_pending": consumer.num_pending(),
    }
    if shown.is_bound:
        info["push_bound"] = True
    if consumer.is_paused(now):
        info["paused"] = True
        info["pause_remaining"] = consumer.paused_until_ns - now
    info["ts"] = short_time(now)
    if shown.groups:
        info["priority_groups"] = shown.groups
    return info
