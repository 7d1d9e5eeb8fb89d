"""Files of keys and credentials, as commands read and write them.

A seed stands in a file or comes by standard input: on a command line others on the machine could see it. What
is written is the owner's only, and no file is written over. No message here shows a seed.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Final

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.protocol.keypairs import CurveKeyPair, SigningKeyPair
from headrace.protocol.nkeys import KeyKind, NKeyError, decode_public
from headrace.protocol.seeds import decode_seed, is_seed, seed_in

if TYPE_CHECKING:
    from headrace.cli.call import Call

STANDARD_INPUT: Final = "-"
_OTHERS: Final = 0o077
_MODE: Final = 0o600


def read_bytes(path: str) -> bytes:
    """Return what is in a file, or comes by standard input for `-`. Raises: CommandError if there is none."""
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise CommandError(f"there is no file {path}", ExitCode.NOT_THERE) from None
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from None


def read_secret(call: Call, path: str) -> str:
    """Return the text of a file that others should not read; warns if they can. Raises: CommandError."""
    if is_seed(path):
        text = "a seed on the command line can be seen by others; give its file, or - for standard input"
        raise CommandError(text, ExitCode.WRONG_USE)
    found = read_bytes(path)
    if path != STANDARD_INPUT:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode & _OTHERS:
            call.out.warn(f"{path} has a secret and can be read by others: chmod 600")
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise CommandError(f"{path} is no file of a key: it is not UTF-8") from None


def read_pair(call: Call, path: str) -> SigningKeyPair | CurveKeyPair:
    """Return the key pair of the seed in a file. Raises: CommandError, SeedError."""
    return pair_of(*decode_seed(seed_in(read_secret(call, path)), path))


def read_user_private(call: Call, path: str) -> bytes:
    """Return the 32 private bytes of the user's seed in a file. Raises: CommandError, SeedError."""
    kind, private = decode_seed(seed_in(read_secret(call, path)), path)
    if kind is not KeyKind.USER:
        raise CommandError(f"{path} is not the seed of a user", ExitCode.WRONG_USE)
    return private


def read_signing_pair(call: Call, path: str, kind: KeyKind | None = None) -> SigningKeyPair:
    """Return the pair of the seed in a file, of this kind if one is said. Raises: CommandError, SeedError."""
    pair = read_pair(call, path)
    if not isinstance(pair, SigningKeyPair):
        raise CommandError(f"{path} has a curve key, which signs nothing", ExitCode.WRONG_USE)
    if kind is not None and pair.kind is not kind:
        text = f"{path} has the seed of {kind_name(pair.kind)}, not of {kind_name(kind)}"
        raise CommandError(text, ExitCode.WRONG_USE)
    return pair


def read_curve_pair(call: Call, path: str) -> CurveKeyPair:
    """Return the pair of the curve seed in a file. Raises: CommandError, SeedError."""
    pair = read_pair(call, path)
    if not isinstance(pair, CurveKeyPair):
        text = f"{path} has the seed of {kind_name(pair.kind)}; only a curve key (SX...) encrypts"
        raise CommandError(text, ExitCode.WRONG_USE)
    return pair


def pair_of(kind: KeyKind, private: bytes) -> SigningKeyPair | CurveKeyPair:
    """Return the key pair of 32 private bytes."""
    return CurveKeyPair(private) if kind is KeyKind.CURVE else SigningKeyPair(kind, private)


def public_key(call: Call, text: str) -> str:
    """Return a public key: the text itself, or that of the seed in the file that it names.

    Raises: CommandError, SeedError.
    """
    try:
        decode_public(text)
    except NKeyError:
        return read_pair(call, text).public
    return text


def kind_name(kind: KeyKind) -> str:
    """Return the name of a kind of key, with its article."""
    name = kind.name.lower()
    return f"{'an' if name[0] in 'ao' else 'a'} {name}"


def write_secret(path: str, data: bytes) -> None:
    """Write a new file that only its owner can read. Raises: CommandError if there is a file already."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError:
        text = f"{path} is there already; nothing was written"
        raise CommandError(text, ExitCode.EXISTS) from None
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from None
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise
