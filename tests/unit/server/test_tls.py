"""TLS contexts: each broken file is named in one line, and a good pair serves."""

from __future__ import annotations

import datetime
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.conf.options import TLSOptions
from headrace.errors import StartError
from headrace.server import tls

if TYPE_CHECKING:
    from pathlib import Path

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
    """Both ends after a handshake carried by hand, without a socket."""
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
