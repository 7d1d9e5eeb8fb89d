"""The time in which JetStream acknowledges what a client over MQTT publishes with QoS 1; else it is closed.

One deadline stands for all messages of a client: it is set for the first one, and again for the oldest one
that is left when it comes. The link knows them (`engine.mqtt_unconfirmed`).
Source: nats-server 2.15.1, which closes with the same line of the log.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from headrace.engine.reasons import CloseReason
from headrace.mqtt.requests import no_answer, operation_failed
from headrace.protocol.mqtt.reasons import Reason

if TYPE_CHECKING:
    from headrace.server.deadlines import Deadlines
    from headrace.server.mqtt.session import MqttSession


class StoreDeadline:
    """The deadline of one client's messages of QoS 1."""

    __slots__ = ("_deadlines", "_session", "_slot")

    def __init__(self, session: MqttSession, deadlines: Deadlines) -> None:
        self._session = session
        self._deadlines = deadlines
        self._slot = 0  # of the server's deadlines; 0: no message is on its way

    def begin(self) -> None:
        """Wait for the acknowledgement of a message that was published now, the first one."""
        self._set(self._timeout)

    @property
    def _timeout(self) -> float:
        """Seconds, by the configuration of now."""
        options = self._session.access.options
        return options.js_api_timeout

    def end(self) -> None:
        """Wait no more: the connection has ended."""
        if self._slot:
            self._deadlines.drop(self, self._slot)
            self._slot = 0

    def _set(self, seconds: float) -> None:
        self._slot = self._deadlines.set(self, seconds, self._due)

    def _due(self) -> None:
        self._slot = 0
        session = self._session
        oldest = session.link.publications.watch_unconfirmed()
        if oldest is None or session.link.is_closing:
            return
        identifier, since = oldest
        timeout = self._timeout
        left = timeout - (monotonic_ns() - since) / 1e9
        if left > 0:
            self._set(left)
        else:
            session.error(operation_failed(identifier, no_answer(timeout)))
            session.end_with(Reason.SERVER_BUSY, CloseReason.PROTOCOL_VIOLATION)
