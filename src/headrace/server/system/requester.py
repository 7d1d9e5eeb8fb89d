"""The client behind a command of the system account, in the words of the server's log.

The header that names the client is this server's: no publisher can write it himself. The header of the
console is what its page says, and proves nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

from headrace.core.service import REQUEST_INFO
from headrace.protocol.info import address_text
from headrace.protocol.jetstream.headers import value
from headrace.server.log_text import quoted

if TYPE_CHECKING:
    from headrace.core.service import Delivery
    from headrace.server.clients import Clients

    class CommandedServer(Protocol):
        """A server that is told to do something."""

        name: str

        @property
        def clients(self) -> Clients: ...


_CONSOLE: Final = b"Headrace-Console"
_MOST_SHOWN: Final = 100
"""Bytes of the console's header that a log line has."""


def asked_by(server: CommandedServer, request: Delivery) -> str:
    """Return who asked for a command: user, account and address, and what the console says of itself."""
    console = value(request.headers, _CONSOLE)[:_MOST_SHOWN]
    return _client(server, request) + (f" (Headrace-Console: {quoted(console)})" if console else "")


def _client(server: CommandedServer, request: Delivery) -> str:
    info = value(request.headers, REQUEST_INFO)
    if not info:  # what a client says of itself was taken out
        return "a client of another server or account"
    fields = json.loads(info)
    session = server.clients.get(fields.get("id", 0))
    at = "" if session is None else f" at {address_text(session.address, session.port)}"
    return f"user {quoted(fields['user'])} of account {quoted(fields['acc'])}{at}, {server.name}"
