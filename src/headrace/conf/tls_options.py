"""What the configuration says of TLS on one port.

Frozen data only, loaded where there is TLS. Durations are seconds.
"""

from __future__ import annotations

from msgspec import Struct

from headrace import limits


class CertificateFiles(Struct, frozen=True):
    """A certificate chain and its private key, PEM."""

    cert_file: str
    key_file: str


class OCSPPeerOptions(Struct, frozen=True):
    """How peers' certificates are checked with their authorities' responders. Times are seconds.

    `ca_timeout`: what one responder may take. `allowed_clockskew`: by how much its clock may differ.
    `validity`: of an answer that does not say until when it holds. `warn_only`: nobody is refused.
    `unknown_is_good`: a certificate that its responder does not know is taken.
    `allow_when_ca_unreachable`: so is one that nobody answers about, unless it was known to be revoked.
    """

    ca_timeout: float = limits.OCSP_TIMEOUT
    allowed_clockskew: float = 30.0
    validity: float = 3600.0
    warn_only: bool = False
    unknown_is_good: bool = False
    allow_when_ca_unreachable: bool = False


class TLSOptions(Struct, frozen=True):
    """`handshake_first`: None = INFO first, 0.0 = handshake first, >0 = wait that long for a ClientHello.

    `more_certs`: certificates to choose from by name and kind of key, beside the first. `cipher_suites` (of
    TLS 1.2) and `curve_preferences` have the names of `conf.ciphers`, () for the default. `verify_and_map`:
    the client's certificate says which user it is. `pinned_certs`: lower-case hexadecimal SHA-256 of the
    public keys (SubjectPublicKeyInfo) that clients may have, () for any. `connection_rate_limit`: handshakes
    a second, 0 for no limit. `check_known_urls`: between servers, a certificate made out to a host of the
    configured URLs says that it is one of them. `ocsp_peer` None: responders are not asked about the peer.
    """

    cert_file: str
    key_file: str
    ca_file: str | None = None
    verify: bool = False
    timeout: float = limits.TLS_TIMEOUT
    handshake_first: float | None = None
    min_version: str | None = None
    more_certs: tuple[CertificateFiles, ...] = ()
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[str, ...] = ()
    verify_and_map: bool = False
    pinned_certs: tuple[str, ...] = ()
    connection_rate_limit: int = 0
    check_known_urls: bool = False
    ocsp_peer: OCSPPeerOptions | None = None

    @property
    def certifies(self) -> bool:
        """Whether a certificate says who has connected."""
        return self.verify_and_map or self.check_known_urls

    @property
    def certs(self) -> tuple[CertificateFiles, ...]:
        """All certificates, the one for clients that name no server first."""
        return (CertificateFiles(self.cert_file, self.key_file), *self.more_certs)
