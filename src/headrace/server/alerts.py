"""The last words of a TLS handshake that fails: the alert that tells the other side why.

OpenSSL has it ready when a handshake fails, and asyncio closes the socket without sending it, so that whoever
was refused sees nothing but an end. Here lives saying it. Never lives here: contexts and what they ask for
(`tls`).
"""

from __future__ import annotations

import ssl
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import socket

NO_TLS: Final = frozenset(("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER"))
"""OpenSSL's reasons when the first bytes are no handshake: who sent them would not understand an alert."""

_socket: ContextVar[socket.socket | None] = ContextVar("_socket", default=None)


def speak_on(sock: socket.socket) -> None:
    """Handshakes that the present task begins are on this socket."""
    _socket.set(sock)


class AlertingContext(ssl.SSLContext):
    """A context whose handshakes, carried out by an event loop, say why they fail."""

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **options: Any
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *arguments, **options)
        assert isinstance(made, _Alerting)
        made.outgoing = outgoing
        made.sock = _socket.get()
        return made


class _Alerting(ssl.SSLObject):
    """One connection. Without a `sock` the loop has to write: it is told that there is more to come, and
    hears of the failure when the other side has closed, or time is up."""

    outgoing: ssl.MemoryBIO
    sock: socket.socket | None
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if error.reason in NO_TLS or not self.outgoing.pending:
                raise
            self._failure = error
            if self.sock is None:
                raise ssl.SSLWantReadError from error
            self._say(self.sock)
            raise

    def _say(self, sock: socket.socket) -> None:
        """An alert is a few bytes: where they do not fit, the other side has stopped reading long ago."""
        try:
            sock.send(self.outgoing.read())
        except OSError as problem:
            assert self._failure is not None
            self._failure.add_note(f"the other side could not be told: {problem}")


AlertingContext.sslobject_class = _Alerting
