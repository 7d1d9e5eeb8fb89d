"""Which user a certificate is: generated certificates and users, against what the Go server makes of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID as O
from hypothesis import given
from hypothesis import strategies as st

from harness.certificates import Authority, tls_config
from harness.processes import NATS_SERVER, ServerProcess
from headrace.core.certificate_names import distinguished_name, is_made_out_to, mapped_user

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from harness.wire import Wire

STREET: Final = O.STREET_ADDRESS
EMAIL_IN_SUBJECT: Final = x509.NameAttribute(O.EMAIL_ADDRESS, "joe@subject")


def rdn(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([x509.NameAttribute(kind, value) for kind, value in attributes])


def subject(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([rdn(attribute) for attribute in attributes])


JOE: Final = subject((O.COUNTRY_NAME, "DE"), (O.ORGANIZATION_NAME, "Acme"), (O.COMMON_NAME, "joe"))
COMPONENTS: Final = subject(
    (O.DOMAIN_COMPONENT, "com"),
    (O.DOMAIN_COMPONENT, "acme"),
    (O.ORGANIZATIONAL_UNIT_NAME, "Ops"),
    (O.COMMON_NAME, "joe"),
)
MULTIPLE: Final = x509.Name(
    [rdn((O.ORGANIZATION_NAME, "Acme")), rdn((O.COMMON_NAME, "joe"), (O.SERIAL_NUMBER, "1"))]
)
ODD: Final = subject((O.ORGANIZATION_NAME, " A, B+C; "), (O.COMMON_NAME, '#"<joe>\\'))


@dataclass(frozen=True)
class Case:
    subject: x509.Name
    names: tuple[x509.GeneralName, ...]
    users: tuple[str, ...]


CASES: Final = {
    "email": Case(
        JOE, (x509.RFC822Name("joe@acme.com"), x509.DNSName("joe.acme.com")), ("joe.acme.com", "joe@acme.com")
    ),
    "second email": Case(JOE, (x509.RFC822Name("a@b"), x509.RFC822Name("c@d")), ("c@d",)),
    "dns after emails": Case(JOE, (x509.RFC822Name("a@b"), x509.DNSName("joe.acme.com")), ("joe.acme.com",)),
    "uri": Case(JOE, (x509.UniformResourceIdentifier("spiffe://acme/joe"),), ("spiffe://acme/joe",)),
    "uri after dns": Case(
        JOE,
        (x509.DNSName("x.y"), x509.UniformResourceIdentifier("spiffe://acme/joe")),
        ("spiffe://acme/joe",),
    ),
    "email of the subject": Case(x509.Name([*JOE, EMAIL_IN_SUBJECT]), (), ("joe@subject",)),
    "common name alone": Case(JOE, (), ("joe",)),
    "address": Case(JOE, (), ("127.0.0.1",)),
    "subject": Case(JOE, (), ("CN=joe,O=Acme,C=DE",)),
    "subject in another order": Case(JOE, (), ("C=DE,O=Acme,CN=joe",)),
    "subject in lower case": Case(JOE, (), ("cn=joe, o=Acme, c=DE",)),
    "value in another case": Case(JOE, (), ("CN=Joe,O=Acme,C=DE",)),
    "part of the subject": Case(JOE, (), ("CN=joe,O=Acme",)),
    "more than the subject": Case(JOE, (), ("CN=joe,O=Acme,C=DE,L=X",)),
    "escaped": Case(JOE, (), ("CN=j\\6fe,O=Acme,C=DE",)),
    "exact before reordered": Case(JOE, (), ("C=DE,O=Acme,CN=joe", "CN=joe,O=Acme,C=DE")),
    "components": Case(COMPONENTS, (), ("CN=joe,OU=Ops,DC=acme,DC=com",)),
    "components as text": Case(COMPONENTS, (), ("CN=joe,OU=Ops,DC=com,DC=acme",)),
    "components left out": Case(COMPONENTS, (), ("CN=joe,OU=Ops",)),
    "several in one part": Case(MULTIPLE, (), ("CN=joe+SERIALNUMBER=1,O=Acme",)),
    "several in one part, turned": Case(MULTIPLE, (), ("SERIALNUMBER=1+CN=joe,O=Acme",)),
    "several in one part as parts": Case(MULTIPLE, (), ("SERIALNUMBER=1,CN=joe,O=Acme",)),
    "odd characters": Case(ODD, (), ('CN=\\#\\"\\<joe\\>\\\\,O=\\ A\\, B\\+C\\;\\ ',)),
    "unknown attribute": Case(x509.Name([*JOE, EMAIL_IN_SUBJECT]), (), ("CN=joe,O=Acme,C=DE",)),
    "unknown attribute named": Case(
        x509.Name([*JOE, EMAIL_IN_SUBJECT]), (), ("E=joe@subject,CN=joe,O=Acme,C=DE",)
    ),
    "two units": Case(
        subject((O.ORGANIZATIONAL_UNIT_NAME, "a"), (O.ORGANIZATIONAL_UNIT_NAME, "b"), (O.COMMON_NAME, "joe")),
        (),
        ("CN=joe,OU=a+OU=b",),
    ),
    "two names": Case(subject((O.COMMON_NAME, "jim"), (O.COMMON_NAME, "joe")), (), ("CN=joe",)),
    "address parts": Case(
        subject((O.LOCALITY_NAME, "B"), (STREET, "S 1"), (O.POSTAL_CODE, "1"), (O.COMMON_NAME, "joe")),
        (),
        ("CN=joe,POSTALCODE=1,STREET=S 1,L=B",),
    ),
    "no subject": Case(x509.Name([]), (x509.DNSName("joe.acme.com"),), ("joe.acme.com",)),
    "no names": Case(x509.Name([]), (), ("joe",)),
    "email that only looks so": Case(subject((O.COMMON_NAME, "joe@acme.com")), (), ("joe@acme.com",)),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("names"), "names")


def of_go(wire: Wire, context: ssl.SSLContext) -> str | None:
    """The user that the Go server takes the client for."""
    wire.upgrade(context)
    wire.send(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n')
    if wire.take_line() != b"PONG\r\n":
        return None
    wire.send(b"SUB r 1\r\nPUB $SYS.REQ.USER.INFO r 0\r\n\r\n")
    wire.take_through(b"MSG r 1 ")
    wire.take_line()
    return str(json.loads(wire.take_line())["data"]["user"])


@pytest.mark.clients
@pytest.mark.parametrize("name", CASES)
def test_certificate_is_the_user_it_is_for_the_go_server(
    name: str, authority: Authority, tmp_path: Path
) -> None:
    case = CASES[name]
    pair = authority.issue("client", subject=case.subject, names=case.names)
    users = ",".join(f"{{user: {json.dumps(user)}}}" for user in case.users)
    tls = tls_config(authority.issue("server"), f'ca_file: "{authority.file}"', "verify_and_map: true")
    with (
        ServerProcess(NATS_SERVER, tmp_path, config=f"{tls}authorization {{ users: [{users}] }}") as server,
        server.connect() as wire,
    ):
        theirs = of_go(wire, authority.client_context(pair))

    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    assert mapped_user(certificate.public_bytes(Encoding.DER), case.users) == theirs


def test_certificates_of_the_table_are_somebody_and_nobody(authority: Authority) -> None:
    """Else the comparison would compare nothing."""
    found = []
    for case in CASES.values():
        pair = authority.issue("client", subject=case.subject, names=case.names)
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        found.append(mapped_user(certificate.public_bytes(Encoding.DER), case.users))
    assert found.count(None) >= 8
    assert len(found) - found.count(None) >= 16


@pytest.mark.parametrize(
    "text",
    ["", "joe", "=", "CN=", "CN=a,", "CN", "CN=#04", "CN=a\\", "CN=a\\x", "CN=a=b", ",", "+", "CN=a++O=b"],
)
def test_what_is_no_distinguished_name_is_none(text: str) -> None:
    assert distinguished_name(text) is None or text == "CN=a,"


@given(text=st.text(alphabet='CNO=a ,+\\#"2 ', max_size=12))
def test_any_text_is_a_name_or_none(text: str) -> None:
    name = distinguished_name(text)
    assert name is None or all(kind and value for part in name for kind, value in part)


@given(raw=st.binary(max_size=64))
def test_what_is_no_certificate_is_nobody(raw: bytes) -> None:
    assert mapped_user(raw, ("joe",)) is None


@pytest.mark.parametrize(
    ("names", "host", "is_its"),
    [
        (("a.example",), "A.Example", True),
        (("b.example", "A.EXAMPLE"), "a.example", True),
        (("*.example",), "a.example", True),
        (("*.example",), "a.b.example", False),
        (("*.b.example",), "b.example", False),
        (("a.*.example",), "a.b.example", False),
        (("*",), "localhost", True),
        (("a.example",), "b.example", False),
        ((), "a.example", False),
    ],
)
def test_certificate_is_made_out_to_a_host(
    authority: Authority, names: tuple[str, ...], host: str, *, is_its: bool
) -> None:
    """As nats-server's TestRouteTLS and RFC 6125, 6.4.3 have it: a `*` is one label, the first."""
    pair = authority.issue("host", names=[x509.DNSName(name) for name in names])
    der = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).public_bytes(Encoding.DER)
    assert is_made_out_to(der, ["other", host]) is is_its
    assert not is_made_out_to(b"no certificate", [host])
