"""The permissions of a client over MQTT: those of every client, but for subjects that are the server's own.

A subscription whose messages are stored is two: one of the filter, and one of the subject to which a consumer
delivers. The second is allowed whoever may have the first, and goes with it.
Source: nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.engine.mqtt_topics import topic_of_subject
from headrace.protocol.mqtt.packets import Unsubscribe
from headrace.server.client_permissions import ALLOWED, ClientPermissions

if TYPE_CHECKING:
    from typing import Protocol

    from headrace.engine.client import ClientLink
    from headrace.mqtt.session import LiveSession

    class Filtering(Protocol):
        """A client with its filters; `stored` None: it has none."""

        @property
        def stored(self) -> LiveSession | None: ...


_INTERNAL: Final = b"$MQTT."
_SHARED: Final = b"$share/"


class MqttPermissions(ClientPermissions):
    """The permissions of one client over MQTT."""

    __slots__ = ("_client",)

    def __init__(self, client: Filtering) -> None:
        super().__init__()
        self._client = client

    def subscribe_permission(self, subject: bytes, queue: bytes | None) -> int:
        if subject.startswith(_INTERNAL):
            return ALLOWED
        return super().subscribe_permission(subject, queue)

    def drop_forbidden(self, link: ClientLink) -> list[tuple[bytes, bytes | None, bytes]]:
        removed = super().drop_forbidden(link)
        stored = self._client.stored
        filters = [_filter(subject, queue) for subject, queue, sid in removed if _names_filter(subject, sid)]
        if stored is not None and filters:
            stored.unsubscribe(Unsubscribe(0, filters), _ignore)
        return removed


def _names_filter(subject: bytes, sid: bytes) -> bool:
    """False for the second subscription of `a/#`, on `a`, which goes with the first."""
    return sid.endswith(subject)


def _filter(subject: bytes, queue: bytes | None) -> bytes:
    topic_filter = topic_of_subject(subject)
    return _SHARED + queue + b"/" + topic_filter if queue else topic_filter


def _ignore(_codes: list[int]) -> None:
    """Say nothing: the client has asked for nothing."""
