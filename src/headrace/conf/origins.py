"""Web origins, as browsers send them and configurations allow them: scheme, host and port.

Here lives their reading. Never lives here: which ones are allowed where (`headrace.server.websocket`).
Source: RFC 6454; what is no origin compared with the Go server 2.15.1.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

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
