"""Nkey seeds and JWTs as operators have them, made by the cryptography package."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

OPERATOR, ACCOUNT, USER, SERVER, CURVE = 14 << 3, 0, 20 << 3, 13 << 3, 23 << 3
_SEED = 18 << 3


@dataclass(frozen=True)
class KeyPair:
    """A key of a kind, from 32 bytes."""

    kind: int
    secret: bytes

    @property
    def seed(self) -> str:
        return _text(bytes([_SEED | self.kind >> 5, (self.kind & 31) << 3]) + self.secret)

    @property
    def public(self) -> str:
        return _text(bytes([self.kind]) + self._key.public_key().public_bytes_raw())

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)

    def token(self, claims: object, header: object = None) -> str:
        """Return a token with these claims as they are, signed as version 2 is."""
        chosen = {"typ": "JWT", "alg": "ed25519-nkey"} if header is None else header
        body = b".".join(_part(json.dumps(part).encode()) for part in (chosen, claims))
        return (body + b"." + _part(self.sign(body))).decode()

    def old_token(self, claims: object) -> str:
        """Return a token with these claims as they are, signed as version 1 is: without the header."""
        header, body = (
            _part(json.dumps(part).encode()) for part in ({"typ": "jwt", "alg": "ed25519"}, claims)
        )
        return b".".join((header, body, _part(self.sign(body)))).decode()

    def jwt(self, subject: KeyPair, kind: str) -> str:
        """What this key says about another, or about itself."""
        claims = {
            "jti": "T",
            "iat": 1_700_000_000,
            "iss": self.public,
            "name": kind,
            "sub": subject.public,
            "nats": {"type": kind, "version": 2, **_LIMITS.get(kind, {})},
        }
        return self.token(claims)


def key_pair(kind: int, label: str) -> KeyPair:
    """The same key for the same label."""
    return KeyPair(kind, hashlib.sha256(f"{kind} {label}".encode()).digest())


_LIMITS: dict[str, dict[str, object]] = {
    "account": {
        "limits": {
            "subs": -1,
            "data": -1,
            "payload": -1,
            "imports": -1,
            "exports": -1,
            "conn": -1,
            "leaf": -1,
        }
    },
    "user": {"subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}},
}


def credentials(user: KeyPair, jwt: str) -> str:
    """The text of a credentials file."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        "NKEY Seed printed below can be used to sign and prove identity.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )


def _text(body: bytes) -> str:
    checksum = binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(body + checksum).decode().rstrip("=")


def _part(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
