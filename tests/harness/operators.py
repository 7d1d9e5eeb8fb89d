"""A server in operator mode, and clients with tokens, for both servers alike."""

from __future__ import annotations

import base64
import itertools
import json
from typing import TYPE_CHECKING, Any

from harness.claims import OPERATOR_KEY, account_token, operator_token, user_token
from harness.keys import ACCOUNT, USER, KeyPair, key_pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.processes import ServerProcess
    from harness.wire import Wire

SYSTEM = key_pair(ACCOUNT, "system account")
SYSTEM_USER = key_pair(USER, "system user")
_requests = itertools.count(1000)


def configuration(
    tokens: Mapping[str, str], *, resolver: str = "MEMORY", more: str = "", operator: str | None = None
) -> str:
    """A file with these accounts preloaded, and the system account."""
    known = {SYSTEM.public: account_token(subject=SYSTEM), **tokens}
    preload = "\n".join(f"{key}: {token}" for key, token in known.items())
    return (
        f"operator: {operator or operator_token()}\n"
        f"system_account: {SYSTEM.public}\n"
        f"resolver: {resolver}\n"
        f"resolver_preload: {{\n{preload}\n}}\n"
        f"{more}\n"
    )


def signed(key: KeyPair, nonce: str) -> str:
    return base64.urlsafe_b64encode(key.sign(nonce.encode())).decode().rstrip("=")


def say(server: ServerProcess, token: str, key: KeyPair | None, **more: Any) -> Wire:
    """A connection that has sent CONNECT and PING; what comes back is not read yet."""
    wire = server.connect()
    said: dict[str, Any] = {"verbose": False, "pedantic": False, "headers": True, "jwt": token, **more}
    if key is not None:
        said.setdefault("sig", signed(key, wire.info["nonce"]))
    wire.send(b"CONNECT " + json.dumps(said).encode() + b"\r\nPING\r\n")
    return wire


def enter(server: ServerProcess, token: str, key: KeyPair, **more: Any) -> Wire:
    """A connection that was let in."""
    wire = say(server, token, key, **more)
    wire.take_through(b"PONG\r\n")
    return wire


def enter_system(server: ServerProcess) -> Wire:
    return enter(server, user_token(SYSTEM, SYSTEM_USER), SYSTEM_USER)


def request(wire: Wire, subject: str, payload: bytes = b"") -> bytes:
    """The first answer to a request.

    Its subscription has an id that no other one had: nats-server takes one away only after it has sent its
    last message, and until then another with the same id would be none.
    """
    sid = next(_requests)
    wire.send(f"SUB _INBOX.{sid} {sid}\r\nUNSUB {sid} 1\r\n".encode())
    wire.send(f"PUB {subject} _INBOX.{sid} {len(payload)}\r\n".encode() + payload + b"\r\n")
    return message(wire)


def message(wire: Wire) -> bytes:
    """The payload of the next message; what the server asks in between is answered."""
    while (line := wire.take_line()) == b"PING\r\n":
        wire.send(b"PONG\r\n")
    wire.received[:0] = line
    return wire.take_message()[1]


def trusted_account(key: KeyPair, outer: Mapping[str, Any] | None = None, **nats: Any) -> str:
    return account_token(OPERATOR_KEY, key, outer, **nats)
