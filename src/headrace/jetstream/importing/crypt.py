"""Encrypted stores of nats-server: from the configured key to the bytes that were stored.

Each stream, consumer and message block has a key file: a random seed, sealed with a key that is made of the
configured one, the account and what it is for. With the seed, files are sealed (AES-GCM or
XChaCha20-Poly1305, a nonce in front) and blocks enciphered as a stream (AES-CTR or XChaCha20). Which of the
two ciphers it was is not written anywhere: both are tried, with each key, as the server does. XChaCha20 is
ChaCha20 with a key that is made of half the nonce (HChaCha20); that key is what a block of ChaCha20 is
before its last addition. Source: nats-server 2.15 (jetstream.go, filestore.go); RFC 8439;
draft-irtf-cfrg-xchacha.
"""

from __future__ import annotations

import hmac
import struct
from typing import TYPE_CHECKING, Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from headrace.importing.findings import ImportFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY_FILE: Final = "meta.key"
_SMALLEST: Final = 64
"""Bytes of a key file: nonce, seed of 32 bytes, tag."""
_WORDS: Final = struct.Struct("<16I")
_SIGMA: Final = struct.unpack("<4I", b"expand 32-byte k")


class WrongKey(ImportFailed):
    """Encrypted data cannot be opened: it has another key, or it is damaged."""


class NoKey(ImportFailed):
    """The store has encrypted files, and no key was given."""


class _Suite(Protocol):
    @property
    def nonce(self) -> int:
        """Bytes of a nonce."""

    def unseal(self, seed: bytes, nonce: bytes, sealed: bytes) -> bytes:
        """Decrypt and authenticate bytes. Raises: InvalidTag."""

    def decipher(self, seed: bytes, nonce: bytes, data: bytes) -> bytes: ...


class _Aes:
    nonce: Final = 16

    def unseal(self, seed: bytes, nonce: bytes, sealed: bytes) -> bytes:
        return AESGCM(seed).decrypt(nonce, sealed, None)

    def decipher(self, seed: bytes, nonce: bytes, data: bytes) -> bytes:
        return Cipher(algorithms.AES(seed), modes.CTR(nonce)).decryptor().update(data)


class _ChaCha:
    nonce: Final = 24

    def unseal(self, seed: bytes, nonce: bytes, sealed: bytes) -> bytes:
        return ChaCha20Poly1305(_subkey(seed, nonce)).decrypt(bytes(4) + nonce[16:], sealed, None)

    def decipher(self, seed: bytes, nonce: bytes, data: bytes) -> bytes:
        return _chacha20(_subkey(seed, nonce), bytes(8) + nonce[16:], data)


_SUITES: Final[tuple[_Suite, ...]] = (_ChaCha(), _Aes())


def _chacha20(key: bytes, counter_and_nonce: bytes, data: bytes) -> bytes:
    return Cipher(algorithms.ChaCha20(key, counter_and_nonce), mode=None).decryptor().update(data)


def _subkey(key: bytes, nonce: bytes) -> bytes:
    """HChaCha20 of a key and the first 16 bytes of a nonce."""
    words = _WORDS.unpack(_chacha20(key, nonce[:16], bytes(64)))
    began = *_SIGMA, *struct.unpack("<4I", nonce[:16])
    ends = zip(words[:4] + words[12:], began, strict=True)
    return struct.pack("<8I", *((word - before) & 0xFFFFFFFF for word, before in ends))


class Opened:
    """The key that was in a key file, and the data that it opens."""

    def __init__(self, suite: _Suite, seed: bytes, nonce: bytes) -> None:
        self._suite = suite
        self._seed = seed
        self._nonce = nonce

    def unseal(self, data: bytes) -> bytes:
        """A file: metadata, the state of a consumer, an index. Raises: WrongKey."""
        size = self._suite.nonce
        try:
            return self._suite.unseal(self._seed, data[:size], data[size:])
        except (InvalidTag, ValueError) as error:
            raise WrongKey("it cannot be decrypted: it is damaged") from error

    def decipher(self, data: bytes) -> bytes:
        """A message block."""
        return self._suite.decipher(self._seed, self._nonce, data)


class Keys:
    """The configured key, and earlier ones: those that `prev_key` had."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = [secret.encode() for secret in secrets]

    def open(self, account: str, context: str, key_file: bytes) -> Opened:
        """Open a key file. Raises: WrongKey, NoKey."""
        if not self._secrets:
            raise NoKey(f"{context} of account {account} is encrypted: say its key with --key-file")
        if len(key_file) < _SMALLEST:
            raise WrongKey(f"its key file has {len(key_file)} bytes, which is too few")
        for secret in self._secrets:
            key = hmac.digest(secret, account.encode() + context.encode(), "sha256")
            for suite in _SUITES:
                nonce = key_file[: suite.nonce]
                try:
                    return Opened(suite, suite.unseal(key, nonce, key_file[suite.nonce :]), nonce)
                except (InvalidTag, ValueError):
                    continue  # of another suite or secret
        raise WrongKey("it cannot be decrypted with the given key")
