"""The MQTT port of one server, with the hubs that its clients share with those over WebSocket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import StartError
from headrace.server.listener import bind
from headrace.server.mqtt.access import MqttWebSocketAccess
from headrace.server.mqtt.hubs import Hubs
from headrace.server.mqtt.listener import MqttListener
from headrace.server.mqtt.session import MqttSession

if TYPE_CHECKING:
    from headrace.server.monitor.source import MqttSnapshot
    from headrace.server.mqtt.hubs import HubsServer
    from headrace.server.session import ClientSession


class MqttPort:
    """The bound port, which does not listen yet, and the hubs of all clients over MQTT.

    Raises: StartError.
    """

    def __init__(self, server: HubsServer) -> None:
        options, contexts = server.options.mqtt, server.tls.contexts
        assert options is not None, "there is such a block"
        try:
            sock = bind(options.host, options.port)
        except StartError as error:
            raise StartError(f"Unable to listen for MQTT connections: {error}") from error
        self.hubs: Final = Hubs(server)
        self.listener: Final = MqttListener(server, self.hubs, contexts.mqtt.context, sock)
        self._server = server
        self._carried = MqttWebSocketAccess(server, self.hubs)
        server.log.info(
            "Listening for MQTT clients on %s://%s:%d", self.listener.scheme, options.host, self.listener.port
        )

    def snapshot(self) -> MqttSnapshot:
        """Count the clients and the retained messages of all accounts."""
        return self.hubs.snapshot()

    def users_changed(self) -> None:
        """Look whether what is retained may still be published by its users."""
        self.hubs.judge_retained(self._carried.authenticator)

    def carried_session(self, address: str, port: int) -> ClientSession:
        """Make the session of a client that has come through the WebSocket port."""
        return self._server.clients.new_session(self._carried, address, port, MqttSession)
