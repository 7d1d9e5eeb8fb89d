"""The rules for all clients of one listener: as whom they may connect, and what INFO says of the port.

Here lives the difference between the client port and others. Never lives here: what one client does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from headrace.server.auth import Authenticator, authentication_timeout

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from headrace.conf.account_options import AuthorizationOptions
    from headrace.conf.options import Options
    from headrace.conf.tls_options import TLSOptions
    from headrace.server.port import AccessHost

    class PortBlock(Protocol):
        """The block of a port that may say who connects there, in the place of the server's settings."""

        @property
        def authorization(self) -> AuthorizationOptions: ...
        @property
        def no_auth_user(self) -> str | None: ...
        @property
        def overrides_authorization(self) -> bool: ...


def own_authenticator(options: Options, block: PortBlock) -> Authenticator | None:
    """Return the authenticator of a port's block; None if it has no credentials of its own."""
    if not block.overrides_authorization:
        return None
    authorization = block.authorization if block.authorization.required else options.authorization
    return Authenticator(replace(options, authorization=authorization, no_auth_user=block.no_auth_user))


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
