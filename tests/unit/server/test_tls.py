"""TLS contexts: each broken file is named in one line, and a good pair serves."""

from __future__ import annotations

import contextvars
import datetime
import hashlib
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from headrace.conf.ciphers import CIPHERS, CURVES, SECURE_CIPHERS
from headrace.conf.tls_options import CertificateFiles, TLSOptions
from headrace.errors import StartError
from headrace.server import alerts, tls

EXPIRES = datetime.datetime(2036, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def write_pair(directory: Path, name: str, password: bytes | None = None) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(EXPIRES)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    cert_file, key_file = directory / f"{name}.pem", directory / f"{name}-key.pem"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, encryption
        )
    )
    return str(cert_file), str(key_file)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("tls")
    cert, key = write_pair(directory, "server")
    other_cert, other_key = write_pair(directory, "other")
    _, locked_key = write_pair(directory, "locked", b"pw")
    contents = {
        "junk": b"junk",
        "empty": b"",
        "binary": bytes(range(256)),
        "bad_cert": b"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n",
        "bad_key": b"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n",
    }
    made = {
        "cert": cert,
        "key": key,
        "other_cert": other_cert,
        "other_key": other_key,
        "locked_key": locked_key,
    }
    for name, content in contents.items():
        (directory / name).write_bytes(content)
        made[name] = str(directory / name)
    return {**made, "missing": str(directory / "missing"), "directory": str(directory)}


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Return both ends after a handshake carried by hand, without a socket."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    waiting = [theirs, ours]
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
        if not waiting:
            return ours, theirs
    raise AssertionError("the handshake does not end")


def client_context(ca_file: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca_file)
    return context


def test_server_context_good_pair_serves_tls_without_alpn(files: dict[str, str]) -> None:
    client = client_context(files["cert"])
    client.set_alpn_protocols(["h2"])
    ours, _ = handshake(tls.server_context(TLSOptions(files["cert"], files["key"])), client)
    version, cipher = tls.negotiated_names(ours)
    assert version == "1.3"
    assert cipher.startswith("TLS_")
    assert ours.selected_alpn_protocol() is None


def test_negotiated_names_of_tls_12_are_iana_names(files: dict[str, str]) -> None:
    client = client_context(files["cert"])
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    ours, _ = handshake(tls.server_context(TLSOptions(files["cert"], files["key"])), client)
    assert tls.negotiated_names(ours) == ("1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
        ("ECDHE-RSA-AES128-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
        ("ECDHE-ECDSA-AES256-SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("DHE-RSA-AES128-CCM", "DHE-RSA-AES128-CCM"),
    ],
)
def test_iana_cipher_name(name: str, expected: str) -> None:
    assert tls.iana_cipher_name(name) == expected


def test_server_context_min_version_is_enforced(files: dict[str, str]) -> None:
    default = tls.server_context(TLSOptions(files["cert"], files["key"]))
    strict = tls.server_context(TLSOptions(files["cert"], files["key"], min_version="1.3"))
    assert default.minimum_version is ssl.TLSVersion.TLSv1_2
    assert strict.minimum_version is ssl.TLSVersion.TLSv1_3


def test_server_context_verify_refuses_a_client_without_certificate(files: dict[str, str]) -> None:
    server = tls.server_context(
        TLSOptions(files["cert"], files["key"], ca_file=files["other_cert"], verify=True)
    )
    client = client_context(files["cert"])
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(server, client)


def test_server_context_verify_accepts_a_client_with_certificate(files: dict[str, str]) -> None:
    server = tls.server_context(
        TLSOptions(files["cert"], files["key"], ca_file=files["other_cert"], verify=True)
    )
    client = client_context(files["cert"])
    client.load_cert_chain(files["other_cert"], files["other_key"])
    ours, _ = handshake(server, client)
    assert ours.getpeercert()


def test_server_context_verify_without_ca_uses_the_system_authorities(files: dict[str, str]) -> None:
    context = tls.server_context(TLSOptions(files["cert"], files["key"], verify=True))
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("cert", "key", "ca", "problem"),
    [
        ("missing", "key", None, 'cannot read TLS certificate "{missing}": no such file or directory'),
        ("directory", "key", None, 'cannot read TLS certificate "{directory}": is a directory'),
        ("cert", "missing", None, 'cannot read TLS private key "{missing}": no such file or directory'),
        ("junk", "key", None, 'TLS certificate "{junk}" holds no PEM certificate'),
        ("empty", "key", None, 'TLS certificate "{empty}" holds no PEM certificate'),
        ("binary", "key", None, 'TLS certificate "{binary}" holds no PEM certificate'),
        ("bad_cert", "key", None, 'TLS certificate "{bad_cert}" holds no PEM certificate'),
        ("cert", "junk", None, 'TLS private key "{junk}" holds no PEM private key'),
        ("cert", "empty", None, 'TLS private key "{empty}" holds no PEM private key'),
        ("cert", "bad_key", None, 'TLS private key "{bad_key}" is not usable'),
        ("cert", "other_key", None, 'TLS private key "{other_key}" does not belong to certificate "{cert}"'),
        ("cert", "locked_key", None, 'TLS private key "{locked_key}" is encrypted'),
        ("cert", "key", "missing", 'cannot read TLS CA file "{missing}": no such file or directory'),
        ("cert", "key", "junk", 'TLS CA file "{junk}" holds no PEM certificate'),
        ("cert", "key", "binary", 'TLS CA file "{binary}" holds no PEM certificate'),
    ],
)
def test_server_context_broken_file_is_named(
    files: dict[str, str], cert: str, key: str, ca: str | None, problem: str
) -> None:
    options = TLSOptions(files[cert], files[key], ca_file=None if ca is None else files[ca])
    with pytest.raises(StartError) as raised:
        tls.server_context(options)
    assert str(raised.value).startswith(problem.format(**files))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("1.1", "unsupported TLS version: TLS 1.1"),
        ("x", "unknown version: x"),
        ("TLS1.2", "unknown version: TLS1.2"),
    ],
)
def test_server_context_unknown_min_version_is_refused(
    files: dict[str, str], version: str, problem: str
) -> None:
    with pytest.raises(StartError, match=problem):
        tls.server_context(TLSOptions(files["cert"], files["key"], min_version=version))


