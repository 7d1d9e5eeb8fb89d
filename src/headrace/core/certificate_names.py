"""Names in certificates: the configured user of a client's (`verify_and_map`), and the known host of a
server's (`verify_cert_and_check_known_urls`).

Here lives the comparison of a verified certificate's names with those of users, in this order: its e-mail
addresses, DNS names and URIs, then its subject as a distinguished name (RFC 4514, in any order of its parts),
then the subject as text. Never lives here: verification of certificates, passwords.
Source: the names, their order and their text compared with the Go server 2.15.1.
Cost: loads cryptography's X.509 parser.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from cryptography.x509 import Certificate

    Part = tuple[tuple[str, str], ...]  # one part of a name: its attributes, sorted

_TYPES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.17": "POSTALCODE",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TEXT_ORDER: Final = ("SERIALNUMBER", "CN", "POSTALCODE", "STREET", "ST", "L", "OU", "O", "C")
_SINGLE: Final = frozenset(("SERIALNUMBER", "CN"))  # of these the last one counts
_SPECIAL: Final = re.compile(r'[,+"\\<>;]|^[ #]| $')
_REMEMBERED: Final = 4096  # names of users that were read; they are compared with every certificate
_PIECE: Final = re.compile(r"\\(?:([ \"#+,;<=>\\])|([0-9a-fA-F]{2}))|([,+=])|([^\\,+=]+)")


def mapped_user(certificate: bytes, users: Collection[str]) -> str | None:
    """The user that this certificate (DER, of a verified chain) stands for, None if there is none."""
    from cryptography import x509

    try:
        parsed = x509.load_der_x509_certificate(certificate)
        literal = next((name for name in _alternative_names(parsed) if name in users), None)
        attributes = [[(each.oid.dotted_string, each.value) for each in part] for part in parsed.subject.rdns]
    except ValueError:  # what its issuer signed is no certificate that anybody could read
        return None
    if literal is not None:
        return literal
    texts = [[(kind, value) for kind, value in part if isinstance(value, str)] for part in attributes]
    return _by_distinguished_name(attributes, users) or next(
        (text for text in _subject_texts(texts) if text in users), None
    )


def is_made_out_to(certificate: bytes, hosts: Iterable[str]) -> bool:
    """True if a DNS name of a certificate (DER, of a verified chain) is one of these hosts, in any case.

    A `*` stands for the first label, as in RFC 6125, 6.4.3.
    """
    from cryptography import x509

    try:
        parsed = x509.load_der_x509_certificate(certificate)
        found = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = found.get_values_for_type(x509.DNSName)
    except (ValueError, x509.ExtensionNotFound):
        return False
    known = [host.lower() for host in hosts]
    return any(_is_host(name.lower(), host) for name in names for host in known)


def _is_host(name: str, host: str) -> bool:
    names, hosts = name.split("."), host.split(".")
    first = 1 if names[0] == "*" else 0
    return len(names) == len(hosts) and names[first:] == hosts[first:]


def _alternative_names(certificate: Certificate) -> Iterator[str]:
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    for kind in (x509.RFC822Name, x509.DNSName, x509.UniformResourceIdentifier):
        yield from found.get_values_for_type(kind)


def _by_distinguished_name(
    attributes: list[list[tuple[str, str | bytes]]], users: Collection[str]
) -> str | None:
    """Return the user of a distinguished name; None also for a subject with attributes that no configuration
    names.
    """
    parts: list[Part] = []
    for part in reversed(attributes):
        known = [(_TYPES[kind], value) for kind, value in part if kind in _TYPES and isinstance(value, str)]
        if len(known) != len(part):
            return None
        parts.append(tuple(sorted(known)))
    if not parts:
        return None
    names = {user: name for user in users if (name := distinguished_name(user)) is not None}
    exact = next((user for user, name in names.items() if name == tuple(parts)), None)
    return exact or next((user for user, name in names.items() if sorted(name) == sorted(parts)), None)


@lru_cache(maxsize=_REMEMBERED)
def distinguished_name(text: str) -> tuple[Part, ...] | None:
    """The parts of a name as RFC 4514 writes it; None if it is none."""
    parts: list[Part] = []
    attributes: list[tuple[str, str]] = []
    for kind, value, end in _attributes(text):
        if not kind or value is None:
            return None
        attributes.append((kind, value))
        if end != "+":
            parts.append(tuple(sorted(attributes)))
            attributes = []
    return tuple(parts) or None


def _attributes(text: str) -> Iterator[tuple[str, str | None, str]]:
    """Type, value (None: there is none that can be read) and what follows each, "" at the end."""
    at = 0
    kind, piece, kept = "", bytearray(), 0
    while at < len(text):
        found = _PIECE.match(text, at)
        if found is None:
            yield "", None, ""
            return
        at = found.end()
        escaped, octet, separator, plain = found.groups()
        if separator == "=":
            if kind or text[at : at + 1] == "#":  # a value in BER
                yield "", None, ""
                return
            kind, piece, kept = piece.decode(errors="replace").strip(" ").upper(), bytearray(), 0
        elif separator:
            yield kind, _value(piece, kept), separator
            kind, piece, kept = "", bytearray(), 0
        else:
            piece += bytes.fromhex(octet) if octet else (escaped or plain).encode()
            if plain is None:
                kept = len(piece)
            elif not piece.strip(b" "):
                piece.clear()
    if piece or kind:
        yield kind, _value(piece, kept), ""


def _value(piece: bytearray, kept: int) -> str | None:
    """Blanks around it are no part of it, but for escaped ones, which end at `kept`."""
    text = bytes(piece[:kept] + piece[kept:].rstrip(b" "))
    text = text if kept and text.startswith(b" ") else text.lstrip(b" ")
    try:
        return text.decode() or None
    except UnicodeDecodeError:
        return None


def _subject_texts(parts: list[list[tuple[str, str]]]) -> Iterator[str]:
    """The subject with its domain components, if it has any, and without."""
    values: dict[str, list[str]] = {}
    for kind, value in (attribute for part in parts for attribute in part):
        name = _TYPES.get(kind)
        if name in _SINGLE:
            values[name or ""] = [value]
        elif name is not None:
            values.setdefault(name, []).append(value)
    components = values.pop("DC", [])
    text = ",".join(
        "+".join(f"{name}={_SPECIAL.sub(_escaped, value)}" for value in values[name])
        for name in _TEXT_ORDER
        if name in values
    )
    if components:
        yield ",".join([text, *(f"DC={value}" for value in components)])
    yield text


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
