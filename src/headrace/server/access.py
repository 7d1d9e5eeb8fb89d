"""The rules for all clients of one listener: as whom they may connect, and what INFO says of the port.

Here lives the difference between the client port and others. Never lives here: what one client does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.server.auth import authentication_timeout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.tls_options import TLSOptions
    from headrace.server.auth import Authenticator
    from headrace.server.port import AccessHost


class Access:
    """The client port. What is asked of the server here is asked each time: a reload may change it.

    `connection_type`: how users may be limited to it; `kind`: what monitoring calls it; `log_name`: the
    head of connection numbers in log lines.
    """

    connection_type = "STANDARD"
    kind = "nats"
    log_name = "cid"

    def __init__(self, server: AccessHost) -> None:
        self._server = server

    @property
    def authenticator(self) -> Authenticator:
        return self._server.authenticator

    @property
    def needs_first_op(self) -> bool:
        """True if the first op says who a client is: CONNECT, or any other where that is allowed."""
        return self._server.authorizer is not None or self.authenticator.has_users

    @property
    def auth_timeout(self) -> float:
        """Seconds."""
        return authentication_timeout(self._server.options)

    @property
    def ping_interval(self) -> float:
        """Seconds."""
        return self._server.options.ping_interval

    @property
    def requires_authentication(self) -> bool:
        """True if users are configured, so that a client can be asked who it is."""
        return self._server.authenticator.has_users

    @property
    def tls(self) -> TLSOptions | None:
        return self._server.options.tls

    @property
    def maps_certificates(self) -> bool:
        """True if a client's certificate says which user it is."""
        return self.tls is not None and self.tls.verify_and_map and self.authenticator.has_names

    def info_line(self, own: Mapping[str, Any]) -> bytes:
        """INFO for one of its clients, with its `own` fields."""
        return self._server.info.line(own)