def test_certificate_expires_ns_is_the_end_of_validity(files: dict[str, str]) -> None:
    assert (
        tls.certificate_expires_ns(TLSOptions(files["cert"], files["key"]))
        == int(EXPIRES.timestamp()) * 10**9
    )


@pytest.mark.parametrize("name", ["missing", "junk"])
def test_certificate_expires_ns_unreadable_certificate_is_a_start_error(
    files: dict[str, str], name: str
) -> None:
    with pytest.raises(StartError):
        tls.certificate_expires_ns(TLSOptions(files[name], files["key"]))


def options_of(files: dict[str, str], **more: Any) -> TLSOptions:
    return TLSOptions(files["cert"], files["key"], **more)


ECDSA_128 = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
ECDSA_256 = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"


@pytest.mark.parametrize("name", [ECDSA_128, ECDSA_256])
def test_cipher_suites_of_tls_12_are_those_listed(files: dict[str, str], name: str) -> None:
    client = client_context(files["cert"])
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    ours, _ = handshake(tls.server_context(options_of(files, cipher_suites=(name,))), client)
    assert tls.negotiated_names(ours) == ("1.2", name)


def test_client_without_a_listed_cipher_is_refused(files: dict[str, str]) -> None:
    client = client_context(files["cert"])
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers(CIPHERS[ECDSA_256])
    with pytest.raises(ssl.SSLError):
        handshake(tls.server_context(options_of(files, cipher_suites=(ECDSA_128,))), client)


def test_listing_only_ciphers_of_tls_13_leaves_no_tls_12(files: dict[str, str]) -> None:
    server = tls.server_context(options_of(files, cipher_suites=("TLS_AES_128_GCM_SHA256",)))
    client = client_context(files["cert"])
    ours, _ = handshake(server, client)
    assert ours.version() == "TLSv1.3"
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(server, client)


