"""The subjects on which a server is sent WAL objects by the owner, one for each server.

Never here: how objects are sealed, and who is sent them (`told_objects`).
"""

from __future__ import annotations

from typing import Final, Protocol


class _Sender(Protocol):
    """The host of a service (`headrace.core.service.Host`)."""

    @property
    def max_payload(self) -> int: ...
    def publish(self, subject: bytes, payload: bytes, /) -> None: ...


class ObjectSubjects:
    """The subjects of the servers that have one bucket. `base`: the subject that all of them begin with."""

    def __init__(self, base: bytes) -> None:
        self._base: Final = base + b".WAL."

    def of(self, server_id: str) -> bytes:
        """Return the subject of a server."""
        return self._base + server_id.encode()

    def send(self, host: _Sender | None, server_id: str, sealed: bytes) -> bool:
        """Send a WAL object to a server.

        False: there is no host now, the object is too large for a message, or that is no id of a server.
        """
        if host is None or len(sealed) > host.max_payload:
            return False
        if not (server_id.isascii() and server_id.isalnum()):
            return False
        host.publish(self.of(server_id), sealed)
        return True
