"""INFO and CONNECT: the JSON that opens a client connection, both directions.

Shapes only; who may connect is decided in `server.auth`.
Source: client protocol specification, section 2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from headrace.errors import ProtocolError

COMPATIBLE_VERSION: Final = "2.15.1"
"""The nats-server version whose client protocol is spoken; clients gate features on it."""

PROTOCOL_WITH_ASYNC_INFO: Final = 1
"""CONNECT `protocol` from which a client takes INFO at any time."""


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """A CONNECT as it was sent; fields left out stand at the protocol's defaults.

    Secrets never show in a repr.
    """

    verbose: bool = True
    pedantic: bool = True
    echo: bool = True
    headers: bool = False
    no_responders: bool = False
    tls_required: bool = False
    protocol: int = 0
    user: str = ""
    password: str = ""
    auth_token: str = ""
    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    name: str = ""
    lang: str = ""
    version: str = ""
    account: str = ""
    new_account: bool = False

    def __repr__(self) -> str:
        client = f"name={self.name!r}, lang={self.lang!r}, version={self.version!r}"
        return f"ConnectOptions({client}, user={self.user!r})"

    def merged(self, text: bytes) -> ConnectOptions:
        """These options with the fields of a CONNECT's JSON put over them.

        Field names match in any case, unknown ones are ignored, null leaves a field as it is.
        Raises: ProtocolError when it is not a JSON object or a field has the wrong type.
        """
        try:
            decoded = json.loads(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"CONNECT is not valid JSON: {error}") from None
        if not isinstance(decoded, dict):
            raise ProtocolError("CONNECT is not a JSON object")
        changes: dict[str, Any] = {}
        for key, value in decoded.items():
            name = _WIRE_NAMES.get(key.lower(), key.lower())
            kind = _KINDS.get(name)
            if kind is None or value is None:
                continue
            if type(value) is not kind:
                raise ProtocolError(f"CONNECT field {key!r} is not of type {kind.__name__}")
            changes[name] = value
        return replace(self, **changes)


_WIRE_NAMES: Final = {"pass": "password"}
_KINDS: Final[dict[str, type]] = {f.name: type(f.default) for f in fields(ConnectOptions)}


def info_line(info: dict[str, Any]) -> bytes:
    """`INFO {json} CRLF`; fields that are None, False, "" or empty are left out, `headers` excepted."""
    kept = {k: v for k, v in info.items() if k in _ALWAYS or v not in (None, False, "", [], ())}
    return b"INFO " + json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode() + b" \r\n"


_ALWAYS: Final = frozenset(
    ["server_id", "server_name", "version", "proto", "go", "host", "port", "headers", "max_payload"]
)
