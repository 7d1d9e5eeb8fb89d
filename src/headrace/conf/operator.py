"""The keys of operator mode: `operator`, `trusted_keys`, `resolver` and its own, `default_sentinel`.

Here live their reading and the rules between them (`operator_options`). Never lives here: the
decision about a client (`headrace.core.trust`), fetching of tokens (`headrace.server`).
Source: nats-server 2.15.1. No message shows a token.
"""

from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from headrace.conf import operator_options as shapes
from headrace.conf.fields import (
    UNSET,
    Binder,
    Field,
    KeyTable,
    duration,
    fields_of,
    flag,
    string_of,
    text,
)
from headrace.conf.problems import shown
from headrace.conf.toplevel import OPERATOR_OPTIONS
from headrace.conf.tree import MapNode
from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.protocol.jwt.claims import OperatorClaims, UserLimitClaims
from headrace.protocol.jwt.decoding import (
    MAX_TOKEN,
    JWTError,
    decode_account,
    decode_operator,
    decode_user,
    undecorated,
)
from headrace.protocol.jwt.rules import is_key
from headrace.protocol.nkeys import KeyKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.conf.fields import UnsetType
    from headrace.conf.operator_options import OperatorOptions, ResolverOptions, ResolverTLSOptions
    from headrace.conf.problems import Problems
    from headrace.conf.tree import Entry
    from headrace.errors import Position
    from headrace.protocol.jwt.claims import UserClaims

_INLINE: Final = "eyJ"  # how every token begins: `{"` in base64
_MEMORY: Final = re.compile(r"MEM(?:ORY)?\s*\Z", re.IGNORECASE)
_URL: Final = re.compile(r"URL\s*\(\s*\"?([^\s\"]*?)\"?\s*\)\s*\Z", re.IGNORECASE)
_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})\Z")
_EXPECTED_RESOLVER: Final = 'MEMORY, URL("https://…") or a map with dir and type (full or cache)'


class ReadOperator(Struct, frozen=True):
    """An operator's token with what it says."""

    claims: OperatorClaims
    token: str


class OperatorSurroundings(Struct, frozen=True):
    """The values of the rest of a configuration that operator mode has rules about.

    `system_account` is what the file names, None if nothing.
    """

    system_account: str | None = None
    has_accounts: bool = False
    has_users: bool = False
    has_no_auth_user: bool = False
    has_auth_callout: bool = False


# --- readers ---


def operators(binder: Binder, entry: Entry) -> tuple[ReadOperator, ...] | UnsetType:
    """Tokens in place, or files with one each."""
    names = _strings(binder, entry)
    if names is UNSET:
        return UNSET
    found = [_operator(binder, name, position) for name, position in names]
    return tuple(operator for operator in found if operator is not None)


def _operator(binder: Binder, name: str, position: Position) -> ReadOperator | None:
    try:
        token = undecorated(_file_or_token(name))
        return ReadOperator(decode_operator(token), token)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        binder.problem(f"error parsing operator JWT: open {shown(name)}: {reason}", position)
    except (JWTError, ValueError) as error:
        binder.problem(f"error parsing operator JWT: {error}", position)
    return None


def _file_or_token(name: str) -> str:
    """Return a token, or the text of the file that a name leads to.

    Raises: OSError if a file cannot be read; ValueError if it holds no text or too much.
    """
    if name.startswith(_INLINE) and not os.path.exists(name[:255]):
        return name
    with open(name, "rb") as file:
        raw = file.read(MAX_TOKEN + 1)
    if len(raw) > MAX_TOKEN:
        raise ValueError("the file is too large for a token")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ValueError("the file holds no token") from None


