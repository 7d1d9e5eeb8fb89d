"""Key pairs: Ed25519 to sign with, X25519 to encrypt with.

Here live private keys, and the form of what is encrypted. Never lives here: keys in files, seeds (`seeds`,
`user_seeds`), checking of signatures (`nkeys`).

Shape of what is sealed: `xkv1` | nonce: 24 bytes | NaCl box (XSalsa20 and Poly1305, 16 bytes longer than what
is in it). Source: nats-server 2.15.1; libsodium's box.
Cost: making a first pair loads cryptography or PyNaCl.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError
from headrace.protocol.nkeys import KeyKind, NKeyError, decode_public, encode_public

if TYPE_CHECKING:
    from nacl.public import Box

SEALED_MARK: Final = b"xkv1"
"""The first bytes of what is sealed: the version of its form."""
_NONCE_BYTES: Final = 24
_MAC_BYTES: Final = 16
_KEY_BYTES: Final = 32

SEALED_EXTRA: Final = len(SEALED_MARK) + _NONCE_BYTES + _MAC_BYTES
"""Bytes by which sealing makes a message longer."""


class SealError(HeadraceError):
    """A message cannot be sealed for, or opened from, a key; the text shows nothing of the message."""


class SigningKeyPair:
    """An Ed25519 pair of this kind; `seed` are its 32 private bytes.

    Raises: ValueError for a seed of another length.
    """

    def __init__(self, kind: KeyKind, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.kind: Final = kind
        self.public: Final = encode_public(kind, raw)

    @classmethod
    def generate(cls, kind: KeyKind) -> SigningKeyPair:
        return cls(kind, secrets.token_bytes(_KEY_BYTES))

    def __repr__(self) -> str:
        return f"SigningKeyPair({self.public})"

    def sign(self, data: bytes) -> bytes:
        """The signature: 64 bytes."""
        return self._key.sign(data)


class CurveKeyPair:
    """An X25519 pair; `private` are its 32 private bytes.

    Raises: ValueError for a key of another length.
    """

    def __init__(self, private: bytes) -> None:
        if len(private) != _KEY_BYTES:
            raise ValueError(f"a private curve key has {_KEY_BYTES} bytes, not {len(private)}")
        from nacl.public import PrivateKey

        self._key = PrivateKey(private)
        self.public: Final = encode_public(KeyKind.CURVE, bytes(self._key.public_key))

    @classmethod
    def generate(cls) -> CurveKeyPair:
        return cls(secrets.token_bytes(_KEY_BYTES))

    def __repr__(self) -> str:
        return f"CurveKeyPair({self.public})"

    def seal(self, data: bytes, recipient: str) -> bytes:
        """Encrypt bytes for the holder of a public key only, who sees that they come from this pair.

        Raises: SealError if `recipient` is no public curve key.
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return SEALED_MARK + nonce + self._box(recipient).encrypt(data, nonce).ciphertext

    def open(self, sealed: bytes, sender: str) -> bytes:
        """Open a message that the holder of a public key has sealed for this pair.

        Raises: SealError for anything else: cut off, changed, of another sender, for another recipient.
        """
        if len(sealed) < SEALED_EXTRA:
            raise SealError("the encrypted message is cut off")
        if not sealed.startswith(SEALED_MARK):
            raise SealError("the encrypted message is of an unknown version")
        box = self._box(sender)
        from nacl.exceptions import CryptoError

        start = len(SEALED_MARK)
        try:
            return box.decrypt(sealed[start + _NONCE_BYTES :], sealed[start : start + _NONCE_BYTES])
        except CryptoError:
            raise SealError("the message could not be decrypted") from None

    def _box(self, other: str) -> Box:
        from nacl.exceptions import CryptoError
        from nacl.public import Box, PublicKey

        try:
            kind, key = decode_public(other)
        except NKeyError as error:
            raise SealError(f"not a public curve key: {error}") from None
        if kind is not KeyKind.CURVE:
            raise SealError("not a public curve key but one of another kind")
        try:
            return Box(self._key, PublicKey(key))
        except CryptoError:  # a point of low order, with which every secret is the same
            raise SealError("the public curve key is weak") from None
