"""Certificates for one test session, made by the cryptography package: no files kept, no openssl program."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_DAY = datetime.timedelta(days=1)
_NOW = datetime.timedelta()
_SERVERS_AND_CLIENTS: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    @property
    def x509(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate.read_bytes())


LOCAL_NAMES: Final = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))


class Authority:
    """A certificate authority that lives as long as the session."""

    def __init__(
        self, folder: Path, name: str, *, above: Authority | None = None, responders: Sequence[str] = ()
    ) -> None:
        """`above`: who has issued its certificate; None: it itself. `responders`: URLs to ask about that."""
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        issuer = above or self
        builder = (
            _builder(self._name, issuer._name, self.key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
        )
        self.certificate = _asked_at(builder, responders).sign(issuer.key, hashes.SHA256())
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        subject: x509.Name | None = None,
        names: Sequence[x509.GeneralName] = LOCAL_NAMES,
        shift: datetime.timedelta = _NOW,
        usages: Sequence[x509.ObjectIdentifier] = _SERVERS_AND_CLIENTS,
        responders: Sequence[str] = (),
    ) -> Pair:
        """A pair for servers (localhost, 127.0.0.1) and clients alike; its files are called `name`.

        It is valid around now + `shift`. `responders`: URLs of OCSP at which one asks about it. The
        authority's own certificate comes with it when another one has issued that.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        if subject is None:
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            _builder(subject, self._name, key.public_key(), shift)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(identifier, critical=False)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = _asked_at(builder, responders).sign(self.key, hashes.SHA256())
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        chain = [certificate] if self.certificate.issuer == self._name else [certificate, self.certificate]
        pair.certificate.write_bytes(
            b"".join(each.public_bytes(serialization.Encoding.PEM) for each in chain)
        )
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """A client that trusts this authority, and shows a certificate when one is given."""
        context = ssl.create_default_context(cafile=str(self.file))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context


def tls_config(pair: Pair, *more: str) -> str:
    """The `tls` block of a configuration file."""
    lines = [f'cert_file: "{pair.certificate}"', f'key_file: "{pair.key}"', *more]
    return "tls {\n  " + "\n  ".join(lines) + "\n}\n"


def _asked_at(builder: x509.CertificateBuilder, places: Sequence[str]) -> x509.CertificateBuilder:
    if not places:
        return builder
    access = [
        x509.AccessDescription(AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier(place))
        for place in places
    ]
    return builder.add_extension(x509.AuthorityInformationAccess(access), critical=False)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, shift: datetime.timedelta = _NOW
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC) + shift
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 30 * _DAY)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
