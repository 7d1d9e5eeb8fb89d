"""The options of the port for clients over WebSocket.

Frozen data only, loaded where there is such a port. Durations are seconds, defaults are the Go server's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import limits
from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.keys import Keyed, key

if TYPE_CHECKING:
    from headrace.conf.tls_options import TLSOptions


class WebSocketOptions(Keyed, frozen=True):
    """The port for clients over WebSocket. `port` -1: the system chooses.

    `authorization`: a single user or token instead of the server's, with a `timeout` of its own. The cookies
    name where in the upgrade request credentials are that CONNECT leaves out. `headers` are added to the
    response. `handshake_timeout`: seconds for TLS and the upgrade. `ping_interval` None: the server's.
    """

    host: str = key(limits.DEFAULT_HOST, "Address", aliases=("net",))
    port: int = key(-1, "Port; -1 lets the system choose", shown_default="-")
    advertise: str | None = key(None, "Address shown in `/varz`")
    no_tls: bool = key(False, "Serve without TLS")
    tls: TLSOptions | None = key(
        None,
        "TLS of this port, as above; this or `no_tls` must be there",
        "map",
        reload="always",
        is_lasting=True,
    )
    same_origin: bool = key(False, "Browsers only from pages of this host")
    allowed_origins: tuple[str, ...] = key(
        (),
        "Origins that browsers may come from",
        aliases=("allowed_origin", "allow_origins", "allow_origin", "origins", "origin"),
        shown_default="all",
    )
    handshake_timeout: float = key(0.0, "Time for TLS and the upgrade", shown_default="10s")
    compression: bool = key(False, "permessage-deflate for clients that ask for it", aliases=("compress",))
    authorization: AuthorizationOptions = key(
        AuthorizationOptions(),
        "Who may connect here, in the place of the server's; see below",
        "map",
        aliases=("authentication",),
    )
    no_auth_user: str | None = key(None, "Who a client without credentials is here")
    jwt_cookie: str | None = key(None, "Cookie with the token of clients whose CONNECT has none")
    user_cookie: str | None = key(None, "Cookie with the user name")
    pass_cookie: str | None = key(None, "Cookie with the password")
    token_cookie: str | None = key(None, "Cookie with the token (of `authorization`)")
    headers: tuple[tuple[str, str], ...] = key((), "Headers added to the response of an upgrade", "map")
    ping_interval: float | None = key(
        None,
        "Time between PINGs",
        "duration",
        shown_default="the server's",
        zero_is_default=True,
    )

    @property
    def overrides_authorization(self) -> bool:
        """True if this block says who may connect here, and not the server's own settings."""
        return self.authorization.required or self.no_auth_user is not None
