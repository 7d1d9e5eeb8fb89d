"""`headrace nkey`: keys of NATS made and shown, and what they sign and encrypt.

Only `gen` without a file prints a seed. Signatures are base64url without padding, as clients send them;
encrypted messages base64, or as they are in a file. Never lives here: the form of keys (`protocol.nkeys`,
`seeds`), tokens (`creds`).
"""

from __future__ import annotations

import secrets
import sys
from base64 import b64decode, b64encode, urlsafe_b64encode
from typing import TYPE_CHECKING

from headrace.cli.client.key_files import (
    STANDARD_INPUT,
    pair_of,
    public_key,
    read_bytes,
    read_curve_pair,
    read_signing_pair,
    write_secret,
)
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.protocol.keypairs import SEALED_MARK, SealError
from headrace.protocol.nkeys import KeyKind, NKeyError, decode_public, verify_signature
from headrace.protocol.seeds import PRIVATE_BYTES, encode_seed

if TYPE_CHECKING:
    from headrace.cli.call import Call


def generate(call: Call) -> None:
    """Make a key. Raises: CommandError if its file is there."""
    kind = KeyKind[call.options.kind.upper()]
    private = secrets.token_bytes(PRIVATE_BYTES)
    public, seed = pair_of(kind, private).public, encode_seed(kind, private)
    found = {"kind": kind.name.lower(), "public": public}
    path = call.options.output
    if path is None:
        found["seed"] = seed
    else:
        write_secret(path, f"{seed}\n".encode())
        found["file"] = path

    def show_lines() -> None:
        for name in ("seed", "public"):
            if name in found:
                call.out.line(found[name])

    call.out.document(found, show_lines, quiet=public)


def show(call: Call) -> None:
    """Show the public key of a file, and its kind. Raises: CommandError, SeedError."""
    public = public_key(call, call.options.key)
    kind, _ = decode_public(public)
    found = {"kind": kind.name.lower(), "public": public}
    call.out.document(found, lambda: call.out.facts(found.items()), quiet=public)


def sign(call: Call) -> None:
    """Print the signature of a file. Raises: CommandError, SeedError."""
    _check_one_input(call.options.file, call.options.key)
    pair = read_signing_pair(call, call.options.key)
    signature = urlsafe_b64encode(pair.sign(read_bytes(call.options.file))).rstrip(b"=").decode()
    found = {"public": pair.public, "signature": signature}
    call.out.document(found, lambda: call.out.line(signature), quiet=signature)


def verify(call: Call) -> ExitCode:
    """Check the signature of a file by a key: 3 if it is not right. Raises: CommandError, SeedError."""
    options = call.options
    _check_one_input(options.file, options.key)
    public = public_key(call, options.key)
    if decode_public(public)[0] is KeyKind.CURVE:
        raise CommandError("a curve key signs nothing", ExitCode.WRONG_USE)
    is_valid = verify_signature(public, read_bytes(options.file), options.signature)
    found = {"public": public, "valid": is_valid}
    said = "the signature is right" if is_valid else f"the signature is not that of {public} over this"
    call.out.document(found, lambda: call.out.line(said), quiet=public if is_valid else None)
    return ExitCode.DONE if is_valid else ExitCode.WRONG


def seal(call: Call) -> None:
    """Encrypt a file for the holder of a key. Raises: CommandError, SeedError."""
    options = call.options
    _check_one_input(options.file, options.key)
    pair = read_curve_pair(call, options.key)
    recipient = _public_curve_key(options.recipient)
    sealed = pair.seal(read_bytes(options.file), recipient)
    found: dict[str, object] = {"sender": pair.public, "recipient": recipient, "size_bytes": len(sealed)}
    if options.output is not None:
        _write(call, found, sealed)
        return
    text = b64encode(sealed).decode()
    call.out.document({**found, "sealed": text}, lambda: call.out.line(text), quiet=text)


def open_sealed(call: Call) -> None:
    """Decrypt a file. Raises: CommandError, with 3 if it is damaged or of another sender; SeedError."""
    options = call.options
    _check_one_input(options.file, options.key)
    pair = read_curve_pair(call, options.key)
    sender = _public_curve_key(options.sender)
    try:
        data = pair.open(_sealed_bytes(read_bytes(options.file)), sender)
    except SealError as error:
        raise CommandError(str(error), ExitCode.WRONG) from None
    found: dict[str, object] = {"sender": sender, "recipient": pair.public, "size_bytes": len(data)}
    if options.output is not None:
        _write(call, found, data)
        return
    from headrace.cli.json_keys import body_document

    is_raw = not call.out.is_terminal
    if call.out.is_quiet:
        call.out.body(data, raw=is_raw, end=b"" if is_raw else b"\n")
        return
    call.out.document(
        {**found, **body_document(data)},
        lambda: call.out.body(data, raw=is_raw, end=b"" if is_raw else b"\n"),
    )


def _write(call: Call, found: dict[str, object], data: bytes) -> None:
    """Write the file of `--output`, and say what it is. Raises: CommandError."""
    path = call.options.output
    write_secret(path, data)
    call.out.document({**found, "file": path}, lambda: call.out.line(f"written to {path}"), quiet=path)


def _sealed_bytes(data: bytes) -> bytes:
    """An encrypted message as it is, or in base64. Raises: SealError for what is neither."""
    if data.startswith(SEALED_MARK):
        return data
    try:
        return b64decode(data.strip(), validate=True)
    except ValueError:
        raise SealError("this is no encrypted message: neither its bytes nor base64") from None


def _public_curve_key(text: str) -> str:
    """A public curve key. Raises: CommandError for anything else."""
    try:
        kind, _ = decode_public(text)
    except NKeyError as error:
        raise CommandError(str(error), ExitCode.WRONG_USE) from None
    if kind is not KeyKind.CURVE:
        raise CommandError("what is encrypted has a public curve key (X...) at each end", ExitCode.WRONG_USE)
    return text


def _check_one_input(file: str, key: str) -> None:
    """Standard input is one of both. Raises: CommandError."""
    if file == key == STANDARD_INPUT:
        raise CommandError("the key and the file cannot both be standard input", ExitCode.WRONG_USE)
    if file == STANDARD_INPUT and sys.stdin.isatty():
        raise CommandError("- reads a pipe; there is none", ExitCode.WRONG_USE)
