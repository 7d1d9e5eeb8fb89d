"""Shared subscriptions of MQTT 5.0 with QoS above 0: one consumer for all members of a group with one filter.

A member is a session, noted in the stream of sessions, so that any server knows when the last one has gone.
Members with QoS 0 need no consumer. Where a group has one, they take part in it, else messages that are
stored would reach the group twice; those that are there already hear of it when the first member makes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.mqtt.consumers import common_config
from headrace.mqtt.names import (
    MESSAGE_SUBJECT,
    MESSAGES,
    SESSION_SUBJECT,
    SESSIONS,
    shared_consumer,
    shared_deliver_subject,
)
from headrace.protocol.nuid import short_hash

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery, Host
    from headrace.mqtt.ports import HubPort

_MEMBERS: Final = SESSION_SUBJECT + b"share."


class Sharing:
    """The consumers of shared subscriptions in one account."""

    def __init__(self, account: HubPort) -> None:
        self._account = account
        self._waiting: dict[bytes, dict[bytes, Callable[[], None]]] = {}
        self.sid = 0

    # -- members with QoS 0 ----------------------------------------------------------------------------

    def start(self, host: Host) -> None:
        """Hear of the members of groups, whichever server they are at."""
        self.sid = host.subscribe(_MEMBERS + b"*.*")

    def heard(self, delivery: Delivery) -> None:
        """Take the note of a member: the group of its filter has a consumer, now or in a moment."""
        self._tell(delivery.subject.removeprefix(_MEMBERS).partition(b".")[0])

    async def has_consumer(self, config: dict[str, Any], client_hash: str, made: Callable[[], None]) -> bool:
        """True if the group has a consumer; `made` is called when it gets one, until `forget`.

        Raises: RequestFailed.
        """
        name = config["durable_name"]
        self._waiting.setdefault(_key(name), {})[client_hash.encode()] = made
        return await self._account.requests.consumer(MESSAGES, name) is not None

    def forget(self, config: dict[str, Any], client_hash: str) -> None:
        """A session is not told any more."""
        key = _key(config["durable_name"])
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.pop(client_hash.encode(), None) is not None and not waiting:
            del self._waiting[key]

    def _tell(self, key: bytes) -> None:
        for made in list(self._waiting.pop(key, {}).values()):
            made()

    # -- the consumer ----------------------------------------------------------------------------------

    def config(self, group: str, subjects: list[bytes]) -> dict[str, Any]:
        """Return the configuration of the consumer of a group; `subjects` are those of its one filter."""
        key = subjects[0].decode()
        filters = [(MESSAGE_SUBJECT + subject).decode() for subject in subjects]
        return {
            "durable_name": shared_consumer(group, key),
            "deliver_subject": shared_deliver_subject(group, key).decode(),
            "deliver_group": group,
            **({"filter_subject": filters[0]} if len(filters) == 1 else {"filter_subjects": filters}),
            **common_config(self._account.settings),
        }

    async def join(self, config: dict[str, Any], client_hash: str) -> None:
        """Make a session a member, and the consumer if it is the first. Raises: RequestFailed."""
        await self._account.requests.store(self._member(config["durable_name"], client_hash), b"", b"{}")
        await self._account.requests.create_consumer(MESSAGES, config)
        self._tell(_key(config["durable_name"]))

    async def leave(self, consumer: str, client_hash: str) -> None:
        """A session is no member any more; the consumer goes with the last one. Raises: RequestFailed."""
        requests = self._account.requests
        found = await requests.load_last(SESSIONS, self._member(consumer, client_hash))
        if found is not None:
            await requests.remove(SESSIONS, found.sequence)
        pattern = self._member(consumer, "*").decode()
        stream = await requests.stream(SESSIONS, subjects=pattern)
        if stream is not None and not stream.state.subjects:
            await requests.delete_consumer(MESSAGES, consumer)

    def _member(self, consumer: str, client_hash: str) -> bytes:
        return _MEMBERS + _key(consumer) + b"." + client_hash.encode()


def _key(consumer: str) -> bytes:
    """Return the token that stands for the consumer of a group."""
    return short_hash(consumer).encode()
