"""The options of TLS on one port.

Frozen data only, loaded where there is TLS. Durations are seconds.
"""

from __future__ import annotations

from headrace import limits
from headrace.conf.keys import Flag, Keyed, key, required


class CertificateFiles(Keyed, frozen=True):
    """A certificate chain and its private key, PEM."""

    cert_file: str = required("Certificate")
    key_file: str = required("Its private key")


class OCSPPeerOptions(Keyed, frozen=True):
    """The options for checking peers' certificates with their authorities' responders. Times are seconds.

    `ca_timeout`: the time that one responder may take. `allowed_clockskew`: by how much its clock may differ.
    `validity`: of an answer that does not say until when it holds. `warn_only`: nobody is refused.
    `unknown_is_good`: a certificate that its responder does not know is taken. `allow_when_ca_unreachable`:
    so is one that nobody answers about, unless it was known to be revoked.
    """

    ca_timeout: float = key(
        limits.OCSP_TIMEOUT,
        "Time that one responder has to answer",
        "seconds or duration",
        shown_default="2s",
    )
    allowed_clockskew: float = key(
        30.0, "How much the responder's clock may differ", "seconds or duration", shown_default="30s"
    )
    validity: float = key(
        3600.0,
        "How long an answer holds that does not say it",
        "seconds or duration",
        name="cache_ttl_when_next_update_unset",
        shown_default="1h",
    )
    warn_only: bool = key(False, "Refuse nobody, and say in the log who would have been")
    unknown_is_good: bool = key(False, "Take a certificate that its responder does not know")
    allow_when_ca_unreachable: bool = key(
        False, "Take a certificate that no responder answers about, unless it was revoked when last heard of"
    )


class TLSOptions(Keyed, frozen=True):
    """The TLS of one port, or of connections that are made from here.

    `cert_file` and `key_file` "": there is no certificate, which only who connects can do without.
    `handshake_first`: None = INFO first, 0.0 = handshake first, >0 = wait that long for a ClientHello.
    `more_certs`: certificates to choose from by name and kind of key, beside the first. `cipher_suites` (of
    TLS 1.2) and `curve_preferences` have the names of `conf.ciphers`, () for the default. `verify_and_map`:
    the client's certificate says which user it is. `pinned_certs`: lower-case hexadecimal SHA-256 of the
    public keys (SubjectPublicKeyInfo) that clients may have, () for any. `connection_rate_limit`: handshakes
    a second, 0 for no limit. `check_known_urls`: between servers, a certificate made out to a host of the
    configured URLs says that it is one of them. `ocsp_peer` None: responders are not asked about the peer.
    """

    cert_file: str = key(
        "",
        "Certificate of the server, with those between it and the authority",
        flag=Flag(("tlscert",), "file", "Certificate of the server", group="TLS"),
    )
    key_file: str = key(
        "",
        "Its private key, not encrypted",
        flag=Flag(("tlskey",), "file", "Private key of that certificate", group="TLS"),
    )
    ca_file: str | None = key(
        None,
        "Authorities that clients' certificates are checked with",
        shown_default="the system's",
        flag=Flag(("tlscacert",), "file", "Authorities that clients' certificates need", group="TLS"),
    )
    verify: bool = key(
        False,
        "Ask clients for certificates and refuse those without a good one",
        flag=Flag(("tlsverify",), "", "Use TLS and ask clients for certificates", group="TLS"),
    )
    timeout: float = key(
        limits.TLS_TIMEOUT, "Time a handshake may take", "seconds or duration", shown_default="2s"
    )
    handshake_first: float | None = key(
        None,
        "TLS before INFO: true, or `auto` or a duration: if the client begins within it",
        "true, false, `auto` or duration",
        aliases=(
            "first",
            "immediate",
        ),
        shown_default="false",
    )
    min_version: str | None = key(None, "`1.2` or `1.3`", shown_default="1.2")
    more_certs: tuple[CertificateFiles, ...] = ()
    cipher_suites: tuple[str, ...] = key(
        (),
        "Suites of TLS 1.2 by Go's names; those of TLS 1.3 are always on",
        "list",
        shown_default="OpenSSL's",
    )
    curve_preferences: tuple[str, ...] = key((), "Curves by Go's names", "list", shown_default="OpenSSL's")
    verify_and_map: bool = key(False, "As `verify`, and the certificate says which user the client is")
    pinned_certs: tuple[str, ...] = key(
        (),
        "SHA-256, in hexadecimal, of the public keys (SubjectPublicKeyInfo) that clients may have",
        "list",
        shown_default="all",
    )
    connection_rate_limit: int = key(
        0, "Handshakes a second; one more is turned away", shown_default="no limit"
    )
    check_known_urls: bool = False
    ocsp_peer: OCSPPeerOptions | None = key(
        None,
        "Ask the authorities' OCSP responders whether certificates of peers are still good: of "
        "clients and leaf nodes, with `verify`, and of hubs; see below",
        "true, false or map",
        shown_default="false",
    )

    @property
    def certifies(self) -> bool:
        """True if a certificate says who has connected."""
        return self.verify_and_map or self.check_known_urls

    @property
    def certs(self) -> tuple[CertificateFiles, ...]:
        """All certificates, the one for clients that name no server first."""
        return (CertificateFiles(self.cert_file, self.key_file), *self.more_certs)
