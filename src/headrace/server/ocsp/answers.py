"""OCSP answers: whether one is about this certificate, from whom it may be, until when it holds; and the
cache, so that a certificate is asked about once while an answer holds.

No socket, no clock. Source: RFC 6960; what is taken and refused compared with the Go server 2.15.1, which
takes an answer about another certificate of the same authority, too; also what counts as a hit of the cache.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID, SignatureAlgorithmOID
from msgspec import Struct

from headrace.server.monitor.source import OCSPCacheSnapshot

if TYPE_CHECKING:
    from headrace.conf.options import OCSPCacheOptions
    from headrace.conf.tls_options import OCSPPeerOptions
    from headrace.server.ocsp.chains import CheckedCertificate

GOOD: Final = "good"
REVOKED: Final = "revoked"
UNKNOWN: Final = "unknown"
_STATUSES: Final = {
    ocsp.OCSPCertStatus.GOOD: GOOD,
    ocsp.OCSPCertStatus.REVOKED: REVOKED,
    ocsp.OCSPCertStatus.UNKNOWN: UNKNOWN,
}
_BY_RSA: Final = frozenset(
    (
        SignatureAlgorithmOID.RSA_WITH_SHA1,
        SignatureAlgorithmOID.RSA_WITH_SHA256,
        SignatureAlgorithmOID.RSA_WITH_SHA384,
        SignatureAlgorithmOID.RSA_WITH_SHA512,
    )
)
_BY_CURVES: Final = frozenset(
    (
        SignatureAlgorithmOID.ECDSA_WITH_SHA1,
        SignatureAlgorithmOID.ECDSA_WITH_SHA256,
        SignatureAlgorithmOID.ECDSA_WITH_SHA384,
        SignatureAlgorithmOID.ECDSA_WITH_SHA512,
    )
)


class AnswerError(Exception):
    """The response is no answer that can be believed; the text says why."""


class DelegationError(AnswerError):
    """The answer is signed by somebody whom the authority has not told to sign answers."""


class CertificateStatus(Struct, frozen=True):
    """The answer of a responder about a certificate. `next_update` None: it holds for an unknown time."""

    status: str
    this_update: datetime
    next_update: datetime | None

    def why_not(self, options: OCSPPeerOptions, now: datetime) -> str | None:
        """Why it does not hold at that moment; None when it does."""
        skew = timedelta(seconds=options.allowed_clockskew)
        until = self.next_update or self.this_update + timedelta(seconds=options.validity)
        if until < now - skew:
            return f"it held until {until.isoformat()}"
        if self.this_update > now + skew:
            return f"it holds from {self.this_update.isoformat()} on"
        return None


def request(link: CheckedCertificate) -> bytes:
    """Make the request to a responder, DER. It has no nonce, so that answers made beforehand can be used."""
    builder = ocsp.OCSPRequestBuilder()
    hashed = hashes.SHA1()  # of the authority's name and key, in the form that every responder knows
    return (
        builder.add_certificate(link.certificate.x509, link.issuer.x509, hashed)
        .build()
        .public_bytes(Encoding.DER)
    )


def read(data: bytes, link: CheckedCertificate, now: datetime) -> CertificateStatus:
    """The answer about this certificate. Raises: AnswerError."""
    try:
        response = ocsp.load_der_ocsp_response(data)
        if response.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
            raise AnswerError(f"the responder answers {response.response_status.name.lower()}")
        _check_signature(response, link, now)
        return _answer(response, link)
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        x509.InvalidVersion,
        x509.DuplicateExtension,
    ) as error:
        raise AnswerError(f"it cannot be read: {error}") from None


def _answer(response: ocsp.OCSPResponse, link: CheckedCertificate) -> CertificateStatus:
    singles = list(response.responses)
    if len(singles) != 1:
        raise AnswerError(f"it is about {len(singles)} certificates")
    (single,) = singles
    asked = ocsp.OCSPRequestBuilder().add_certificate(
        link.certificate.x509, link.issuer.x509, single.hash_algorithm
    )
    wanted = asked.build()
    if (single.serial_number, single.issuer_name_hash, single.issuer_key_hash) != (
        wanted.serial_number,
        wanted.issuer_name_hash,
        wanted.issuer_key_hash,
    ):
        raise AnswerError("it is about another certificate")
    for extension in response.single_extensions:
        if extension.critical:
            raise AnswerError(f"it has an extension that must be understood: {extension.oid.dotted_string}")
    return CertificateStatus(
        _STATUSES[single.certificate_status], single.this_update_utc, single.next_update_utc
    )


def _check_signature(response: ocsp.OCSPResponse, link: CheckedCertificate, now: datetime) -> None:
    """Check that the authority signed the response, or the delegate whose certificate comes first in it."""
    issuer = link.issuer.x509
    signer = response.certificates[0] if response.certificates else issuer
    _verify(response, signer)
    if signer == issuer:
        return
    try:
        signer.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        raise AnswerError("it is signed by a stranger") from None
    if not signer.not_valid_before_utc <= now <= signer.not_valid_after_utc:
        raise AnswerError("the certificate that signed it is out of its time")
    try:
        usages = signer.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        usages = x509.ExtendedKeyUsage([])
    if ExtendedKeyUsageOID.OCSP_SIGNING not in usages:
        raise DelegationError("the certificate that signed it is not for that")


def _verify(response: ocsp.OCSPResponse, signer: x509.Certificate) -> None:
    key, kind, hashed = (
        signer.public_key(),
        response.signature_algorithm_oid,
        response.signature_hash_algorithm,
    )
    try:
        if hashed is not None and kind in _BY_RSA and isinstance(key, rsa.RSAPublicKey):
            key.verify(response.signature, response.tbs_response_bytes, padding.PKCS1v15(), hashed)
        elif hashed is not None and kind in _BY_CURVES and isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(response.signature, response.tbs_response_bytes, ec.ECDSA(hashed))
        else:
            raise AnswerError(f"nobody signs like that: {kind.dotted_string}")
    except InvalidSignature:
        raise AnswerError("its signature is wrong") from None


def now_utc() -> datetime:
    return datetime.now(UTC)


MAX_ANSWERS: Final = 10_000
"""One more, and the oldest is forgotten."""

_Key = tuple[str, str]


class Cache:
    """The remembered answers of responders, by certificate and authority."""

    def __init__(self, options: OCSPCacheOptions) -> None:
        self._options = options
        self._answers: dict[_Key, CertificateStatus] = {}
        self._hits = self._misses = 0

    def use(self, options: OCSPCacheOptions) -> None:
        self._options = options
        if not options.keeps:
            self._answers.clear()

    def get(self, key: _Key) -> CertificateStatus | None:
        """Return a remembered answer, also one that is too old: the caller says so by `outlived`."""
        answer = self._answers.get(key)
        if self._options.keeps:
            self._hits += answer is not None
            self._misses += answer is None
        return answer

    def outlived(self, key: _Key) -> None:
        """Count a cached answer that does not hold any more as a miss."""
        self._hits -= 1
        self._misses += 1
        if not (self._options.preserve_revoked and self._answers[key].status == REVOKED):
            del self._answers[key]

    def put(self, key: _Key, answer: CertificateStatus) -> None:
        if not self._options.keeps:
            return
        self._answers.pop(key, None)
        self._answers[key] = answer
        if len(self._answers) > MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def snapshot(self) -> OCSPCacheSnapshot | None:
        """Return the counts for monitoring; None: no answer is remembered."""
        if not self._options.keeps:
            return None
        statuses = [answer.status for answer in self._answers.values()]
        return OCSPCacheSnapshot(
            hits=self._hits,
            misses=self._misses,
            revoked=statuses.count(REVOKED),
            good=statuses.count(GOOD),
            unknown=statuses.count(UNKNOWN),
        )
