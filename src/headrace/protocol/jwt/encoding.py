"""The way from claims to a signed token: of users, and for what a callout is asked and what it answers.

Here lives writing, by the tables that reading uses (`shapes`). Never lives here: accounts' and operators'
tokens, which tools write; the clock.
Source: nats-server 2.15.1, which leaves out what is empty but for a few fields.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from headrace.protocol.jwt import claims, shapes
from headrace.protocol.jwt.decoding import ISSUERS, MAX_TOKEN, JWTError
from headrace.protocol.jwt.reading import FieldsReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.protocol.jwt.reading import Fields
    from headrace.protocol.keypairs import SigningKeyPair

IssuedClaims: TypeAlias = (
    claims.UserClaims | claims.AuthorizationRequestClaims | claims.AuthorizationResponseClaims
)

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ALWAYS: Final[Mapping[type, frozenset[str]]] = {
    claims.AuthorizationRequestClaims: frozenset(("user_nkey",)),
    claims.ServerClaims: frozenset(("name", "host", "id")),
    claims.ConnectClaims: frozenset(("protocol",)),
}


def encode(claimed: IssuedClaims, key: SigningKeyPair, now: float) -> str:
    """The token with these claims, of version 2 and issued now by this key.

    What the claims say of issuer, time of issue, identifier and version is replaced.
    A user's times of the day are not written. Units: `now` is seconds since 1970.
    Raises: JWTError without a subject, for a key that does not issue such tokens, or beyond `MAX_TOKEN`.
    """
    kind, outside, inside = shapes.fields_of(claimed)
    if not claimed.subject:
        raise JWTError("subject is not set")
    if key.kind not in ISSUERS[kind]:
        raise JWTError(f"{kind} tokens are not issued by such a key")
    issued = replace(claimed, issuer=key.public, issued_at=int(now), token_id="")
    document = _object(issued, outside)
    document["nats"] = {**_object(issued, inside), "type": kind, "version": 2}
    document["jti"] = base64.b32encode(hashlib.sha256(_json(document)).digest()).decode().rstrip("=")
    signed = f"{_HEADER}.{_part(_json(document))}"
    token = f"{signed}.{_part(key.sign(signed.encode()))}"
    if len(token) > MAX_TOKEN:
        raise JWTError(f"token size {len(token)} exceeds maximum of {MAX_TOKEN} bytes")
    return token


def _object(value: object, fields: Fields) -> dict[str, Any]:
    always = _ALWAYS.get(type(value), frozenset())
    written: dict[str, Any] = {}
    for name, (attribute, reader) in fields.items():
        entry = _entry(value, attribute)
        if isinstance(reader, FieldsReader) and entry is not None:
            written[name] = _object(entry, reader.fields)
        elif entry or name in always:
            written[name] = entry
    return written


def _entry(value: object, attribute: str) -> Any:
    """An attribute; limits and permissions of a user stand beside its other fields in the JSON."""
    if isinstance(value, claims.UserClaims) and not hasattr(value, attribute):
        limits = value.limits
        return getattr(limits if hasattr(limits, attribute) else limits.permissions, attribute)
    return getattr(value, attribute)


def _json(value: object) -> bytes:
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    # Half a pair, which a client may send escaped, has no form in UTF-8.
    return _SURROGATE.sub("\ufffd", written).encode()


def _part(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


_HEADER: Final = _part(_json({"typ": "JWT", "alg": "ed25519-nkey"}))
