"""OCSP answers as they are read: what is not signed, or not about the certificate, is not believed."""

from __future__ import annotations

import datetime
import random
from typing import TYPE_CHECKING, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.certificates import Authority
from harness.responder import GOOD, HOUR, REVOKED, UNKNOWN, answer, key_of
from headrace.conf.options import OCSPCacheOptions
from headrace.conf.tls_options import OCSPPeerOptions
from headrace.server.ocsp import answers
from headrace.server.ocsp.answers import AnswerError, Cache, CertificateStatus, DelegationError, now_utc, read
from headrace.server.ocsp.chains import Certificate, CheckedCertificate, links

if TYPE_CHECKING:
    from pathlib import Path

    from harness.certificates import Pair

OPTIONS: Final = OCSPPeerOptions(allowed_clockskew=60.0, validity=3600.0)
NOW: Final = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
MINUTE: Final = datetime.timedelta(minutes=1)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "root")


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Pair:
    return authority.issue("alice", responders=["http://127.0.0.1:1/alice"])


def certificate(found: x509.Certificate) -> Certificate:
    return Certificate(found.public_bytes(serialization.Encoding.DER))


def link(pair: Pair, authority: Authority) -> CheckedCertificate:
    (found,) = links([certificate(pair.x509), certificate(authority.certificate)])
    return found


@pytest.mark.parametrize("status", [GOOD, REVOKED, UNKNOWN])
def test_answer_says_what_the_authority_has_signed(
    status: ocsp.OCSPCertStatus, authority: Authority, alice: Pair
) -> None:
    found = read(answer(alice.x509, authority, status), link(alice, authority), now_utc())
    assert found.status == status.name.lower()
    assert found.next_update is not None
    assert found.next_update - found.this_update == 2 * HOUR


def test_no_byte_of_an_answer_can_be_changed(authority: Authority, alice: Pair) -> None:
    """Whatever still can be read says the same: its signature holds what it says."""
    data = answer(alice.x509, authority, REVOKED)
    asked = link(alice, authority)
    expected = read(data, asked, now_utc())
    chance = random.Random(7)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << chance.randrange(8)
        try:
            assert read(bytes(changed), asked, now_utc()) == expected
        except AnswerError:
            continue


def test_no_beginning_of_an_answer_is_one(authority: Authority, alice: Pair) -> None:
    data = answer(alice.x509, authority)
    for size in range(len(data)):
        with pytest.raises(AnswerError):
            read(data[:size], link(alice, authority), now_utc())


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200))
def test_bytes_of_strangers_are_no_answer(authority: Authority, alice: Pair, data: bytes) -> None:
    with pytest.raises(AnswerError):
        read(data, link(alice, authority), now_utc())


def test_answer_about_another_certificate_is_none(authority: Authority, alice: Pair) -> None:
    other = authority.issue("other")
    with pytest.raises(AnswerError, match="another certificate"):
        read(answer(other.x509, authority), link(alice, authority), now_utc())


def test_answer_of_another_authority_with_the_same_number_is_none(
    authority: Authority, alice: Pair, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Signed by whom it should be, about a certificate of somebody else's."""
    other = Authority(tmp_path_factory.mktemp("other"), "other")
    now = now_utc()
    builder = ocsp.OCSPResponseBuilder().add_response_by_hash(
        issuer_name_hash=bytes(20),
        issuer_key_hash=bytes(20),
        serial_number=alice.x509.serial_number,
        algorithm=hashes.SHA1(),
        cert_status=GOOD,
        this_update=now,
        next_update=now + HOUR,
        revocation_time=None,
        revocation_reason=None,
    )
    signed = builder.responder_id(ocsp.OCSPResponderEncoding.NAME, authority.certificate).sign(
        authority.key, hashes.SHA256()
    )
    with pytest.raises(AnswerError, match="another certificate"):
        read(signed.public_bytes(serialization.Encoding.DER), link(alice, authority), now)
    said = answer(alice.x509, other)
    with pytest.raises(AnswerError, match="wrong"):
        read(said, link(alice, authority), now)


def test_delegate_must_be_for_that_and_in_its_time(authority: Authority, alice: Pair) -> None:
    def said(signer: Pair) -> bytes:
        return answer(alice.x509, authority, key=key_of(signer), signer=signer.x509, shows=True)

    usages = [ExtendedKeyUsageOID.OCSP_SIGNING]
    asked = link(alice, authority)
    assert read(said(authority.issue("signer", usages=usages)), asked, now_utc()).status == "good"
    with pytest.raises(DelegationError):
        read(said(authority.issue("client")), asked, now_utc())
    old = authority.issue("old", usages=usages, shift=-datetime.timedelta(days=90))
    with pytest.raises(AnswerError, match="out of its time"):
        read(said(old), asked, now_utc())


@pytest.mark.parametrize("size", [2048, 3072])
def test_authorities_with_rsa_keys_are_believed(size: int, alice: Pair, authority: Authority) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=size)
    issuer = signed_by(key, authority.certificate.subject, authority.certificate.subject, key.public_key())
    subject = signed_by(key, alice.x509.subject, authority.certificate.subject, alice.x509.public_key())
    now = now_utc()

    def said(signing: rsa.RSAPrivateKey, algorithm: hashes.HashAlgorithm) -> bytes:
        builder = ocsp.OCSPResponseBuilder().add_response(
            cert=subject,
            issuer=issuer,
            algorithm=hashes.SHA256(),
            cert_status=GOOD,
            this_update=now,
            next_update=None,
            revocation_time=None,
            revocation_reason=None,
        )
        builder = builder.responder_id(ocsp.OCSPResponderEncoding.HASH, issuer)
        return builder.sign(signing, algorithm).public_bytes(serialization.Encoding.DER)

    asked = CheckedCertificate(certificate(subject), certificate(issuer), ("http://127.0.0.1:1",))
    for algorithm in (hashes.SHA256(), hashes.SHA384(), hashes.SHA512()):
        assert read(said(key, algorithm), asked, now).status == "good"


