"""The `tls` block: certificate, key, and how the handshake goes.

Here lives its reading and whether the files can be used, so that a broken certificate is an error with a
place in the configuration. Never lives here: connections (`headrace.server.tls`).
Cost: loads the ssl module, and only where TLS is configured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from headrace import limits
from headrace.conf.durations import parse_duration
from headrace.conf.fields import UNSET, Binder, Field, Table, flag, seconds, string_of, text
from headrace.conf.options import TLSOptions
from headrace.conf.problems import shown
from headrace.conf.tree import Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import Bound, UnsetType
    from headrace.conf.problems import Problems
    from headrace.conf.tree import Entry
    from headrace.errors import Position

_TLS_VERSIONS: Final = ("1.2", "1.3")
_HANDSHAKE_WORDS: Final = {
    "true": 0.0,
    "on": 0.0,
    "false": None,
    "off": None,
    "auto": limits.TLS_HANDSHAKE_FIRST_FALLBACK,
    "auto_fallback": limits.TLS_HANDSHAKE_FIRST_FALLBACK,
}


@dataclass(frozen=True, slots=True)
class TLSFlags:
    """What flags say about TLS; they replace files and `verify` of the block, and keep its other settings."""

    enabled: bool = True
    cert_file: str | None = None
    key_file: str | None = None
    ca_file: str | None = None
    verify: bool = False


def tls(binder: Binder, entry: Entry) -> TLSOptions | UnsetType:
    """The whole block."""
    bound = binder.bind_map(entry, _TLS)
    if bound is UNSET:
        return UNSET
    values = bound.values
    missing = [name for name in ("cert_file", "key_file") if not values.get(name)]
    if missing:
        names = " and ".join(missing)
        return binder.problem(f"missing {names} in the TLS configuration", entry.position)
    options = TLSOptions(
        cert_file=cast("str", values["cert_file"]),
        key_file=cast("str", values["key_file"]),
        ca_file=cast("str | None", values.get("ca_file")) or None,
        verify=cast("bool", values.get("verify", False)),
        timeout=cast("float", values.get("timeout", 0.0)) or limits.TLS_TIMEOUT,
        handshake_first=cast("float | None", values.get("handshake_first")),
        min_version=cast("str | None", values.get("min_version")),
    )
    check_files(options, binder.problems, bound)
    return options


def with_flags(options: TLSOptions | None, flags: TLSFlags) -> TLSOptions:
    """The options after flags; the caller has checked that certificate and key are named."""
    base = options or TLSOptions(cert_file="", key_file="")
    return TLSOptions(
        cert_file=flags.cert_file or "",
        key_file=flags.key_file or "",
        ca_file=flags.ca_file,
        verify=flags.verify,
        timeout=base.timeout,
        handshake_first=base.handshake_first,
        min_version=base.min_version,
    )


def check_files(options: TLSOptions, problems: Problems, bound: Bound | None = None) -> None:
    """Report files that cannot be read or hold no certificate, no key, or not the key of the certificate."""
    import ssl

    positions: dict[str, Position] = bound.positions if bound else {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name, path in (("cert_file", options.cert_file), ("key_file", options.key_file)):
        if not _is_readable(problems, path, positions.get(name)):
            return
    try:
        # A key with a pass phrase must not make the server ask for it on the terminal.
        context.load_cert_chain(options.cert_file, options.key_file, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        message = f"cannot use certificate {options.cert_file} and key {options.key_file}: {_reason(error)}"
        problems.add(message, positions.get("cert_file"))
    if options.ca_file is None or not _is_readable(problems, options.ca_file, positions.get("ca_file")):
        return
    try:
        context.load_verify_locations(options.ca_file)
    except ssl.SSLError as error:
        message = f"{options.ca_file} holds no certificates that can be used: {_reason(error)}"
        problems.add(message, positions.get("ca_file"))


def _is_readable(problems: Problems, path: str, position: Position | None) -> bool:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problems.add(f"open {path}: {reason[:1].lower()}{reason[1:]}", position)
        return False
    return True


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error)


def _handshake_first(binder: Binder, entry: Entry) -> float | UnsetType | None:
    """None: INFO first; 0.0: handshake first; more: that long for the client to begin, then INFO."""
    if isinstance(entry.node, Scalar) and isinstance(entry.node.value, bool):
        return 0.0 if entry.node.value else None
    value = string_of(entry.node)
    if value is None:
        return binder.wrong_type(entry, "true, false or a string")
    if value.lower() in _HANDSHAKE_WORDS:
        return _HANDSHAKE_WORDS[value.lower()]
    try:
        return max(parse_duration(value), 0.0)
    except ValueError:
        message = f"value {shown(value)} of field {shown(entry.key)} is invalid"
        return binder.problem(message, entry.node.position, 'true, false, "auto" or a duration')


def _min_version(binder: Binder, entry: Entry) -> str | UnsetType:
    value = string_of(entry.node)
    if value is None:
        return binder.wrong_type(entry, "a string")
    if value not in _TLS_VERSIONS:
        message = f"TLS version {shown(value)} is not supported"
        return binder.problem(message, entry.node.position, "1.2 or 1.3")
    return value


_TLS: Final = Table(
    (
        Field(("cert_file",), text),
        Field(("key_file",), text),
        Field(("ca_file",), text),
        Field(("verify",), flag),
        Field(("timeout",), seconds),
        Field(("handshake_first", "first", "immediate"), _handshake_first),
        Field(("min_version",), _min_version),
    ),
    unsupported={
        "insecure": frozenset((False,)),
        "verify_and_map": frozenset((False,)),
        "verify_cert_and_check_known_urls": frozenset((False,)),
        "allow_insecure_cipher_suites": frozenset((False,)),
        "cipher_suites": frozenset(),
        "curve_preferences": frozenset(),
        "connection_rate_limit": frozenset((0,)),
        "pinned_certs": frozenset(),
        "cert_store": frozenset(),
        "cert_match_by": frozenset(),
        "cert_match": frozenset(),
        "ca_certs_match": frozenset(),
        "cert_match_skip_invalid": frozenset((False,)),
        "ocsp_peer": frozenset((False,)),
        "certs": frozenset(),
        "certificates": frozenset(),
    },
)
