"""The rules for all clients over MQTT: the credentials of the block where it has some, and its certificates.

Source: nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.server.access import Access, own_authenticator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.mqtt_options import MqttOptions
    from headrace.conf.tls_options import TLSOptions
    from headrace.server.auth import Authenticator
    from headrace.server.mqtt.hubs import Hubs
    from headrace.server.port import AccessHost


class MqttAccess(Access):
    """The rules of the MQTT port. `hubs`: of the accounts that its clients act in."""

    connection_type = "MQTT"
    kind = "mqtt"
    log_name = "mid"

    def __init__(self, server: AccessHost, hubs: Hubs) -> None:
        super().__init__(server)
        self.hubs = hubs
        self._own: Authenticator | None = None
        self._made_beside: Authenticator | None = None

    @property
    def options(self) -> MqttOptions:
        """The block as it is now: a reload may have changed it."""
        block = self._server.options.mqtt
        assert block is not None, "there is an MQTT port"
        return block

    @property
    def authenticator(self) -> Authenticator:
        others = super().authenticator
        if self._made_beside is not others:  # at first, and when the users have changed
            self._own = own_authenticator(self._server.options, self.options)
            self._made_beside = others
        return self._own or others

    @property
    def needs_first_op(self) -> bool:
        """True: CONNECT is the first packet in any case."""
        return True

    @property
    def auth_timeout(self) -> float:
        timeout = self.options.authorization.timeout
        return super().auth_timeout if timeout is None else timeout

    @property
    def tls(self) -> TLSOptions | None:
        return self.options.tls

    def info_line(self, _own: Mapping[str, Any]) -> bytes:
        """Return nothing: there is no INFO here."""
        return b""


class MqttWebSocketAccess(MqttAccess):
    """The rules for clients over MQTT that come through the WebSocket port."""

    connection_type = "MQTT_WS"

    @property
    def tls(self) -> TLSOptions | None:
        """TLS of the port that they come through."""
        block = self._server.options.websocket
        return block.tls if block is not None else None

    @property
    def maps_certificates(self) -> bool:
        """True if a certificate says which user a client is: the MQTT block decides."""
        tls = self.options.tls
        return tls is not None and tls.verify_and_map and self.authenticator.has_names
