"""The identity at the NATS server elsewhere: user, token, nkey or JWT for its CONNECT, and TLS.

Files are read when a connection begins, so that renewed credentials are taken at the next one. Never lives
here: sockets. Source: client protocol specification, sections 2 and 8.
"""

from __future__ import annotations

import base64
import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.client.address import Credentials
from headrace.errors import StartError
from headrace.protocol import nkeys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.options import AuthorizationOptions
    from headrace.conf.remote import NATSServerOptions

_SEED: Final = re.compile(r"\bS[A-Z2-7]{57}\b")
_JWT: Final = re.compile(r"^eyJ[\w-]+\.[\w-]+\.[\w-]+$", re.MULTILINE)
_SEED_PREFIX: Final = 18 << 3
_SEED_BYTES: Final = 36


class Identity:
    """The fields of CONNECT that identify this client.

    Raises (from `fields`): StartError for files that are no use.
    """

    def __init__(self, options: NATSServerOptions, authorization: AuthorizationOptions) -> None:
        self._options = options
        self.plain = _plain(options, authorization)

    def check(self) -> None:
        """Reads the files once, to fail early. Raises: StartError."""
        self.fields({"nonce": "check"})

    def fields(self, info: Mapping[str, object]) -> dict[str, object]:
        """The fields of CONNECT beside user, password and token: a signature over the nonce of INFO."""
        nonce = info.get("nonce")
        if self._options.credentials:
            text = _read(self._options.credentials, "credentials")
            jwt = _JWT.search(text)
            if jwt is None:
                raise StartError(f"no JWT in credentials file {self._options.credentials}")
            _, signature = _sign(text, self._options.credentials, nonce)
            return {"jwt": jwt.group(), "sig": signature}
        if self._options.nkey_seed_file:
            path = self._options.nkey_seed_file
            public, signature = _sign(_read(path, "nkey seed"), path, nonce)
            return {"nkey": public, "sig": signature}
        return {}


def _plain(options: NATSServerOptions, authorization: AuthorizationOptions) -> Credentials | None:
    """User or token of the section; else those of --user, --pass and --auth, which have no other use here."""
    if options.username is not None:
        return Credentials(user=options.username, password=options.password or "")
    if options.token is not None:
        return Credentials(token=options.token)
    if options.credentials or options.nkey_seed_file:
        return None
    if authorization.token is not None:
        return Credentials(token=authorization.token)
    for user in authorization.users[:1]:
        if user.user is not None:
            return Credentials(user=user.user, password=user.password or "")
    return None


def tls_context(options: NATSServerOptions) -> ssl.SSLContext | None:
    """For a server that asks for TLS; None: only if it does, with the system's authorities.

    Raises: StartError for files that cannot be used.
    """
    files = (options.client_cert, options.client_ca)
    if not (options.secure or options.skip_verify or options.server_name or any(files)):
        return None
    try:
        context = ssl.create_default_context(cafile=options.client_ca)
        if options.client_cert:
            context.load_cert_chain(options.client_cert, options.client_key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StartError(f"TLS for the NATS server: {reason}") from error
    if options.skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _read(path: str, what: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise StartError(f"cannot read {what} file {path}: {reason}") from error


def _sign(text: str, path: str, nonce: object) -> tuple[str, str]:
    """The public key of the seed in a file, and its signature (base64url) over the nonce."""
    # Tens of milliseconds to load, so only for those who have keys (ADR 0006).
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    found = _SEED.search(text)
    kind, seed = _decode_seed(found.group()) if found else (None, b"")
    if kind is None:
        raise StartError(f"no user seed in {path}")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    signature = key.sign(nonce.encode()) if isinstance(nonce, str) else b""
    encoded = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    return nkeys.encode_public(kind, public), encoded


def _decode_seed(text: str) -> tuple[nkeys.KeyKind | None, bytes]:
    """The kind and the 32 bytes of a user's seed; (None, b"") for anything else.

    Shape, in base32: 5 bits that say seed and 8 that say which kind (in 2 bytes) | 32 bytes | CRC16-XMODEM.
    """
    raw = base64.b32decode(text + "=" * (-len(text) % 8))
    if len(raw) != _SEED_BYTES or not nkeys.has_checksum(raw) or raw[0] & 0xF8 != _SEED_PREFIX:
        return None, b""
    kind = (raw[0] & 7) << 5 | raw[1] >> 3
    return (nkeys.KeyKind.USER, raw[2:34]) if kind == nkeys.KeyKind.USER else (None, b"")