def test_ciphers_that_openssl_lacks_are_an_error_or_a_concern(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CIPHERS, "TLS_RSA_WITH_RC4_128_SHA", "NO-SUCH-CIPHER")
    with pytest.raises(StartError, match="has none of cipher_suites TLS_RSA_WITH_RC4_128_SHA"):
        tls.server_context(options_of(files, cipher_suites=("TLS_RSA_WITH_RC4_128_SHA",)))
    both = options_of(files, cipher_suites=(ECDSA_128, "TLS_RSA_WITH_RC4_128_SHA"))
    tls.server_context(both)
    (line,) = tls.concerns(both)
    assert "does not use: NO-SUCH-CIPHER" in line


def test_every_name_of_a_secure_cipher_and_of_a_classic_curve_is_known_to_openssl(
    files: dict[str, str],
) -> None:
    for name in SECURE_CIPHERS:
        tls.server_context(options_of(files, cipher_suites=(name,)))
    for name in ("X25519", "CurveP256", "CurveP384", "CurveP521"):
        tls.server_context(options_of(files, curve_preferences=(name,)))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_curve_preferences_exclude_others(named: dict[str, tuple[str, str]], version: ssl.TLSVersion) -> None:
    pair = named["rsa.example"]  # of an elliptic certificate the client would have to like the curve too
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.minimum_version = client.maximum_version = version
    client.set_ecdh_curve("secp384r1")
    handshake(tls.server_context(TLSOptions(*pair, curve_preferences=("CurveP384",))), client)
    for others in ("CurveP521", "X25519"):
        with pytest.raises(ssl.SSLError):
            handshake(tls.server_context(TLSOptions(*pair, curve_preferences=(others,))), client)


