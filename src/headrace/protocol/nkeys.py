"""Public nkeys: their text form, identifiers made in that form, and signatures over a nonce.

Here live encoding and verification of public keys. Never lives here: seeds, private keys, users.

Shape of the text: base32 without padding of
    kind: 1 byte | key: 32 bytes | CRC16-XMODEM of both: 2 bytes, little-endian
which is 56 characters whose first tells the kind (`U` user, `N` server, `X` curve key, …).
Source: client protocol, section 8.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from enum import IntEnum
from typing import Final

from headrace.errors import HeadraceError

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 11
_TEXT: Final = r"[A-Z2-7]{56}\Z"


class NKeyError(HeadraceError):
    """A text that is not a public nkey."""


class KeyKind(IntEnum):
    """The first byte of a public key; its upper five bits are the first letter in base32."""

    ACCOUNT = 0
    CLUSTER = 2 << 3
    SERVER = 13 << 3
    OPERATOR = 14 << 3
    USER = 20 << 3
    CURVE = 23 << 3


def encode_public(kind: KeyKind, key: bytes) -> str:
    """The text form of a raw 32-byte public key.

    Raises: ValueError if the key has another length.
    """
    if len(key) != _KEY_BYTES:
        raise ValueError(f"a public key has {_KEY_BYTES} bytes, not {len(key)}")
    return base64.b32encode(with_checksum(bytes([kind]) + key)).decode().rstrip("=")


def decode_public(text: str) -> tuple[KeyKind, bytes]:
    """The kind and the raw 32 bytes of a public key.

    Raises: NKeyError if the text has another length, an unknown kind or a wrong checksum.
    """
    if not re.match(_TEXT, text):
        raise NKeyError("a public nkey has 56 characters of A-Z and 2-7")
    raw = base64.b32decode(text)
    body = raw[:-2]
    if not has_checksum(raw):
        raise NKeyError("the checksum of the nkey is wrong")
    try:
        return KeyKind(body[0]), body[1:]
    except ValueError:
        raise NKeyError("the nkey is of no known public kind") from None


def with_checksum(body: bytes) -> bytes:
    """Return the bytes of an nkey with their checksum behind them."""
    return body + _checksum(body)


def has_checksum(raw: bytes) -> bool:
    """True if the last two bytes are the checksum of those before them, as in every decoded nkey."""
    return _checksum(raw[:-2]) == raw[-2:]


def new_server_id() -> str:
    """A fresh server id: `N` and 55 characters.

    The 32 bytes are random, not the public half of a key pair: clients and peers treat the id as an
    opaque name, nothing is ever signed with it, and making a pair would load the cryptography package
    (tens of milliseconds) into every start.
    """
    return encode_public(KeyKind.SERVER, os.urandom(_KEY_BYTES))


def new_nonce() -> bytes:
    """A fresh nonce as it stands in INFO: 15 base64url characters; clients sign this text."""
    return base64.urlsafe_b64encode(os.urandom(_NONCE_BYTES)).rstrip(b"=")


def verify_signature(public_key: str, nonce: bytes, signature: str) -> bool:
    """True if `signature` (base64url without padding, or plain base64) is this key's over the nonce text.

    False for anything malformed: a peer's mistake is not an exception.
    Cost: the first call loads the cryptography package.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _decode_signature(signature)
    if raw is None:
        return False
    try:
        _, key = decode_public(public_key)
        Ed25519PublicKey.from_public_bytes(key).verify(raw, nonce)
    except (NKeyError, InvalidSignature):
        return False
    return True


def _decode_signature(text: str) -> bytes | None:
    try:
        encoded = text.encode("ascii")
        if not encoded.endswith(b"=") and b"+" not in encoded and b"/" not in encoded:
            return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        return base64.b64decode(encoded, validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return None


def _checksum(body: bytes) -> bytes:
    # crc_hqx with a zero start is CRC16-XMODEM.
    return binascii.crc_hqx(body, 0).to_bytes(2, "little")
