"""Client certificates in monitoring: names written as the Go server writes them."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from headrace.server.monitor.certificates import subject_text

CN, EMAIL, DC = NameOID.COMMON_NAME, NameOID.EMAIL_ADDRESS, NameOID.DOMAIN_COMPONENT
ORG, UNIT, COUNTRY = NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COUNTRY_NAME


def name(*parts: tuple[ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in parts])


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (name(), ""),
        (name((CN, "client")), "CN=client"),
        (
            name((COUNTRY, "DE"), (ORG, "Acme"), (UNIT, "one"), (UNIT, "two"), (CN, "x")),
            "CN=x,OU=one+OU=two,O=Acme,C=DE",
        ),
        (name((CN, "x"), (ORG, "Acme")), "CN=x,O=Acme"),
        (name((ORG, 'a,b+"c"<d>;e\\'), (CN, " x ")), 'CN=\\ x\\ ,O=a\\,b\\+\\"c\\"\\<d\\>\\;e\\\\'),
        (name((CN, "#x#")), "CN=\\#x#"),
        (name((CN, "first"), (CN, "last")), "CN=last"),
        (name((DC, "org"), (CN, "x")), "CN=x,0.9.2342.19200300.100.1.25=#13036f7267"),
        (name((EMAIL, "a@b"), (CN, "x")), "CN=x,1.2.840.113549.1.9.1=#0c03614062"),
        (name((ObjectIdentifier("1.2.3"), "ü" * 100)), "1.2.3=#0c81c8" + "c3bc" * 100),
        (name((ObjectIdentifier("1.2.3"), "a" * 300)), "1.2.3=#1382012c" + "61" * 300),
    ],
)
def test_subject_as_text(subject: x509.Name, text: str) -> None:
    assert subject_text(subject) == text
