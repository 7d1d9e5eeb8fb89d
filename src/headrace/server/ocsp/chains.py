"""A peer's certificates: the chain that OpenSSL verified, and what each link of it says about responders.

Never lives here: whether they are good (`checks`).
"""

from __future__ import annotations

import hashlib
import ssl
from base64 import b64encode
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID
from msgspec import Struct

from headrace.server.monitor.certificates import subject_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REMEMBERED: Final = 20_480
"""Chains of peers that may come back with a session of TLS 1.2, as many as OpenSSL remembers sessions; who
comes back when its chain was given up is refused."""

_SCHEMES: Final = ("http", "https")


class Certificate:
    """One certificate, as it is named in log lines and events."""

    __slots__ = ("der", "fingerprint", "x509")

    def __init__(self, der: bytes) -> None:
        """Read a certificate, DER. Raises: ValueError."""
        self.der: Final = der
        self.x509: Final = x509.load_der_x509_certificate(der)
        self.fingerprint: Final = b64encode(hashlib.sha256(der).digest()).decode()

    @property
    def subject(self) -> str:
        return subject_text(self.x509.subject)

    @property
    def issuer(self) -> str:
        return subject_text(self.x509.issuer)

    @property
    def responders(self) -> tuple[str, ...]:
        """The URLs of HTTP at which its authority says whether it is still good.

        Raises: ValueError for extensions that cannot be read.
        """
        try:
            access = self.x509.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
        except x509.ExtensionNotFound:
            return ()
        places = (
            each.access_location.value
            for each in access
            if each.access_method == AuthorityInformationAccessOID.OCSP
            and isinstance(each.access_location, x509.UniformResourceIdentifier)
        )
        return tuple(place for place in places if _is_of_http(place))


class CheckedCertificate(Struct, frozen=True):
    """A certificate that its authority can be asked about."""

    certificate: Certificate
    issuer: Certificate
    responders: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The key by which an answer about the certificate is remembered."""
        return self.certificate.fingerprint, self.issuer.fingerprint


def links(chain: Sequence[Certificate]) -> Iterator[CheckedCertificate]:
    """Yield the links of a chain that name a responder. Its last certificate is trusted and not asked about.

    Raises: ValueError for extensions that cannot be read.
    """
    for certificate, issuer in pairwise(chain):
        responders = certificate.responders
        if responders:
            yield CheckedCertificate(certificate, issuer, responders)


class Chains:
    """The chains by which peers were verified, DER, their own certificates first.

    A session of TLS 1.2 that is resumed has the peer's certificate only: its chain is that of the handshake
    in which the session was made.
    """

    def __init__(self) -> None:
        self._remembered: dict[bytes, tuple[bytes, ...]] = {}

    def of(self, connection: ssl.SSLObject) -> tuple[bytes, ...]:
        """() when the peer was not verified, or it is not known any more by whom."""
        own = connection.getpeercert(True)
        if own is None or connection.context.verify_mode is not ssl.CERT_REQUIRED:
            return ()
        chain = _verified(connection)
        if not chain:
            return self._remembered.get(own, ()) if connection.session_reused else ()
        if connection.version() == "TLSv1.2":
            self._remembered.pop(own, None)
            self._remembered[own] = chain
            if len(self._remembered) > REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
        return chain


def _verified(connection: ssl.SSLObject) -> tuple[bytes, ...]:
    """The chain that was built and verified in the handshake; () where the handshake verified nothing."""
    public = getattr(connection, "get_verified_chain", None)
    if public is not None:
        return tuple(public())
    # Before Python 3.13 it is there, but not public.
    inner: Any = connection._sslobj  # type: ignore[attr-defined]
    found = inner.get_verified_chain() or ()
    return tuple(ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in found)


def _is_of_http(place: str) -> bool:
    try:
        parts = urlsplit(place)
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(parts.netloc)
