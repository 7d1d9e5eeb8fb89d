"""Text of peers, put into log lines and error texts.

Here lives quoting (as Go's `%q` does it, since error texts must match to the byte), who a client says it
is, and a CONNECT without its secrets. Never lives here: what is logged, and when.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.protocol.info import folded_name

if TYPE_CHECKING:
    from headrace.protocol.info import ClientConnect
    from headrace.server.auth import Identity

_NAMED: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
}
_SECRETS: Final = frozenset(["pass", "password", "auth_token", "jwt", "sig", "nkey", "proxy_sig"])
_TOKEN_BEGINS: Final = b"eyJ"
_REDACTED: Final = "[REDACTED]"


def shown(text: bytes) -> str:
    """Bytes for a log line; what does not print is escaped when the line is written."""
    return text.decode("utf-8", "surrogateescape")


def quoted(text: bytes | str) -> str:
    """Return a text in double quotes, with every character escaped that does not print."""
    characters = shown(text) if isinstance(text, bytes) else text
    if characters.isprintable() and '"' not in characters and "\\" not in characters:
        return f'"{characters}"'
    return f'"{"".join(map(escaped, characters))}"'


def printable(text: str) -> str:
    """One line that moves no cursor: control, format and separator characters are escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)


def escaped(character: str, quote: str = '"') -> str:
    """One character as it stands between these quotes."""
    code = ord(character)
    if character == quote:
        return f"\\{quote}"
    if character in _NAMED:
        return _NAMED[character]
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def client_label(options: ClientConnect, identity: Identity) -> str:
    """The program and user of a client, as its log lines begin: ` - "v1.2:python:name" - "$G/user:joe"`."""
    version = f"v{options.version}" if options.version else ""
    program = ":".join(filter(None, (version, options.lang, options.name)))
    if options.nkey:
        user = f"nkey:{options.nkey}"
    elif options.user:
        user = f"user:{options.user}"
    elif identity.token is not None and options.jwt:
        user = f"jwt:{identity.user}"
    elif options.auth_token:
        user = "token"
    else:
        user = f"user:{identity.user}" if identity.user else ""
    label = f" - {quoted(program)}" if program else ""
    name = identity.token.account_name if identity.token is not None else ""
    account = f"{identity.account}/{name}" if name not in ("", identity.account) else identity.account
    return label + (f" - {quoted(f'{account}/{user}')}" if user else "")


def claimed_user(options: ClientConnect) -> str:
    """The user that a refused client said it was, for the line about it; "" when it said nothing."""
    if options.nkey:
        return f" - Nkey {quoted(options.nkey)}"
    if options.user:
        return f" - User {quoted(options.user)}"
    return f' - Token "{_REDACTED}"' if options.auth_token else ""


def traced_payload(payload: bytes, limit: int) -> str:
    """A payload for the trace log, quoted, at most `limit` bytes of it. A token is not shown: it may let
    somebody in."""
    if payload.startswith(_TOKEN_BEGINS):
        return _REDACTED
    text = quoted(payload[:limit])
    return f'{text[:-1]}..."' if limit < len(payload) else text


def headers_of(op: str, arguments: bytes, payload: bytes) -> bytes:
    """The headers of an HPUB without the blank line that ends them, nothing of a PUB."""
    return payload[: int(arguments.split()[-2]) - 4] if op == "HPUB" else b""


def redacted_connect(text: bytes) -> str:
    """A CONNECT's JSON for the trace log, without its secrets."""
    try:
        fields = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return "[unreadable]"
    if not isinstance(fields, dict):
        return json.dumps(fields)
    return json.dumps({k: _REDACTED if folded_name(k) in _SECRETS else v for k, v in fields.items()})
