"""The cipher of a store, from the text that a configuration or a command has as its secret.

Never here: what is done with a key (`encryption`), files that have secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.log.encryption import Algorithm, Cipher


def store_cipher(secret: str | None, name: str | None) -> Cipher | None:
    """Make the cipher of a store: AES, or CHACHA. Any text is a secret; scrypt derives the key."""
    if secret is None:
        return None
    from headrace.log.encryption import Cipher

    return Cipher(_store_key(secret), _algorithm(name))


def server_cipher(secret: str | None, name: str | None, previous: str | None = None) -> Cipher | None:
    """Return the cipher of a server's store: it converts what is encrypted with the other cipher, or the
    secret before.
    """
    if secret is None:
        return None
    from headrace.log.encryption import ALGORITHMS, Cipher

    used = _algorithm(name)
    keys = [_store_key(one) for one in dict.fromkeys((secret, previous)) if one is not None]
    others = tuple(
        Cipher(key, algorithm)
        for key in keys
        for algorithm in ALGORITHMS
        if (key, algorithm) != (keys[0], used)
    )
    return Cipher(keys[0], used, others)


def _algorithm(name: str | None) -> Algorithm:
    return "chacha20-poly1305" if name == "CHACHA" else "aes-gcm"


def _store_key(secret: str) -> bytes:
    import hashlib  # a server without encryption has no use for it

    from headrace.log.encryption import KEY_BYTES

    return hashlib.scrypt(secret.encode(), salt=b"headrace store", n=1 << 14, r=8, p=1, dklen=KEY_BYTES)
