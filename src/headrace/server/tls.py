"""TLS for listeners: from options to an `ssl.SSLContext`, and the names monitoring shows.

Here lives reading certificates and saying exactly what is wrong with one. Never lives here: handshakes,
sockets. A private key's contents appear in no message.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.errors import StartError

if TYPE_CHECKING:
    from headrace.conf.options import TLSOptions

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_TOO_OLD: Final = ("1.0", "1.1")

_ECDHE_CIPHER: Final = re.compile(r"ECDHE-(RSA|ECDSA)-AES(128|256)-(GCM-)?SHA(256|384)?\Z")


def server_context(options: TLSOptions) -> ssl.SSLContext:
    """A context for accepting clients; no ALPN, TLS 1.2 or newer.

    Raises: StartError, one line naming the file, for a certificate, key or CA that is missing, broken or
    does not fit, and for an unknown `min_version`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _minimum_version(options.min_version)
    _load_pair(context, options)
    if options.verify:
        context.verify_mode = ssl.CERT_REQUIRED
    if options.ca_file is not None:
        _load_authorities(context, options.ca_file)
    elif options.verify:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def certificate_expires_ns(options: TLSOptions) -> int:
    """When the server certificate expires, in nanoseconds since the Unix epoch.

    Raises: StartError if the certificate cannot be read.
    Cost: loads the cryptography package on the first call.
    """
    from cryptography import x509

    data = _read(options.cert_file, "certificate")
    try:
        certificate = x509.load_pem_x509_certificate(data)
    except ValueError:
        raise StartError(f'TLS certificate "{options.cert_file}" holds no PEM certificate') from None
    return int(certificate.not_valid_after_utc.timestamp()) * 1_000_000_000


def negotiated_names(connection: ssl.SSLObject | ssl.SSLSocket) -> tuple[str, str]:
    """Version and cipher suite of a finished handshake as `/connz` shows them ("1.3", IANA name)."""
    version = (connection.version() or "").removeprefix("TLSv")
    cipher = connection.cipher()
    return version, iana_cipher_name(cipher[0]) if cipher else ""


def iana_cipher_name(name: str) -> str:
    """The IANA name of a cipher suite that OpenSSL names its own way, for those TLS 1.2 still offers."""
    match = _ECDHE_CIPHER.match(name)
    if match is not None:
        signature, bits, gcm, digest = match.groups()
        mode = "GCM" if gcm else "CBC"
        return f"TLS_ECDHE_{signature}_WITH_AES_{bits}_{mode}_SHA{digest or ''}"
    if name.startswith("ECDHE-") and name.endswith("-CHACHA20-POLY1305"):
        return f"TLS_ECDHE_{name.split('-')[1]}_WITH_CHACHA20_POLY1305_SHA256"
    return name


def _minimum_version(text: str | None) -> ssl.TLSVersion:
    if text is None:
        return ssl.TLSVersion.TLSv1_2
    if text in _TOO_OLD:
        raise StartError(f"error parsing tls config: unsupported TLS version: TLS {text}")
    if text not in _VERSIONS:
        raise StartError(f"error parsing tls config: unknown version: {text}")
    return _VERSIONS[text]


def _load_pair(context: ssl.SSLContext, options: TLSOptions) -> None:
    certificate, key = options.cert_file, options.key_file
    certificate_text = _read(certificate, "certificate").decode("ascii", errors="ignore")
    key_text = _read(key, "private key")
    try:
        # The password callback keeps OpenSSL from asking for one on the terminal.
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except _EncryptedKeyError:
        raise StartError(f'TLS private key "{key}" is encrypted; an unencrypted one is needed') from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise StartError(
                f'TLS private key "{key}" does not belong to certificate "{certificate}"'
            ) from None
        if not _holds_certificate(certificate_text):
            raise StartError(f'TLS certificate "{certificate}" holds no PEM certificate') from None
        what = "is not usable" if b"PRIVATE KEY-----" in key_text else "holds no PEM private key"
        raise StartError(f'TLS private key "{key}" {what}') from None


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    text = _read(path, "CA file").decode("ascii", errors="ignore")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise StartError(f'TLS CA file "{path}" holds no PEM certificate') from None


def _holds_certificate(text: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        return False
    return True


def _read(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise StartError(f'cannot read TLS {what} "{path}": {reason}') from None


class _EncryptedKeyError(Exception):
    """OpenSSL asked for a password."""


def _refuse_password() -> str:
    raise _EncryptedKeyError
