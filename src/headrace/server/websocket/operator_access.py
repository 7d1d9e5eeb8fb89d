"""Access of the operator whom `--console` makes for one run of a server without users.

He is a user of the system account with a random secret, over WebSocket and from this machine alone. Where
users are configured, also by a reload, he is nobody: they say who the operator is.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from headrace.conf.console_options import is_loopback
from headrace.server.auth import Authenticator, Identity
from headrace.server.websocket.access import WebSocketAccess

if TYPE_CHECKING:
    from headrace.conf.options import Options
    from headrace.conf.websocket_options import WebSocketOptions
    from headrace.server.auth import ConnectCredentials
    from headrace.server.port import InfoHost
    from headrace.server.websocket.request import UpgradeRequest

OPERATOR: Final = "operator"
"""The name of that user; the password is the secret."""


class OperatorAccess(WebSocketAccess):
    """The access of clients over WebSocket that come from this machine, the operator among them."""

    def __init__(self, server: InfoHost, options: WebSocketOptions, port: int, secret: str) -> None:
        super().__init__(server, options, port)
        self._secret: Final = secret
        self._with_operator: _WithOperator | None = None
        self._of_options: Options | None = None

    @property
    def authenticator(self) -> Authenticator:
        options = self._server.options
        if not has_operator(options):
            return super().authenticator
        if self._with_operator is None or self._of_options is not options:
            self._with_operator = _WithOperator(options, self._secret)
            self._of_options = options
        return self._with_operator


class _WithOperator(Authenticator):
    """The authenticator of a server without users, who lets the operator into the system account."""

    def __init__(self, options: Options, secret: str) -> None:
        super().__init__(options)
        self._secret: Final = secret.encode()
        self._system: Final = options.system_account or ""

    def authenticate(
        self,
        connect: ConnectCredentials,
        nonce: bytes,
        connection_type: str = "WEBSOCKET",
        certificates: tuple[bytes, ...] | None = None,
    ) -> Identity | None:
        if connect.user != OPERATOR:
            return super().authenticate(connect, nonce, connection_type, certificates)
        if not hmac.compare_digest((connect.password or "").encode(), self._secret):
            return None
        return Identity(OPERATOR, account=self._system, proven=OPERATOR)


def has_operator(options: Options) -> bool:
    """True if a server has the operator of `--console`: it has a system account, and no users."""
    websocket = options.websocket
    return (
        websocket is not None
        and websocket.console is not None
        and bool(websocket.console.operator_secret)
        and not websocket.overrides_authorization
        and not options.requires_authentication
        and options.system_account is not None
    )


def is_of_this_machine(address: str, upgrade: UpgradeRequest) -> bool:
    """True if a client has come from this machine itself, and not through a proxy on it."""
    return is_loopback(address) and not upgrade.is_forwarded


def operator_url(console_url: str, options: Options) -> str | None:
    """Return the URL that signs the operator in; None where there is none. The fragment is not sent."""
    websocket = options.websocket
    if not has_operator(options) or websocket is None or websocket.console is None:
        return None
    return f"{console_url}#operator={websocket.console.operator_secret}"
