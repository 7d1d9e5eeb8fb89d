"""A client's certificate as `/connz?auth=1` shows it, and the names in certificates as texts.

Never lives here: what a name gives a client.
Source: the Go server 2.15.1, whose order of a name's parts and way to write them these are.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from headrace.server.tls import key_digest

if TYPE_CHECKING:
    from cryptography.x509 import Name, NameAttribute

_TYPES: Final = {
    "2.5.4.6": "C",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.17": "POSTALCODE",
    "2.5.4.3": "CN",
    "2.5.4.5": "SERIALNUMBER",
}
"""Types that have a name, in their order."""

_SINGLE: Final = frozenset(("CN", "SERIALNUMBER"))
"""The parameters of which the last one counts."""

_ESCAPED: Final = frozenset(',+"\\<>;')
_PRINTABLE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 '()+,-./:=?")
_PRINTABLE_STRING, _UTF8_STRING = 0x13, 0x0C  # tags of ASN.1


def certificate_document(der: bytes) -> dict[str, str]:
    """Subject and digests of one certificate. Cost: loads the cryptography package on the first call."""
    from cryptography import x509

    return {
        "subject": subject_text(x509.load_der_x509_certificate(der).subject),
        "spki_sha256": key_digest(der),
        "cert_sha256": hashlib.sha256(der).hexdigest(),
    }


def subject_text(name: Name) -> str:
    """A distinguished name on one line: parts of the types above from the last to the first, then others."""
    named: dict[str, list[str]] = {oid: [] for oid in _TYPES}
    others = []
    for attribute in name:
        oid, value = attribute.oid.dotted_string, _value(attribute)
        if oid not in named:
            others.append(f"{oid}=#{_encoded(value).hex()}")
            continue
        if _TYPES[oid] in _SINGLE:
            named[oid].clear()
        named[oid].append(f"{_TYPES[oid]}={_escaped(value)}")
    parts = [*others, *("+".join(values) for values in named.values() if values)]
    return ",".join(reversed(parts))


def _value(attribute: NameAttribute[str | bytes]) -> str:
    return attribute.value if isinstance(attribute.value, str) else attribute.value.decode("latin-1")


def _escaped(value: str) -> str:
    last = len(value) - 1
    return "".join(
        f"\\{character}"
        if character in _ESCAPED or (character == " " and at in (0, last)) or (character == "#" and at == 0)
        else character
        for at, character in enumerate(value)
    )


def _encoded(value: str) -> bytes:
    """The value as DER."""
    data = value.encode()
    size = len(data)
    length = bytes([size]) if size < 0x80 else size.to_bytes((size.bit_length() + 7) // 8, "big")
    if size >= 0x80:
        length = bytes([0x80 | len(length)]) + length
    return bytes([_PRINTABLE_STRING if _PRINTABLE.issuperset(value) else _UTF8_STRING]) + length + data
