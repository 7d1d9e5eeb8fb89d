"""The options of the port for clients over WebSocket, and the web origins that they and browsers name.

Loaded where there is such a port. Durations are seconds, defaults are the Go server's. Never lives here:
which origins are allowed where (`headrace.server.websocket`).
Source of origins: RFC 6454; what is no origin compared with the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from headrace import limits
from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.keys import Keyed, key

if TYPE_CHECKING:
    from headrace.conf.console_options import ConsoleOptions
    from headrace.conf.tls_options import TLSOptions


class WebSocketOptions(Keyed, frozen=True):
    """The port for clients over WebSocket. `port` -1: the system chooses.

    `authorization`: a single user or token instead of the server's, with a `timeout` of its own. The cookies
    name where in the upgrade request credentials are that CONNECT leaves out. `headers` are added to the
    response. `handshake_timeout`: seconds for TLS and the upgrade. `ping_interval` None: the server's.
    `last_port`: where `port` is in use, those behind it are tried up to this one; None: only `port`.
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
    console: ConsoleOptions | None = key(
        None,
        "The console, a page for browsers: [console.md](console.md); `console` may stand beside `websocket`, "
        "too. Not in nats-server",
        "true, false or map",
        read="console:console",
        shown_default="false",
    )
    last_port: int | None = key(None, "The last port that `--console` tries", "integer", name=None)

    @property
    def keeps_to_origin(self) -> bool:
        """True if browsers may only come from pages of this host: a console has them keep to it."""
        return self.same_origin or (self.console is not None and not self.allowed_origins)

    @property
    def overrides_authorization(self) -> bool:
        """True if this block says who may connect here, and not the server's own settings."""
        return self.authorization.required or self.no_auth_user is not None


_PORTS: Final = {"http": 80, "https": 443}


class WebOrigin(NamedTuple):
    """A web origin: the scheme, host and port of a page."""

    scheme: str
    host: str
    port: int


def parse_origin(text: str) -> WebOrigin:
    """An origin of HTTP, with the port that its scheme implies where it has none. Host in lower case.

    Raises: ValueError with the reason.
    """
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("it has characters that no URL has")
    url = urlsplit(text)
    if url.scheme not in _PORTS:
        raise ValueError("allowed origins must be absolute URLs with http or https scheme")
    if not url.hostname:
        raise ValueError("host is required")
    return WebOrigin(url.scheme, *_address(url.netloc.rpartition("@")[2], url.scheme))


def parse_host(text: str, *, is_secure: bool) -> tuple[str, int]:
    """Host and port of a Host header. Raises: ValueError."""
    return _address(text, "https" if is_secure else "http")


def _address(text: str, scheme: str) -> tuple[str, int]:
    url = urlsplit(f"//{text}")
    if url.path or url.query or url.fragment or "@" in text or not url.hostname:
        raise ValueError("it is no host and port")
    port = url.port  # raises for one that is no number or too large
    return url.hostname, _PORTS[scheme] if port is None else port
