"""TLS for listeners: from options to an `ssl.SSLContext`, and what a finished handshake says.

Here lives reading certificates and saying exactly what is wrong with one. Never lives here: handshakes,
sockets. A private key's contents appear in no message.
"""

from __future__ import annotations

import hashlib
import re
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.conf.ciphers import CIPHERS, CURVES, TLS_13_CIPHERS
from headrace.errors import StartError
from headrace.server.alerts import NO_TLS, AlertingContext
from headrace.server.handshakes import PeerCheck

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography.x509 import Certificate

    from headrace.conf.tls_options import CertificateFiles, TLSOptions

NO_CLIENT_CERTIFICATE: Final = ssl.CERT_NONE
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_TOO_OLD: Final = ("1.0", "1.1")

_NO_HANDSHAKE: Final = "first record does not look like a TLS handshake"
_ECDHE_CIPHER: Final = re.compile(r"ECDHE-(RSA|ECDSA)-AES(128|256)-(GCM-)?SHA(256|384)?\Z")


class PeerContext(AlertingContext):
    """A TLS context that says what to check of peers.

    `peer_check`: what must be known of the other side when a handshake has ended.
    """

    peer_check: PeerCheck | None = None


def server_context(options: TLSOptions, kind: str = "") -> PeerContext:
    """A context for accepting clients; no ALPN, TLS 1.2 or newer. `kind`: of connections, for
    what is said of peers that are checked.

    Raises: StartError, one line naming the file, for a certificate, key or CA that is missing, broken or
    does not fit, for an unknown `min_version`, and for ciphers or curves that this OpenSSL does not have.
    """
    # OpenSSL has one certificate for each kind of key in a context, the one that was loaded last.
    context = _context(options, reversed(options.certs))
    if options.more_certs:
        _choose_by_name(context, options)
    if options.ocsp_peer is not None:
        if not options.verify:
            raise StartError(
                "OCSP peer verification for client connections requires TLS verify (mTLS) to be enabled"
            )
        context.peer_check = PeerCheck(options.ocsp_peer, kind, "client")
        # Tickets hold no chain, and are good in another process of the server, which has not seen it.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def client_context(options: TLSOptions, kind: str = "") -> PeerContext:
    """A context for connecting to another server of the same kind, whose name is checked.

    Raises: StartError, as `server_context`.
    """
    own = options.certs[:1] if options.cert_file else ()  # who need not show one may have none
    context = _context(options, own, ssl.PROTOCOL_TLS_CLIENT)
    if options.ca_file is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if options.ocsp_peer is not None:
        context.peer_check = PeerCheck(options.ocsp_peer, kind, "server")
    return context


def plain_client_context() -> ssl.SSLContext:
    """A context for connecting to any server that the system's authorities vouch for."""
    context = AlertingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _context(
    options: TLSOptions, pairs: Iterable[CertificateFiles], protocol: int = ssl.PROTOCOL_TLS_SERVER
) -> PeerContext:
    context = PeerContext(protocol)
    context.minimum_version = _minimum_version(options.min_version)
    _set_ciphers(context, options.cipher_suites)
    _set_curves(context, options.curve_preferences)
    for pair in pairs:
        _load_pair(context, pair)
    if options.verify:
        context.verify_mode = ssl.CERT_REQUIRED
    if options.ca_file is not None:
        _load_authorities(context, options.ca_file)
    elif options.verify:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def _choose_by_name(context: ssl.SSLContext, options: TLSOptions) -> None:
    """Give clients that name a server the certificates made out to it, all others those of `context`."""
    by_name: dict[str, list[CertificateFiles]] = {}
    for pair in options.certs:
        for name in _names(_certificate(pair.cert_file)):
            by_name.setdefault(name, []).append(pair)
    contexts = {name: _context(options, reversed(pairs)) for name, pairs in by_name.items()}

    def choose(connection: Any, name: str | None, _: ssl.SSLContext) -> None:
        if name is None:
            return
        wanted = name.lower()
        chosen = contexts.get(wanted) or contexts.get(f"*.{wanted.partition('.')[2]}")
        if chosen is not None:
            connection.context = chosen

    context.sni_callback = choose


def _names(certificate: Certificate) -> list[str]:
    """The host names a certificate is made out to, in lower case."""
    from cryptography import x509

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return [name.lower() for name in extension.value.get_values_for_type(x509.DNSName)]


def _set_ciphers(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    if not names:
        return
    of_12 = [CIPHERS[name] for name in names if name not in TLS_13_CIPHERS]
    if not of_12:  # whoever lists none of TLS 1.2 gets no handshake of TLS 1.2
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(of_12))
    except ssl.SSLError:
        raise StartError(
            f"error parsing tls config: {ssl.OPENSSL_VERSION} has none of cipher_suites {', '.join(names)}"
        ) from None


