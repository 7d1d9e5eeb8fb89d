"""Advisories and metrics of a consumer. Source: JetStream specification, 6.

Never here: whether anybody listens, or the time and the id of an event (`jetstream.advisories`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.protocol.jetstream.times import ZERO
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from headrace.jetstream.ports import AccountPort


class ConsumerAdvisories:
    """The advisories and metrics of one consumer."""

    __slots__ = ("_account", "_consumer", "_stream")

    def __init__(self, account: AccountPort, stream: str, consumer: str) -> None:
        self._account = account
        self._stream = stream
        self._consumer = consumer

    def _advise(self, what: str, kind: str, **fields: object) -> None:
        self._account.advise(
            f"CONSUMER.{what}.{self._stream}.{self._consumer}", kind,
            stream=self._stream, consumer=self._consumer, **fields,
        )  # fmt: skip

    def exhausted(self, sequence: int, deliveries: int) -> None:
        self._advise("MAX_DELIVERIES", "max_deliver", stream_seq=sequence, deliveries=deliveries)

    def negative(self, sequence: int, number: int, deliveries: int) -> None:
        self._advise(
            "MSG_NAKED", "nak", consumer_seq=number, stream_seq=sequence, deliveries=deliveries
        )  # fmt: skip

    def terminated(self, sequence: int, number: int, deliveries: int, reason: str) -> None:
        fields: dict[str, object] = {"consumer_seq": number, "stream_seq": sequence, "deliveries": deliveries}
        if reason:
            fields["reason"] = reason
        self._advise("MSG_TERMINATED", "terminated", **fields)

    def sampled(self, sequence: int, number: int, deliveries: int, took_ns: int) -> None:
        self._account.metric(
            f"CONSUMER.ACK.{self._stream}.{self._consumer}", "consumer_ack",
            stream=self._stream, consumer=self._consumer,
            consumer_seq=number, stream_seq=sequence, ack_time=took_ns, deliveries=deliveries,
        )  # fmt: skip

    def paused(self, until_ns: int, *, is_paused: bool) -> None:
        self._advise(
            "PAUSE",
            "consumer_pause",
            paused=is_paused,
            pause_until=short_time(until_ns) if until_ns else ZERO,
        )

    def pinned(self, group: str, client: str) -> None:
        self._advise(
            "PINNED", "consumer_group_pinned", account=self._account.name, group=group, pinned_id=client
        )  # fmt: skip

    def unpinned(self, group: str, reason: str) -> None:
        self._advise(
            "UNPINNED", "consumer_group_unpinned", account=self._account.name, group=group, reason=reason
        )  # fmt: skip
