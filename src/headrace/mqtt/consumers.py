"""The consumers of a session's filters: their configurations, and how they are made, found again and deleted.

Source: configurations of nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.mqtt.names import (
    DELIVER_SUBJECT,
    MESSAGE_SUBJECT,
    RELEASE_DELIVER_SUBJECT,
    RELEASE_SUBJECT,
    release_consumer,
    subscription_consumer,
)
from headrace.mqtt.steps import begin
from headrace.protocol.nuid import new_nuid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.mqtt.ports import HubPort
    from headrace.mqtt.requests import ConsumerAnswer, JetStreamRequests
    from headrace.mqtt.settings import HubSettings

MOST_ASKED_AGAIN: Final = 10_000
"""Messages of one consumer that are asked for again when a session goes on; others wait for `ack_wait`."""


def subscription_config(settings: HubSettings, client_hash: str, subject: bytes) -> dict[str, Any]:
    """Return the configuration of a new consumer for a filter."""
    return {
        "durable_name": subscription_consumer(client_hash),
        "deliver_subject": (DELIVER_SUBJECT + new_nuid().encode()).decode(),
        "filter_subject": (MESSAGE_SUBJECT + subject).decode(),
        **common_config(settings),
    }


def release_config(settings: HubSettings, client_hash: str) -> dict[str, Any]:
    """Return the configuration of the consumer that delivers PUBRELs to a session."""
    return {
        "durable_name": release_consumer(client_hash),
        "deliver_subject": RELEASE_DELIVER_SUBJECT.decode() + client_hash,
        "filter_subject": RELEASE_SUBJECT.decode() + client_hash,
        **common_config(settings),
    }


def common_config(settings: HubSettings) -> dict[str, Any]:
    """Return what all consumers of sessions have."""
    config: dict[str, Any] = {
        "deliver_policy": "new",
        "ack_policy": "explicit",
        "ack_wait": settings.ack_wait_ns,
        "replay_policy": "instant",
        "max_ack_pending": settings.max_ack_pending,
    }
    if settings.consumer_inactive_threshold_ns:
        config["inactive_threshold"] = settings.consumer_inactive_threshold_ns
    if settings.consumer_memory_storage:
        config["mem_storage"] = True
    return config


async def delete_consumers(requests: JetStreamRequests, stream: str, names: Iterable[str]) -> None:
    """Delete consumers of a stream, all at once. Raises: RequestFailed."""
    for asked in [begin(requests.delete_consumer(stream, name)) for name in names]:
        await asked


async def find_consumer(account: HubPort, stream: str, config: dict[str, Any]) -> ConsumerAnswer | None:
    """Find the consumer of a filter again; it is made anew, and None returned, where it is gone.

    Raises: RequestFailed.
    """
    found = await account.requests.consumer(stream, config["durable_name"])
    if found is None:
        await account.requests.create_consumer(stream, config)
    return found


def ask_again(account: HubPort, stream: str, found: ConsumerAnswer) -> None:
    """Have a consumer send at once what it has sent, and nobody has acknowledged.

    A negative acknowledgement does nothing to a message that is not pending, so each sequence is tried.
    """
    first, last = found.ack_floor.stream_seq + 1, found.delivered.stream_seq
    if not found.num_ack_pending or last < first:
        return
    for sequence in range(first, min(last, first + MOST_ASKED_AGAIN) + 1):
        account.host.publish(ack_subject(stream, found, sequence), b"-NAK")
    account.host.announce()


def ack_subject(stream: str, found: ConsumerAnswer, sequence: int) -> bytes:
    """Return the subject to which a message that a consumer may have sent is acknowledged."""
    return f"$JS.ACK.{stream}.{found.name}.1.{sequence}.{found.delivered.consumer_seq}.1.0".encode()
