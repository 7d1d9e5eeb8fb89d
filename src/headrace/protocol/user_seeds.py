"""A user's seed: proving by a signature over a server's nonce who one is.

A credentials file holds a user JWT and the seed it was made for, each between a line of dashes with its name
and one that ends it. No message here shows a seed. Never lives here: the form of a seed (`seeds`).
Source: client protocol, section 8.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from headrace.protocol.keypairs import SigningKeyPair
from headrace.protocol.nkeys import KeyKind
from headrace.protocol.seeds import SeedError, decode_seed, seed_in

_BLOCK: Final = re.compile(r"-{3,}[^\n]*-{3,}\s+([\w\-.=]+)\s+-{3,}[^\n]*-{3,}")


def find_seed(text: str, where: str) -> str:
    """Return the seed in the text of a file that has nothing else but comments. Raises: SeedError."""
    seed = seed_in(text)
    _private(seed, where)
    return seed


def read_credentials(text: str, where: str) -> tuple[str, str]:
    """Return the JWT and the seed in the text of a credentials file. Raises: SeedError."""
    found = _BLOCK.findall(text)
    if len(found) < 2:
        missing = "USER NKEY SEED" if found else "NATS USER JWT"
        raise SeedError(f"{where} has no {missing}: is it a credentials file?")
    _private(found[1], where)
    return found[0], found[1]


def credentials_text(jwt: str, seed: str) -> str:
    """Return the text of a credentials file, as tools write it."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        "The seed below proves who the user is: whoever has it can be that user.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def prove(seed: str, nonce: str, *, jwt: str | None = None, where: str = "the seed") -> dict[str, str]:
    """Return the fields that CONNECT has for a signed nonce: `sig`, and the `jwt` or else the `nkey`.

    Raises: SeedError that names `where` the seed was found.

    Cost: the first call loads the cryptography package.
    """
    pair = SigningKeyPair(KeyKind.USER, _private(seed, where))
    signature = base64.urlsafe_b64encode(pair.sign(nonce.encode())).rstrip(b"=").decode()
    return {"nkey": pair.public, "sig": signature} if jwt is None else {"jwt": jwt, "sig": signature}


def _private(seed: str, where: str) -> bytes:
    """Return the 32 private bytes of a user's seed. Raises: SeedError."""
    kind, private = decode_seed(seed, where, "seed of a user (SU...)")
    if kind is not KeyKind.USER:
        raise SeedError(f"{where}: the seed is not one of a user (SU...)")
    return private
