"""The `tls` block: certificate, key, and how the handshake goes.

Here lives its reading and whether the files can be used, so that a broken certificate is an error with a
place in the configuration. Never lives here: connections (`headrace.server.tls`).
Cost: loads the ssl module, and only where TLS is configured.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from headrace import limits
from headrace.conf import ciphers
from headrace.conf.fields import UNSET, Binder, Field, KeyTable, fields_of, flag, string_of
from headrace.conf.ocsp import ocsp_peer
from headrace.conf.problems import shown
from headrace.conf.tls_options import CertificateFiles, TLSOptions
from headrace.conf.tree import ListNode, MapNode, Scalar
from headrace.protocol.durations import parse_duration
from headrace.structures import defaults_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.conf.fields import Bound, Reader, UnsetType
    from headrace.conf.problems import Problems
    from headrace.conf.tls_options import OCSPPeerOptions
    from headrace.conf.tree import Entry, Node
    from headrace.errors import Position

_KNOWN_URLS: Final = "verify_cert_and_check_known_urls"
_TLS_VERSIONS: Final = ("1.2", "1.3")
_KEY_DIGEST: Final = re.compile(r"[A-Fa-f0-9]{64}")
_HANDSHAKE_WORDS: Final = {
    "true": 0.0,
    "on": 0.0,
    "false": None,
    "off": None,
    "auto": limits.TLS_HANDSHAKE_FIRST_FALLBACK,
    "auto_fallback": limits.TLS_HANDSHAKE_FIRST_FALLBACK,
}


def tls(binder: Binder, entry: Entry) -> TLSOptions | UnsetType:
    """The whole block."""
    options = tls_of_peers(binder, entry)
    return UNSET if options is UNSET or _checks_urls(binder, entry, options) else options


def _checks_urls(binder: Binder, entry: Entry, options: TLSOptions) -> bool:
    """True if a block asks to check URLs, which needs the connecting servers to be configured."""
    if options.check_known_urls:
        binder.problem(f"{_KNOWN_URLS} not supported in this context", entry.position)
    return options.check_known_urls


def tls_of_peers(binder: Binder, entry: Entry) -> TLSOptions | UnsetType:
    """The block of a port that servers of the configuration connect to."""
    bound = binder.bind_map(entry, _TLS)
    if bound is UNSET:
        return UNSET
    values = bound.values
    more: tuple[CertificateFiles, ...] = ()
    if "certs" in values:
        if "cert_file" in values:
            message = "error parsing tls config, cannot combine 'cert_file' option with 'certs' option"
            return binder.problem(message, bound.positions["certs"])
        first, *rest = cast("tuple[CertificateFiles, ...]", values["certs"])
        values.update(cert_file=first.cert_file, key_file=first.key_file)
        bound.positions["cert_file"] = bound.positions["key_file"] = bound.positions["certs"]
        more = tuple(rest)
    missing = [name for name in ("cert_file", "key_file") if not values.get(name)]
    if missing:
        if bound.failed & {"certs", *missing}:
            return UNSET  # why it is missing has been said
        names = " and ".join(missing)
        return binder.problem(f"missing {names} in the TLS configuration", entry.position)
    options = _options(values, more)
    _check_ciphers(binder, entry, options, cast("bool", values.get("allow_insecure_cipher_suites", False)))
    if values.get("insecure"):
        message = "insecure has no effect where clients are accepted; verify decides whether they are checked"
        binder.problems.warn(message, bound.positions["insecure"])
    check_files(options, binder.problems, bound)
    return options


def client_tls(binder: Binder, entry: Entry) -> tuple[TLSOptions, bool] | UnsetType:
    """The block of a connection that is begun here: a certificate is only shown where there is one.

    The second is whether the other side is believed to be who it should be (`insecure`).
    """
    bound = binder.bind_map(entry, _TLS)
    if bound is UNSET:
        return UNSET
    values = bound.values
    named = [name for name in ("cert_file", "key_file") if values.get(name)]
    if "certs" in values:
        message = "only one certificate can be shown: cert_file and key_file instead of certs"
        return binder.problem(message, bound.positions["certs"])
    if len(named) == 1:
        return binder.problem("cert_file and key_file belong together", bound.positions[named[0]])
    options = _options(values, ())
    _check_ciphers(binder, entry, options, cast("bool", values.get("allow_insecure_cipher_suites", False)))
    check_files(options, binder.problems, bound)
    if _checks_urls(binder, entry, options):
        return UNSET
    return options, cast("bool", values.get("insecure", False))


def _options(values: dict[str, object], more: tuple[CertificateFiles, ...]) -> TLSOptions:
    maps = cast("bool", values.get("verify_and_map", False))
    checks = cast("bool", values.get(_KNOWN_URLS, False))
    return TLSOptions(
        cert_file=cast("str", values.get("cert_file", "")),
        key_file=cast("str", values.get("key_file", "")),
        ca_file=cast("str | None", values.get("ca_file")) or None,
        verify=maps or checks or cast("bool", values.get("verify", False)),
        timeout=cast("float", values.get("timeout", 0.0)) or limits.TLS_TIMEOUT,
        handshake_first=cast("float | None", values.get("handshake_first")),
        min_version=cast("str | None", values.get("min_version")),
        more_certs=more,
        cipher_suites=cast("tuple[str, ...]", values.get("cipher_suites", ())),
        curve_preferences=cast("tuple[str, ...]", values.get("curve_preferences", ())),
        verify_and_map=maps,
        pinned_certs=cast("tuple[str, ...]", values.get("pinned_certs", ())),
        connection_rate_limit=max(cast("int", values.get("connection_rate_limit", 0)), 0),
        check_known_urls=checks,
        ocsp_peer=cast("OCSPPeerOptions | None", values.get("ocsp_peer")),
    )


def _check_ciphers(binder: Binder, entry: Entry, options: TLSOptions, allows_insecure: bool) -> None:
    insecure = [name for name in options.cipher_suites if name in ciphers.INSECURE_CIPHERS]
    if insecure and not allows_insecure:
        message = (
            "insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: "
            f"{', '.join(insecure)}"
        )
        binder.problem(message, entry.position)


def with_flags(options: TLSOptions | None, flags: Mapping[str, object]) -> TLSOptions:
    """The options after flags, by option: these replace all that flags can say, and keep the rest.

    The caller has checked that certificate and key are named.
    """
    usual = defaults_of(TLSOptions)
    said = {name: flags.get(name) or usual[name] for name, key in TLSOptions.KEYS.items() if key.flag}
    return replace(options or TLSOptions(), more_certs=(), **cast("dict[str, Any]", said))


def check_files(options: TLSOptions, problems: Problems, bound: Bound | None = None) -> None:
    """Report files that cannot be read or hold no certificate, no key, or not the key of the certificate."""
    import ssl

    positions: dict[str, Position] = bound.positions if bound else {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for number, pair in enumerate(options.certs if options.cert_file else ()):
        places = positions if number == 0 else dict.fromkeys(positions, positions.get("certs"))
        for name, path in (("cert_file", pair.cert_file), ("key_file", pair.key_file)):
            if not is_readable(problems, path, places.get(name)):
                return
        try:
            # A key with a pass phrase must not make the server ask for it on the terminal.
            context.load_cert_chain(pair.cert_file, pair.key_file, password=lambda: "")
        except (ssl.SSLError, ValueError) as error:
            message = f"cannot use certificate {pair.cert_file} and key {pair.key_file}: {_reason(error)}"
            problems.add(message, places.get("cert_file"))
    if options.ca_file is not None:
        check_authorities(options.ca_file, problems, positions.get("ca_file"))


def check_authorities(path: str, problems: Problems, position: Position | None) -> None:
    """Report a file of authorities that cannot be read or holds no certificate."""
    import ssl

    if not is_readable(problems, path, position):
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError as error:
        problems.add(f"{path} holds no certificates that can be used: {_reason(error)}", position)


def is_readable(problems: Problems, path: str, position: Position | None) -> bool:
    """True if a file can be read; else the reason is reported."""
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
    """Read `handshake_first`.

    None: INFO first; 0.0: handshake first; more: the seconds that a client has to begin, then INFO.
    """
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


def _named(kind: str, known: Collection[str]) -> Reader:
    """A reader of a list of names out of `known`."""

    def read(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
        if not isinstance(entry.node, ListNode):
            return binder.wrong_type(entry, "a list")
        if not entry.node.items:
            message = f"error parsing tls config, '{entry.key}' cannot be empty"
            return binder.problem(message, entry.node.position)
        names = []
        for node in entry.node.items:
            name = string_of(node)
            if name is None:
                binder.wrong_node(f"each of {shown(entry.key)}", node, "a string")
            elif name not in known:
                hint = f"known are {', '.join(known)}"
                binder.problem(f"unrecognized {kind} {shown(name)}", node.position, hint)
            else:
                names.append(name)
        return tuple(names) or UNSET

    return read


def _pinned_certs(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    if not isinstance(entry.node, ListNode):
        return binder.wrong_type(entry, "a list of SHA-256 digests of public keys")
    digests: dict[str, None] = {}
    for node in entry.node.items:
        value = string_of(node)
        if value is None or not _KEY_DIGEST.fullmatch(value):
            message = (
                f"'pinned_certs' key {shown(value or '')} does not look like hex-encoded sha256 of DER "
                "encoded SubjectPublicKeyInfo"
            )
            binder.problem(message, node.position)
        else:
            digests[value.lower()] = None
    return tuple(digests)


def _certs(binder: Binder, entry: Entry) -> tuple[CertificateFiles, ...] | UnsetType:
    if not isinstance(entry.node, ListNode):
        return binder.wrong_type(entry, "a list of maps with cert_file and key_file")
    pairs = [_pair(binder, node) for node in entry.node.items]
    return tuple(pair for pair in pairs if pair is not None) or UNSET


def _pair(binder: Binder, node: Node) -> CertificateFiles | None:
    if not isinstance(node, MapNode):
        binder.wrong_node("each of the certs", node, "a map with cert_file and key_file")
        return None
    found_before = len(binder.problems)
    values = binder.bind(node, _PAIR).values
    if values.get("cert_file") and values.get("key_file"):
        return CertificateFiles(cast("str", values["cert_file"]), cast("str", values["key_file"]))
    if len(binder.problems) == found_before:
        binder.problem("each of the certs needs both cert_file and key_file", node.position)
    return None


_PAIR: Final = KeyTable(fields_of(CertificateFiles))
_TLS: Final = KeyTable(
    (
        Field(
            ("certs", "certificates"),
            _certs,
            text=(
                "Several pairs in the place of `cert_file` and `key_file`, chosen by the name a client "
                "asks for"
            ),
            kind="list of maps",
        ),
        *fields_of(
            TLSOptions,
            {
                "pinned_certs": _pinned_certs,
                "handshake_first": _handshake_first,
                "min_version": _min_version,
                "cipher_suites": _named("cipher", ciphers.CIPHERS),
                "curve_preferences": _named("curve preference", ciphers.CURVES),
                "ocsp_peer": ocsp_peer,
            },
        ),
        Field(
            ("verify_cert_and_check_known_urls",),
            flag,
            text=(
                "For routes and gateways: a server may connect whose certificate is made out to a host "
                "of the configured URLs; then user and password count for nothing"
            ),
            default="false",
        ),
        Field(
            ("allow_insecure_cipher_suites",),
            flag,
            text="Take suites that are known to be weak",
            default="false",
        ),
        Field(("insecure",), flag, text="Means nothing for a server's own port", default="false"),
    ),
    unsupported={
        "cert_store": frozenset(),
        "cert_match_by": frozenset(),
        "cert_match": frozenset(),
        "ca_certs_match": frozenset(),
        "cert_match_skip_invalid": frozenset((False,)),
    },
)
