"""The TLS context of a client: whom it trusts, what it shows, and how long certificates are good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.client.errors import TLSFileError

if TYPE_CHECKING:
    import ssl

_SECOND: Final = 1_000_000_000


def client_context(
    ca_file: str | None = None,
    cert_file: str | None = None,
    key_file: str | None = None,
    *,
    verify: bool = True,
) -> ssl.SSLContext:
    """Return the context for connecting to a server.

    `ca_file` None: the system's authorities. Without `verify` any server is believed, which protects from
    readers only.

    Raises: TLSFileError for a file that cannot be used.
    """
    import ssl  # many connections have no TLS

    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise TLSFileError(ca_file or "the system's authorities", error) from error
    if cert_file:
        try:
            context.load_cert_chain(cert_file, key_file or None, password=_no_password)
        except (OSError, ValueError) as error:
            raise TLSFileError(cert_file, error) from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def certificates_end_ns(path: str) -> int:
    """Return when the first certificate of a file ends, or of several the earliest end, in ns since 1970 UTC.

    Raises: TLSFileError for a file without one. Cost: the first call loads the cryptography package.
    """
    from cryptography import x509

    try:
        with open(path, "rb") as file:
            found = x509.load_pem_x509_certificates(file.read())
    except (OSError, ValueError) as error:
        raise TLSFileError(path, error) from error
    return min(int(each.not_valid_after_utc.timestamp()) for each in found) * _SECOND


def _no_password() -> str:
    """Keep OpenSSL from asking for the password of an encrypted key on the terminal."""
    return ""
