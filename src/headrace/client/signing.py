"""Proving who a client is with a key: credentials files, seeds, and the signature over a server's nonce.

Here live private keys, which `headrace.protocol.nkeys` never sees. Nothing is sent here.

Shape of a seed: base32 without padding of 16 bits (5 bits 18 = seed, 8 bits kind, 3 bits zero), the 32-byte
Ed25519 seed, CRC16-XMODEM little-endian. A credentials file holds a user JWT and the seed it was made for,
each between a line of dashes with its name and one that ends it. Source: client protocol, section 8.
"""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import Final

from headrace.client.address import Credentials
from headrace.client.errors import CredentialsError
from headrace.protocol.nkeys import KeyKind, encode_public

_SEED: Final = re.compile(r"S[A-Z2-7]{57}")
_SEED_KIND: Final = 18 << 3
_BLOCK: Final = re.compile(r"-{3,}BEGIN ([A-Z ]+)-{3,}\s+(\S+)\s+-{3,}END [A-Z ]+-{3,}")


def read_credentials_file(path: str | Path) -> Credentials:
    """The JWT and the seed of a `.creds` file. Raises: CredentialsError, never showing a secret."""
    blocks = dict(_BLOCK.findall(_text(path)))
    jwt, seed = blocks.get("NATS USER JWT"), blocks.get("USER NKEY SEED")
    if jwt is None or seed is None:
        missing = "NATS USER JWT" if jwt is None else "USER NKEY SEED"
        raise CredentialsError(f"{path} has no {missing}: is it a credentials file?")
    _private(seed, path)
    return Credentials(jwt=jwt, seed=seed)


def read_seed_file(path: str | Path) -> Credentials:
    """The seed in a file with nothing else but comments. Raises: CredentialsError."""
    match = _SEED.search(_text(path))
    if match is None:
        raise CredentialsError(f"{path} has no seed of a user (SU...)")
    _private(match[0], path)
    return Credentials(seed=match[0])


def sign(credentials: Credentials, nonce: str) -> dict[str, str]:
    """Return the fields that CONNECT has for a signed nonce.

    Raises: CredentialsError if there is no usable seed.

    Cost: the first call loads the cryptography package.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PrivateKey.from_private_bytes(_private(credentials.seed or "", "the seed"))
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=").decode()
    if credentials.jwt is not None:
        return {"jwt": credentials.jwt, "sig": signature}
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"nkey": encode_public(KeyKind.USER, public), "sig": signature}


def _private(seed: str, where: object) -> bytes:
    """The 32 bytes of a user's seed. Raises: CredentialsError."""
    if not _SEED.fullmatch(seed):
        raise CredentialsError(f"{where} has no seed of a user (SU...)")
    raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    if binascii.crc_hqx(raw[:-2], 0).to_bytes(2, "little") != raw[-2:]:
        raise CredentialsError(f"{where}: the checksum of the seed is wrong")
    if raw[0] & 0xF8 != _SEED_KIND or (raw[0] & 7) << 5 | raw[1] >> 3 != KeyKind.USER:
        raise CredentialsError(f"{where}: the seed is not one of a user (SU...)")
    return raw[2:-2]


def _text(path: str | Path) -> str:
    try:
        return Path(path).expanduser().read_text()
    except OSError as error:
        raise CredentialsError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{path} is not a text file") from error