def _set_curves(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Use these curves only.

    Before Python 3.15 `ssl` takes one: the first that OpenSSL has, so that no other is used.
    """
    if not names:
        return
    set_groups = getattr(context, "set_groups", None)
    try:
        if set_groups is not None:
            set_groups(":".join(f"?{CURVES[name]}" for name in names))
            return
    except ssl.SSLError:
        raise _no_curve(names) from None
    for name in names:
        try:
            context.set_ecdh_curve(CURVES[name])
        except (ValueError, ssl.SSLError):
            continue
        return
    raise _no_curve(names)


def _no_curve(names: tuple[str, ...]) -> StartError:
    return StartError(
        f"error parsing tls config: {ssl.OPENSSL_VERSION} has none of curve_preferences {', '.join(names)}"
    )


def concerns(options: TLSOptions, now: datetime | None = None) -> list[str]:
    """Warnings about a configuration, a line each.

    Certificates out of their time, or that promise more than is served; settings that OpenSSL lacks.

    Raises: StartError if a certificate cannot be read.
    """
    now = now or datetime.now(UTC)
    found = []
    for pair in options.certs:
        certificate = _certificate(pair.cert_file)
        if certificate.not_valid_after_utc < now:
            when = certificate.not_valid_after_utc.isoformat(sep=" ", timespec="seconds")
            found.append(f'TLS certificate "{pair.cert_file}" expired at {when}')
        elif certificate.not_valid_before_utc > now:
            when = certificate.not_valid_before_utc.isoformat(sep=" ", timespec="seconds")
            found.append(f'TLS certificate "{pair.cert_file}" is not valid before {when}')
        if _demands_staple(certificate):
            why = "demands a stapled OCSP response (MustStaple), and none is stapled: some clients refuse it"
            found.append(f'TLS certificate "{pair.cert_file}" {why}')
    if len(options.curve_preferences) > 1 and not hasattr(ssl.SSLContext, "set_groups"):
        found.append("TLS curve_preferences: only the first curve that OpenSSL has is used")
    wanted = {CIPHERS[name] for name in options.cipher_suites} - TLS_13_CIPHERS
    if wanted:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _set_ciphers(context, options.cipher_suites)
        lacking = sorted(wanted - {each["name"] for each in context.get_ciphers()})
        if lacking:
            found.append(f"TLS cipher_suites that {ssl.OPENSSL_VERSION} does not use: {', '.join(lacking)}")
    return found


def certificate_expires_ns(options: TLSOptions) -> int:
    """The end of the server certificate, in nanoseconds since the Unix epoch.

    Raises: StartError if the certificate cannot be read.
    Cost: loads the cryptography package on the first call.
    """
    return int(_certificate(options.cert_file).not_valid_after_utc.timestamp()) * 1_000_000_000


def _certificate(path: str) -> Certificate:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(_read(path, "certificate"))
    except ValueError:
        raise StartError(f'TLS certificate "{path}" holds no PEM certificate') from None


def _demands_staple(certificate: Certificate) -> bool:
    from cryptography import x509

    try:
        features = certificate.extensions.get_extension_for_class(x509.TLSFeature).value
    except (
        x509.ExtensionNotFound,
        ValueError,
    ):  # none; or extensions that cannot be read, which OpenSSL judges
        return False
    return x509.TLSFeatureType.status_request in features


def peer_certificates(connection: ssl.SSLObject | ssl.SSLSocket) -> tuple[bytes, ...]:
    """The certificates that a client has shown, DER, its own first; () when it was not asked.

    Those behind the first are there from Python 3.13 on.
    """
    own = connection.getpeercert(True)
    if own is None:
        return ()
    chain = getattr(connection, "get_unverified_chain", None)
    return tuple(chain()) if chain is not None else (own,)


def key_digest(certificate: bytes) -> str:
    """Hexadecimal SHA-256 of the public key (SubjectPublicKeyInfo) of a certificate, both DER."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = x509.load_der_x509_certificate(certificate).public_key()
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def is_pinned(certificates: tuple[bytes, ...], pinned: tuple[str, ...]) -> bool:
    """True if a client may connect under `pinned_certs`: there are none, or its key is one of them."""
    return not pinned or (bool(certificates) and key_digest(certificates[0]) in pinned)


def is_probe(error: OSError) -> bool:
    """True for a failed handshake as scans and balancers cause it: no TLS, or silence."""
    if isinstance(error, ssl.SSLError):
        return error.reason in NO_TLS
    return isinstance(error, ConnectionAbortedError)  # asyncio's word for a handshake that took too long


def failure(error: OSError) -> str:
    """Why a handshake failed, for the log: OpenSSL's reason without where in its sources it was found."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"failed to verify certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return _NO_HANDSHAKE if error.reason in NO_TLS else error.reason.lower().replace("_", " ")
    return str(error) or "connection closed"


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


def _load_pair(context: ssl.SSLContext, pair: CertificateFiles) -> None:
    certificate, key = pair.cert_file, pair.key_file
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