def signed_by(
    key: rsa.RSAPrivateKey,
    subject: x509.Name,
    issuer: x509.Name,
    public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
) -> x509.Certificate:
    now = now_utc()
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(7).not_valid_before(now - HOUR).not_valid_after(now + HOUR)
    return builder.sign(key, hashes.SHA256())


@pytest.mark.parametrize(
    ("this", "until", "holds"),
    [
        (-MINUTE, MINUTE, True),
        (-60 * MINUTE, -MINUTE, True),  # clocks may differ
        (-60 * MINUTE, -1.1 * MINUTE, False),
        (MINUTE, 60 * MINUTE, True),
        (1.1 * MINUTE, 60 * MINUTE, False),
        (-60 * MINUTE, None, True),  # its validity
        (-61 * MINUTE, None, True),
        (-61.1 * MINUTE, None, False),
    ],
)
def test_answer_holds_in_its_time(
    this: datetime.timedelta, until: datetime.timedelta | None, holds: bool
) -> None:
    found = CertificateStatus("good", NOW + this, None if until is None else NOW + until)
    assert (found.why_not(OPTIONS, NOW) is None) is holds


@pytest.mark.parametrize(
    ("places", "asked"),
    [
        ((), ()),
        (("ldap://x/y",), ()),
        (("ftp://x", "http://x/y", "https://x"), ("http://x/y", "https://x")),
        (("http:", "nonsense", "http://["), ()),
    ],
)
def test_nobody_is_asked_about_the_last_of_a_chain_or_without_http(
    places: tuple[str, ...], asked: tuple[str, ...], tmp_path: Path
) -> None:
    root = Authority(tmp_path, "itself", responders=["http://x"])
    client = certificate(root.issue("client", responders=places).x509)
    found = list(links([client, certificate(root.certificate)]))
    assert [(each.certificate, each.responders) for each in found] == ([(client, asked)] if asked else [])


def test_cache_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWERS", 2)
    kept = Cache(OCSPCacheOptions())
    for name in ("a", "b", "a", "c"):
        kept.put((name, ""), CertificateStatus(answers.GOOD, NOW, None))
    assert [kept.get((name, "")) is not None for name in "abc"] == [True, False, True]
    snapshot = kept.snapshot()
    assert snapshot is not None
    assert (snapshot.good, snapshot.hits, snapshot.misses) == (2, 2, 1)


@pytest.mark.parametrize(("preserves", "status", "stays"), [
    (True, answers.REVOKED, True),
    (True, answers.GOOD, False),
    (False, answers.REVOKED, False),
])  # fmt: skip
def test_cache_keeps_past_revocations_where_it_should(preserves: bool, status: str, stays: bool) -> None:
    kept = Cache(OCSPCacheOptions(preserve_revoked=preserves))
    kept.put(("a", ""), CertificateStatus(status, NOW, NOW))
    kept.get(("a", ""))
    kept.outlived(("a", ""))
    snapshot = kept.snapshot()
    assert snapshot is not None
    assert (snapshot.hits, snapshot.misses) == (0, 1)
    assert (kept.get(("a", "")) is not None) is stays


def test_cache_that_is_turned_off_forgets() -> None:
    kept = Cache(OCSPCacheOptions())
    kept.put(("a", ""), CertificateStatus(answers.GOOD, NOW, None))
    kept.use(OCSPCacheOptions(keeps=False))
    assert kept.get(("a", "")) is None
    assert kept.snapshot() is None
