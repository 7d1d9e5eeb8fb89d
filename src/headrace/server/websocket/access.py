"""Access of clients over WebSocket: the credentials of the block where it has some, and INFO.

Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.protocol.info import PortInfo
from headrace.server.access import Access, own_authenticator
from headrace.server.info import websocket_urls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.websocket_options import WebSocketOptions
    from headrace.server.auth import Authenticator
    from headrace.server.port import InfoHost


class WebSocketAccess(Access):
    """The access of clients that come over WebSocket. `port`: the one that is bound."""

    connection_type = "WEBSOCKET"
    kind = "websocket"
    log_name = "wid"

    _server: InfoHost

    def __init__(self, server: InfoHost, options: WebSocketOptions, port: int) -> None:
        super().__init__(server)
        self._options = options
        self._own: Authenticator | None = None
        self._made_beside: Authenticator | None = None
        self._info = PortInfo({})
        self._info_beside: PortInfo | None = None
        self._own_info = {
            "host": options.host,
            "port": port,
            "tls_required": options.tls is not None,
            "tls_available": options.tls is not None,
        }

    @property
    def authenticator(self) -> Authenticator:
        others = super().authenticator
        if self._made_beside is not others:  # at first, and when the users have changed
            self._own = own_authenticator(self._server.options, self._options)
            self._made_beside = others
        return self._own or others

    @property
    def auth_timeout(self) -> float:
        timeout = self._options.authorization.timeout
        return super().auth_timeout if timeout is None else timeout

    @property
    def ping_interval(self) -> float:
        interval = self._options.ping_interval
        return super().ping_interval if interval is None else interval

    @property
    def tls(self) -> TLSOptions | None:
        block = self._server.options.websocket  # it may have been read again
        return block.tls if block is not None else None

    def info_line(self, own: Mapping[str, Any]) -> bytes:
        others = self._server.info
        if self._info_beside is not others:  # at first, and when the server or its cluster has changed
            self._info, self._info_beside = self._made_of(others), others
        required = self._options.overrides_authorization or super().requires_authentication
        return self._info.line({"auth_required": required, **own})

    def _made_of(self, others: PortInfo) -> PortInfo:
        """INFO as it is said on this port: addresses of the other port are no use here."""
        fields = {name: value for name, value in others.items() if name != "connect_urls"}
        urls = websocket_urls(self._server)
        return PortInfo({**fields, **self._own_info, **({"connect_urls": list(urls)} if urls else {})})