def trusted_keys(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    """Public keys of operators."""
    return _keys(binder, entry, KeyKind.OPERATOR, "trust key {} required to be a valid public operator nkey")


def pinned_accounts(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    """Public keys of accounts."""
    return _keys(binder, entry, KeyKind.ACCOUNT, "pinned account key {} is not a valid public account nkey")


def _keys(binder: Binder, entry: Entry, kind: KeyKind, complaint: str) -> tuple[str, ...] | UnsetType:
    names = _strings(binder, entry)
    if names is UNSET:
        return UNSET
    for name, position in names:
        if not is_key(name, kind):
            binder.problem(complaint.format(shown(name)), position)
    return tuple(dict.fromkeys(name for name, _ in names))


def _strings(binder: Binder, entry: Entry) -> list[tuple[str, Position]] | UnsetType:
    """One string or a list of them, each with its place."""
    single = string_of(entry.node)
    if single is not None:
        return [(single, entry.node.position)]
    nodes = binder.list(entry)
    if nodes is UNSET:
        return UNSET
    found = []
    for node in nodes.items:
        value = string_of(node)
        if value is None:
            binder.wrong_node(f"each value of {shown(entry.key)}", node, "a string")
        else:
            found.append((value, node.position))
    return found


def preload(binder: Binder, entry: Entry) -> Mapping[str, str] | UnsetType:
    """Tokens of accounts by public key."""
    node = binder.map(entry)
    if node is UNSET:
        return UNSET
    tokens: dict[str, str] = {}
    for account in node.entries.values():
        token = text(binder, account)
        if token is UNSET:
            continue
        try:
            claims = decode_account(token)
        except JWTError as error:
            binder.problem(f"invalid account JWT for {shown(account.key)}: {error}", account.node.position)
            continue
        if claims.subject != account.key:
            message = f"the JWT preloaded for {shown(account.key)} is of another account"
            binder.problems.warn(message, account.position)
        tokens[account.key] = token
    return MappingProxyType(tokens)


def resolver(binder: Binder, entry: Entry) -> ResolverOptions | UnsetType:
    """Read the resolver, from which tokens of accounts come."""
    if isinstance(entry.node, MapNode):
        return _directory(binder, entry)
    value = string_of(entry.node)
    if value is None:
        return binder.wrong_type(entry, "a string or a map")
    if _MEMORY.match(value):
        return shapes.ResolverOptions("memory")
    found = _URL.match(value)
    if found is None:
        return binder.problem("error parsing account resolver", entry.node.position, _EXPECTED_RESOLVER)
    return _url_resolver(binder.problems, found[1], entry.node.position) or UNSET


def _url_resolver(problems: Problems, url: str, position: Position | None) -> ResolverOptions | None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        # It may hold a password, so it is not shown.
        problems.add("the account resolver's URL must be http:// or https:// and name a host", position)
        return None
    return shapes.ResolverOptions("url", url=url if url.endswith("/") else f"{url}/")


def _directory(binder: Binder, entry: Entry) -> ResolverOptions | UnsetType:
    node = cast("MapNode", entry.node)
    bound = binder.bind(node, _DIRECTORY)
    if bound.failed:
        return UNSET
    values = cast("dict[str, Any]", dict(bound.values))
    kind = str(values.pop("type", "")).lower()
    if kind in ("mem", "memory"):
        return shapes.ResolverOptions("memory")
    if kind not in ("full", "cache"):
        return binder.problem("error parsing account resolver", entry.position, _EXPECTED_RESOLVER)
    found_before = len(binder.problems)
    for name in _REFUSED[kind] & {name for name, value in values.items() if value or name == "hard_delete"}:
        binder.problem(f"{kind.upper()} does not accept {name}", bound.positions[name])
    if kind == "full" and "hard_delete" in values and not values.get("allow_delete"):
        binder.problem("hard_delete has no effect without delete", bound.positions["hard_delete"])
    if values.get("timeout", shapes.FETCH_TIMEOUT) <= 0:
        binder.problem("the fetch timeout is too small", bound.positions["timeout"])
    _check_directory(binder, values.get("directory"), bound.positions.get("directory", entry.position))
    if len(binder.problems) > found_before:
        return UNSET
    limit = values.get("limit", 0)
    values["limit"] = limit if limit > 0 else (shapes.CACHE_LIMIT if kind == "cache" else None)
    if values.get("interval", 0.0) <= 0:
        values.pop("interval", None)
    return shapes.ResolverOptions(kind, **values)


def _check_directory(binder: Binder, path: str | None, position: Position) -> None:
    if not path:
        binder.problem("dir has no value and needs to point to a directory", position)
    elif os.path.exists(path) and not (os.path.isdir(path) and os.access(path, os.W_OK)):
        binder.problem("dir needs to point to an accessible directory", position)


def resolver_tls(binder: Binder, entry: Entry) -> ResolverTLSOptions | UnsetType:
    """TLS of requests to a resolver."""
    bound = binder.bind_map(entry, _TLS)
    if bound is UNSET:
        return UNSET
    values = cast("dict[str, Any]", dict(bound.values))
    for name in ("verify", "timeout"):
        if values.pop(name, None) is not None:
            binder.problems.warn(f"{name} has no effect on a resolver", bound.positions[name])
    if bool(values.get("cert_file")) != bool(values.get("key_file")):
        return binder.problem("a certificate needs its key, and a key its certificate", entry.position)
    return shapes.ResolverTLSOptions(**values)


_REFUSED: Final = {
    "full": frozenset(("ttl",)),
    "cache": frozenset(("interval", "allow_delete", "hard_delete")),
}
_DIRECTORY: Final = KeyTable(
    (
        Field(("type",), text, text="`full`: all tokens; `cache`: those used lately"),
        *fields_of(shapes.ResolverOptions),
    )
)
_TLS: Final = KeyTable(
    (
        *fields_of(shapes.ResolverTLSOptions),
        Field(("verify",), flag, text="Accepted; the certificate is checked anyway", default="false"),
        Field(("timeout",), duration, text="Accepted", default=""),
    )
)


# --- rules between them ---


def operator_options(
    values: Mapping[str, object],
    positions: Mapping[str, Position],
    problems: Problems,
    around: OperatorSurroundings,
    failed: Collection[str] = (),
) -> OperatorOptions | None:
    """Combine the keys into options; None without an operator and without a trusted key.

    `values` are those of `toplevel.OPERATOR_OPTIONS`, `failed` names options with problems: the rules say
    nothing if one of those is among them. Contradictions are reported to `problems`.
    """
    if OPERATOR_OPTIONS & set(failed):
        return None
    return _Rules(values, positions, problems, around).options()


class _Rules:
    def __init__(
        self,
        values: Mapping[str, object],
        positions: Mapping[str, Position],
        problems: Problems,
        around: OperatorSurroundings,
    ) -> None:
        self._positions = positions
        self._problems = problems
        self._around = around
        self._operators = cast("tuple[ReadOperator, ...]", values.get("operator", ()))
        self._trusted = cast("tuple[str, ...]", values.get("trusted_keys", ()))
        self._resolver = cast("ResolverOptions | None", values.get("resolver"))
        self._tls = cast("ResolverTLSOptions | None", values.get("resolver_tls"))
        self._preload = cast("Mapping[str, str]", values.get("resolver_preload", MappingProxyType({})))
        self._pinned = cast("tuple[str, ...]", values.get("resolver_pinned_accounts", ()))
        self._sentinel = cast("str", values.get("default_sentinel", ""))

    def options(self) -> OperatorOptions | None:
        claims = tuple(entry.claims for entry in self._operators)
        resolver = self._chosen_resolver()
        system = self._system_account()
        if self._preload and resolver is not None and not resolver.is_writable:
            message = "resolver preloads only available for writeable resolver types MEM/DIR/CACHE_DIR"
            self._add(message, "resolver_preload")
        if not self._operators:
            if self._sentinel:
                self._add("default sentinel requires operators and accounts", "default_sentinel")
            if not self._trusted:
                self._check_nobody_trusted(resolver)
                return None
        else:
            self._check_operators(resolver, system)
        return shapes.OperatorOptions(
            trusted_keys=self._trusted or _keys_of(claims),
            strict_keys=frozenset(key for c in claims if c.strict_signing_keys for key in c.signing_keys),
            operators=claims,
            operator_tokens=tuple(entry.token for entry in self._operators),
            resolver=resolver,
            preload=self._preload,
            # The system account belongs to the operator and is always let in.
            pinned_accounts=frozenset((*self._pinned, *([system] if system else [])))
            if self._pinned
            else None,
            system_account=system,
            default_sentinel=self._sentinel,
        )

    def _add(self, message: str, option: str) -> None:
        self._problems.add(message, self._positions.get(option))

    def _check_nobody_trusted(self, resolver: ResolverOptions | None) -> None:
        """Refuse a resolver, and what belongs to it, where there is no operator: it would do nothing."""
        for option in ("resolver", "resolver_preload", "resolver_pinned_accounts", "resolver_tls"):
            if option in self._positions:
                self._add(f"{option} needs an operator or trusted_keys", option)
                return
        assert resolver is None, "it comes from a key or from an operator"

    def _chosen_resolver(self) -> ResolverOptions | None:
        resolver = self._resolver
        if resolver is None and len(self._operators) == 1 and "resolver" not in self._positions:
            url = self._operators[0].claims.account_server_url
            if url:
                # Tools publish the accounts below the operator's own URL.
                where = self._positions.get("operator")
                resolver = _url_resolver(self._problems, f"{url.rstrip('/')}/accounts", where)
        if self._tls is None:
            return resolver
        if resolver is None or resolver.kind != "url":
            self._problems.warn("resolver_tls is for a URL resolver", self._positions.get("resolver_tls"))
            return resolver
        return replace(resolver, tls=self._tls)

    def _system_account(self) -> str | None:
        if self._around.system_account:
            return self._around.system_account
        return self._operators[0].claims.system_account or None if len(self._operators) == 1 else None

    def _check_operators(self, resolver: ResolverOptions | None, system: str | None) -> None:
        around = self._around
        if self._sentinel:
            self._check_sentinel()
        if resolver is None and "resolver" not in self._positions:
            self._add("operators require an account resolver to be configured", "operator")
        if around.has_accounts:
            self._add("operators do not allow Accounts to be configured directly", "operator")
        if around.has_users:
            self._add("operators do not allow users to be configured directly", "operator")
        if around.has_no_auth_user:
            self._add("no_auth_user not compatible with Trusted Operator", "operator")
        if around.has_auth_callout:
            self._add("operators do not allow authorization callouts to be configured directly", "operator")
        if self._trusted:
            self._add("conflicting options for 'TrustedKeys' and 'TrustedOperators'", "trusted_keys")
        named = {entry.claims.system_account for entry in self._operators} - {""}
        if around.system_account and named and around.system_account not in named:
            self._add("system_account in config and operator JWT must be identical", "operator")
        named_first = self._operators[0].claims.system_account
        if resolver is not None and resolver.kind in ("full", "cache") and not (system or named_first):
            message = "using nats based account resolver - the system account needs to be specified"
            self._add(f"{message} in configuration or the operator jwt", "resolver")
        for entry in self._operators:
            self._check_claims(entry.claims)

    def _check_claims(self, claims: OperatorClaims) -> None:
        version = claims.server_version
        wanted = _VERSION.match(version)
        if version and wanted is None:
            message = f"operator {claims.subject} expects version {shown(version)}"
            self._add(f"{message}, which is not of the form <major>.<minor>.<update>", "operator")
        elif wanted is not None and _numbers(version) > _numbers(COMPATIBLE_VERSION):
            message = f"operator {claims.subject} expects server version {version}"
            self._add(f"{message}, this one is as version {COMPATIBLE_VERSION}", "operator")
        for key in _keys_of((claims,)):
            if not is_key(key, KeyKind.OPERATOR):
                message = f"trusted Keys {shown(key)} are required to be a valid public operator nkey"
                self._add(message, "operator")

    def _check_sentinel(self) -> None:
        try:
            claims = decode_user(self._sentinel)
        except JWTError as error:
            self._add(f"default sentinel JWT not valid: {error}", "default_sentinel")
            return
        # Whether a scope makes it a bearer token is known only with its account.
        if not claims.limits.bearer_token and not _may_be_scoped(claims):
            self._add("default sentinel must be a bearer token", "default_sentinel")


def _may_be_scoped(claims: UserClaims) -> bool:
    return bool(claims.issuer_account) and claims.limits == UserLimitClaims()


def _keys_of(operators: tuple[OperatorClaims, ...]) -> tuple[str, ...]:
    """The keys that sign accounts: the operator's own too, unless it says that only signing keys do."""
    return tuple(
        key
        for claims in operators
        for key in (*(() if claims.strict_signing_keys else (claims.subject,)), *claims.signing_keys)
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
