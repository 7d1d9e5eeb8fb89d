"""The words of the server to a client beside messages: INFO, errors, the last ones before the end.

Here lives their form in the NATS protocol; another protocol has words of its own (`mqtt.words`). Never lives
here: when something is said (`session`, `client_ops`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from headrace.engine.reasons import CloseReason
    from headrace.server.access import Access
    from headrace.server.auth import CredentialCheck

    class Addressee(Protocol):
        """A client, as words to it depend on it."""

        @property
        def cid(self) -> int: ...
        @property
        def address(self) -> str: ...
        @property
        def access(self) -> Access: ...
        @property
        def credentials(self) -> CredentialCheck: ...
        @property
        def is_connected(self) -> bool: ...


class ClientWords:
    """The words to clients of the NATS protocol."""

    __slots__ = ()

    def greeting(self, client: Addressee, **changes: Any) -> bytes:
        """Return the first bytes of a connection: the INFO line of this client. `changes`: fields of it."""
        return self.info(client, **changes)

    def info(self, client: Addressee, **changes: Any) -> bytes:
        """Return the INFO line of a client; the nonce is in the first one only."""
        own = {"client_id": client.cid, "client_ip": client.address, **changes}
        if client.is_connected:  # the first one hides what a no_auth_user need not know
            own["auth_required"] = client.access.requires_authentication
        elif client.credentials.nonce:
            own["nonce"] = client.credentials.nonce.decode()
        return client.access.info_line(own)

    def complaint(self, text: str) -> bytes:
        """Return an error that the connection survives, or that is said before its end."""
        return f"-ERR '{text}'\r\n".encode()

    def farewell(self, _client: Addressee, text: str, _reason: CloseReason) -> bytes:
        """Return the last bytes of a connection. `text`: the error that ends it; "" where it is none."""
        return self.complaint(text) if text else b""
