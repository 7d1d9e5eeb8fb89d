"""The facts that a server tells a client in INFO. Any field may be missing or of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import limits

if TYPE_CHECKING:
    from collections.abc import Mapping


class ServerFacts:
    """The fields of INFO as they are now. A later INFO changes those that it has."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, object] | None = None) -> None:
        self.fields: dict[str, object] = dict(fields or {})

    def updated(self, fields: Mapping[str, object]) -> ServerFacts:
        """Return these facts with the fields of a later INFO."""
        return ServerFacts({**self.fields, **fields})

    @property
    def server_id(self) -> str:
        """The id of the server process, "" if it has none."""
        return self._text("server_id") or ""

    @property
    def version(self) -> str:
        """The version of the server, "" if it says none."""
        return self._text("version") or ""

    @property
    def max_payload(self) -> int:
        """The header and payload bytes that the server takes in one message."""
        value = self.fields.get("max_payload")
        return value if type(value) is int and value > 0 else limits.MAX_PAYLOAD

    @property
    def has_headers(self) -> bool:
        """True if the server takes messages with headers, and with them says that nobody is subscribed."""
        return bool(self.fields.get("headers"))

    @property
    def nonce(self) -> str | None:
        """The text to sign with a user's key; None if the server knows no users with keys."""
        return self._text("nonce")

    @property
    def requires_tls(self) -> bool:
        """True if the server speaks TLS only."""
        return bool(self.fields.get("tls_required"))

    @property
    def offers_tls(self) -> bool:
        """True if the server speaks TLS with those that want it."""
        return self.requires_tls or bool(self.fields.get("tls_available"))

    @property
    def connect_urls(self) -> tuple[str, ...]:
        """The addresses of all servers of the cluster, as `host:port`."""
        urls = self.fields.get("connect_urls")
        return tuple(url for url in urls if isinstance(url, str)) if isinstance(urls, list) else ()

    def _text(self, name: str) -> str | None:
        value = self.fields.get(name)
        return value if isinstance(value, str) else None
