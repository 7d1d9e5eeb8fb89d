"""The MQTT port: that for clients, with the TLS and the rules of its own block.

A client speaks first, so a handshake always comes first where there is TLS. Where clients without it are
allowed beside, the first byte tells: 0x16 begins a handshake, 0x10 a CONNECT. A PROXY protocol header may
stand before both; no packet begins as one.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace import limits
from headrace.server.listener import Listener
from headrace.server.mqtt.access import MqttAccess
from headrace.server.mqtt.session import MqttSession

if TYPE_CHECKING:
    import ssl

    from headrace.server.listener import ListenerHost
    from headrace.server.mqtt.hubs import Hubs
    from headrace.server.session import ClientSession


class MqttListener(Listener):
    """The MQTT port of one server. `context` None: no TLS."""

    def __init__(
        self, server: ListenerHost, hubs: Hubs, context: ssl.SSLContext | None, sock: socket.socket
    ) -> None:
        access = MqttAccess(server, hubs)
        super().__init__(server, context, sock, host=access.options.host, access=access)
        _keep_alive(sock)

    @property
    def scheme(self) -> str:
        """The scheme of the port's URLs."""
        return "mqtt" if self._access.tls is None else "tls"

    def _takes_rate(self) -> None:
        """Take all handshakes, as nats-server does at this port."""

    @property
    def _handshake_first(self) -> float | None:
        return None

    def _new_session(self, host: str, port: int) -> ClientSession:
        return self._server.clients.new_session(self._access, host, port, MqttSession)


def _keep_alive(sock: socket.socket) -> None:
    """Have the system ask whether peers are there: a client whose keep alive is 0 is not asked otherwise.

    Connections have the options of the socket that accepts them.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", limits.MQTT_TCP_KEEP_ALIVE),
        ("TCP_KEEPINTVL", limits.MQTT_TCP_KEEP_ALIVE),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            with suppress(OSError):  # the system's own times hold then
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