def test_curves_that_openssl_lacks(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CURVES, "X25519MLKEM768", "no-such-curve")
    with pytest.raises(StartError, match="has none of curve_preferences X25519MLKEM768"):
        tls.server_context(options_of(files, curve_preferences=("X25519MLKEM768",)))
    client = client_context(files["cert"])
    client.set_ecdh_curve("secp384r1")
    handshake(
        tls.server_context(options_of(files, curve_preferences=("X25519MLKEM768", "CurveP384"))), client
    )


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Certificates by what they are made out to, self-signed; "rsa" has a key of that kind for a.example."""
    directory = tmp_path_factory.mktemp("named")
    return {
        name: write_named(directory, file, name, kind)
        for file, name, kind in (
            ("a", "a.example", "ec"),
            ("b", "b.example", "ec"),
            ("w", "*.wild.example", "ec"),
            ("r", "rsa.example", "rsa"),
        )
    }


def write_named(directory: Path, file: str, name: str, kind: str) -> tuple[str, str]:
    key = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(EXPIRES)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = directory / f"{file}.pem", directory / f"{file}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return str(paths[0]), str(paths[1])


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("a.example", "a.example"),
        ("B.Example", "b.example"),
        ("x.wild.example", "*.wild.example"),
        ("x.y.wild.example", "a.example"),
        ("unknown", "a.example"),
        (None, "a.example"),
    ],
)
def test_certificate_is_the_one_made_out_to_the_name_asked_for(
    named: dict[str, tuple[str, str]], asked: str | None, given: str
) -> None:
    first, *others = (CertificateFiles(*named[name]) for name in ("a.example", "b.example", "*.wild.example"))
    server = tls.server_context(TLSOptions(first.cert_file, first.key_file, more_certs=tuple(others)))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE

    shown = subject_shown(server, client, asked)

    assert shown == given


def test_certificate_is_of_a_kind_the_client_takes(named: dict[str, tuple[str, str]]) -> None:
    more = (CertificateFiles(*named["rsa.example"]),)
    server = tls.server_context(TLSOptions(*named["a.example"], more_certs=more))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")

    assert subject_shown(server, client, None) == "rsa.example"


def subject_shown(server: ssl.SSLContext, client: ssl.SSLContext, asked: str | None) -> str:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=asked)
    waiting = [theirs, ours]
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
    der = theirs.getpeercert(True)
    assert der is not None
    certificate = x509.load_der_x509_certificate(der)
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def test_pinned_keys(files: dict[str, str]) -> None:
    certificate = x509.load_pem_x509_certificate(Path(files["cert"]).read_bytes())
    der = certificate.public_bytes(serialization.Encoding.DER)
    digest = hashlib.sha256(
        certificate.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    ).hexdigest()
    assert tls.key_digest(der) == digest
    assert tls.is_pinned((der,), ("0" * 64, digest))
    assert not tls.is_pinned((der,), ("0" * 64,))
    assert not tls.is_pinned((), (digest,))
    assert tls.is_pinned((), ())


@pytest.mark.parametrize(
    ("year", "concern"),
    [(2019, "is not valid before 2020-01-01 00:00:00+00:00"), (2037, "expired at 2036-01-02 03:04:05+00:00")],
)
def test_certificate_out_of_its_time_is_a_concern(files: dict[str, str], year: int, concern: str) -> None:
    now = datetime.datetime(year, 6, 1, tzinfo=datetime.UTC)
    assert tls.concerns(options_of(files), now) == [f'TLS certificate "{files["cert"]}" {concern}']
    assert tls.concerns(options_of(files), datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)) == []


def test_certificate_that_demands_a_stapled_response_is_a_concern(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stapled")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start.replace(year=2036))
        .add_extension(x509.TLSFeature([x509.TLSFeatureType.status_request]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "stapled.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (line,) = tls.concerns(TLSOptions(str(file), str(file)), start.replace(year=2026))
    assert line.startswith(f'TLS certificate "{file}" demands a stapled OCSP response')


def test_peer_certificates_begin_with_the_clients_own(files: dict[str, str]) -> None:
    server = tls.server_context(options_of(files, ca_file=files["other_cert"], verify=True))
    client = client_context(files["cert"])
    client.load_cert_chain(files["other_cert"], files["other_key"])
    ours, _ = handshake(server, client)
    own = x509.load_pem_x509_certificate(Path(files["other_cert"]).read_bytes())
    assert tls.peer_certificates(ours)[0] == own.public_bytes(serialization.Encoding.DER)
    plain, _ = handshake(tls.server_context(options_of(files)), client)
    assert tls.peer_certificates(plain) == ()


def test_failure_of_a_handshake_has_no_line_of_a_c_file(files: dict[str, str]) -> None:
    server = tls.server_context(options_of(files, ca_file=files["cert"], verify=True))
    client = client_context(files["cert"])
    client.load_cert_chain(files["other_cert"], files["other_key"])
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    ours, theirs = socket.socketpair()

    def fail() -> None:
        alerts.speak_on(ours)
        handshake(server, client)

    with ours, theirs, pytest.raises(ssl.SSLError) as raised:
        contextvars.copy_context().run(fail)
    assert tls.failure(raised.value).startswith("failed to verify certificate: self")
    assert tls.failure(ConnectionResetError()) == "connection closed"
    assert not tls.is_probe(raised.value)
    assert not tls.is_probe(ConnectionResetError())


def test_loop_writes_the_alert_where_the_socket_is_not_known(files: dict[str, str]) -> None:
    server = tls.server_context(options_of(files, ca_file=files["cert"], verify=True))
    client = client_context(files["cert"])
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):  # without a certificate
        handshake(server, client)


@pytest.mark.parametrize("is_closed", [False, True])
def test_alert_goes_out_before_the_failure_is_known(files: dict[str, str], *, is_closed: bool) -> None:
    """A socket that takes nothing any more changes nothing about the failure."""
    ours, theirs = socket.socketpair()

    def fail() -> None:
        alerts.speak_on(ours)
        server = tls.server_context(options_of(files, min_version="1.3"))
        client = client_context(files["cert"])
        client.maximum_version = ssl.TLSVersion.TLSv1_2
        handshake(server, client)

    with ours, theirs:
        if is_closed:
            theirs.close()
        with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL") as raised:
            contextvars.copy_context().run(fail)
        if is_closed:
            assert "could not be told" in raised.value.__notes__[0]
        else:
            assert theirs.recv(100) == b"\x15\x03\x03\x00\x02\x02\x46"  # fatal, protocol_version


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n", b"CONNECT {}\r\n", b"PING\r\nPING\r\n", bytes(100)]
)
def test_what_is_no_handshake_at_all_is_a_probe(files: dict[str, str], said: bytes) -> None:
    incoming = ssl.MemoryBIO()
    incoming.write(said)
    connection = tls.server_context(options_of(files)).wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
    with pytest.raises(ssl.SSLError) as raised:
        connection.do_handshake()
    assert tls.is_probe(raised.value)
    assert tls.failure(raised.value) == "first record does not look like a TLS handshake"
