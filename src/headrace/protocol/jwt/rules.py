"""Rules of claims: the errors for which a server refuses a token whose signature is right.

Here live the rules of a single token. Never lives here: whether it is to be trusted (`headrace.core.trust`),
whether a server can do what it says.
Source: nats-server 2.15.1, of whose findings only those that block are given. Texts show subjects and public
keys, never tokens.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headrace.protocol import nkeys
from headrace.protocol.jwt import limits
from headrace.protocol.jwt.claims import EVERYBODY, NO_LIMIT, ActivationClaims
from headrace.protocol.jwt.decoding import JWTError, decode_activation
from headrace.protocol.nkeys import KeyKind, NKeyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.protocol.jwt.claims import (
        AccountClaims,
        AuthorizationResponseClaims,
        CalloutClaims,
        Claims,
        ExportClaims,
        ImportClaims,
        MappingClaims,
        PermissionClaims,
        TraceClaims,
        UserClaims,
        UserLimitClaims,
    )

MAX_INFO: Final = 8 * 1024
"""Bytes of a description or of its URL."""

_RESPONSE_TYPES: Final = ("", "Singleton", "Stream", "Chunked")
_CLUSTER_TRAFFIC: Final = ("", "system", "owner")
_REFERENCE: Final = re.compile(r"\$[+-]?[0-9]+\Z")


def time_issues(claims: Claims, now: float) -> Iterator[str]:
    """Units: `now` is seconds since 1970; whole ones are compared."""
    second = int(now)
    if 0 < claims.expires < second:
        yield "claim is expired"
    if claims.not_before > max(second, 0):
        yield "claim is not yet valid"


def user_issues(claims: UserClaims, now: float) -> list[str]:
    """Return the errors of a user's token."""
    found = [
        *time_issues(claims, now),
        *_permissions(claims.limits.permissions),
        *_user_limits(claims.limits),
    ]
    if claims.issuer_account and not is_key(claims.issuer_account, KeyKind.ACCOUNT):
        found.append("account_id is not an account public key")
    return found


def account_issues(claims: AccountClaims, now: float | None) -> list[str]:
    """Return the errors of an account's token; its times are checked only if `now` is given."""
    return [
        *([] if now is None else time_issues(claims, now)),
        *_imports(claims.imports, claims.subject),
        *_exports(claims.exports),
        *_tiers(claims),
        *_permissions(claims.default_permissions),
        *_mappings(claims.mappings),
        *_callout(claims.callout),
        *_trace(claims.trace),
        *_counts(claims),
        *_signing_keys(claims),
        *_info(claims.description, claims.info_url),
        *([] if claims.cluster_traffic in _CLUSTER_TRAFFIC else ["unknown cluster traffic option"]),
    ]


def activation_issues(claims: ActivationClaims, now: float | None) -> list[str]:
    """Return the errors of an activation; its times are checked only if `now` is given."""
    found = [] if now is None else [*time_issues(claims, now)]
    if not claims.kind:
        found.append("invalid import type")
    found += _subject(claims.import_subject)
    if claims.issuer_account and not is_key(claims.issuer_account, KeyKind.ACCOUNT):
        found.append("account_id is not an account public key")
    return found


def response_issues(claims: AuthorizationResponseClaims, now: float) -> list[str]:
    """Return the errors of the answer of a callout's service."""
    found = []
    if not is_key(claims.subject, KeyKind.USER):
        found.append("Subject must be a user public key")
    if not is_key(claims.audience, KeyKind.SERVER):
        found.append("Audience must be a server public key")
    if not claims.error and not claims.jwt:
        found.append("Error or Jwt is required")
    if claims.error and claims.jwt:
        found.append("Only Error or Jwt can be set")
    if claims.issuer_account and not is_key(claims.issuer_account, KeyKind.ACCOUNT):
        found.append("issuer_account is not an account public key")
    return [*found, *time_issues(claims, now)]


def is_key(text: str, kind: KeyKind) -> bool:
    """True if a text is a public key of this kind."""
    try:
        return nkeys.decode_public(text)[0] is kind
    except NKeyError:
        return False


def is_contained(subject: str, other: str) -> bool:
    """True if the tokens of `other` match those of `subject`; a `*` of `subject` is an ordinary token."""
    narrow, wide = subject.split("."), other.split(".")
    if len(narrow) < len(wide) or (len(narrow) > len(wide) and wide[-1] != ">"):
        return False
    return all(
        token in (narrow[place], "*") or (token == ">" and place == len(wide) - 1)
        for place, token in enumerate(wide)
    )


def _subject(subject: str) -> Iterator[str]:
    if not subject:
        yield "subject cannot be empty"
        return
    if " " in subject:
        yield f'subject "{subject}" cannot have spaces'
    if subject.startswith(".") or subject.endswith("."):
        yield f'subject "{subject}" cannot start or end with a `.`'
    if ".." in subject:
        yield f'subject "{subject}" cannot contain consecutive `.`'


def _has_wildcards(subject: str) -> bool:
    tokens = subject.split(".")
    return "*" in tokens or tokens[-1] == ">"


def _permissions(permissions: PermissionClaims) -> Iterator[str]:
    for claims, with_queue in ((permissions.subscribe, True), (permissions.publish, False)):
        for entry in (*(claims.allow or ()), *(claims.deny or ())):
            parts = entry.split(" ")
            if len(parts) > 2:
                yield f'Permission Subject "{entry}" contains too many spaces'
                continue
            for part in parts:
                yield from _subject(part)
            if len(parts) == 2 and not with_queue:
                yield f'Permission Subject "{entry}" is not allowed to contain queue'


def _user_limits(claims: UserLimitClaims) -> Iterator[str]:
    for text in claims.source_networks or ():
        if not _reads(limits.network, text):
            yield f'invalid cidr "{text}" in user src limits'
    for entry in claims.times or ():
        for name, text in (("start", entry.start), ("end", entry.end)):
            if not _reads(limits.time_of_day, text):
                yield f'{name} in time range is invalid "{text}"'
    if not _reads(limits.location, claims.times_location):
        yield f'could not parse iana time zone by name: "{claims.times_location}"'


def _reads(reader: object, text: str) -> bool:
    assert callable(reader)
    try:
        reader(text)
    except ValueError:
        return False
    return True


def _imports(imports: Sequence[ImportClaims], importer: str) -> Iterator[str]:
    taken: dict[str, list[str]] = defaultdict(list)
    for entry in imports:
        if entry.kind == "service":
            local = entry.to or _without_references(entry.local_subject) or entry.subject
            if any(
                is_contained(local, other) or is_contained(other, local) for other in taken[entry.account]
            ):
                yield f'overlapping subject namespace for "{local}" in account "{entry.account}"'
            taken[entry.account].append(local)
        yield from import_issues(entry, importer)


def import_issues(entry: ImportClaims, importer: str) -> Iterator[str]:
    if not entry.kind:
        yield "invalid import type"
    if entry.kind == "service" and entry.allow_trace:
        yield "AllowTrace only valid for stream import"
    if not entry.account:
        yield "account to import from is not specified"
    yield from _subject(entry.subject)
    if entry.local_subject:
        yield from _local_subject(entry.local_subject, entry.subject)
        if entry.to:
            yield "Local Subject replaces To"
    if entry.share and entry.kind != "service":
        yield f'sharing information (for latency tracking) is only valid for services: "{entry.subject}"'
    if entry.token:
        yield from _activation(entry, importer)


def _activation(entry: ImportClaims, importer: str) -> Iterator[str]:
    try:
        activation = decode_activation(entry.token)
    except JWTError:
        yield f'import "{entry.subject}" contains an invalid activation token'
        return
    if entry.account not in (activation.issuer, activation.issuer_account):
        yield f'activation token doesn\'t match account for import "{entry.subject}"'
    if activation.subject != importer:
        yield f'activation token doesn\'t match account it is being included in, "{entry.subject}"'
    if activation.kind != entry.kind:
        yield f"mismatch between token import type {activation.kind} and type of import {entry.kind}"
    yield from activation_issues(activation, None)
    subject = entry.to if entry.kind == "service" and entry.to else entry.subject
    if not is_contained(subject, activation.import_subject):
        yield f'activation token import subject doesn\'t match import "{entry.subject}"'


def _local_subject(local: str, source: str) -> Iterator[str]:
    """A renamed subject uses every wildcard of the source once, as `*` or as `$1`."""
    yield from _subject(local)
    if _ends_open(local) != _ends_open(source):
        yield "both, renaming subject and subject, need to end or not end in >"
    wildcards = source.split(".").count("*")
    used = 0
    for token in local.split("."):
        if token == "*":
            used += 1
        elif _REFERENCE.match(token):
            if int(token[1:]) > wildcards:
                yield f'reference {token} in "{local}" to a * that is not in "{source}"'
            else:
                used += 1
    if used != wildcards:
        yield "subject does not contain enough * or reference wildcards $[0-9]"


def _ends_open(subject: str) -> bool:
    return subject == ">" or subject.endswith(".>")


def _without_references(local: str) -> str:
    return ".".join("*" if _REFERENCE.match(token) else token for token in local.split("."))


def _exports(exports: Sequence[ExportClaims]) -> Iterator[str]:
    for entry in exports:
        yield from _export(entry)
    for is_service in (True, False):
        subjects = [entry.subject for entry in exports if (entry.kind == "service") is is_service]
        for place, subject in enumerate(subjects):
            for other in (*subjects[:place], *subjects[place + 1 :]):
                if is_contained(subject, other):
                    yield f'export subject "{other}" already exports "{subject}"'


def _export(entry: ExportClaims) -> Iterator[str]:
    is_service = entry.kind == "service"
    if not entry.kind:
        yield "invalid export type"
    if is_service and entry.response_type not in _RESPONSE_TYPES:
        yield "invalid response type for service"
    if entry.kind == "stream" and entry.response_type:
        yield "invalid response type for stream"
    if entry.kind == "stream" and entry.allow_trace:
        yield "AllowTrace only valid for service export"
    if entry.latency is not None:
        if not is_service:
            yield "latency tracking only permitted for services"
        if not 0 <= entry.latency.sampling <= 100:
            yield "sampling percentage needs to be between 1-100"
        yield from _subject(entry.latency.results)
        if _has_wildcards(entry.latency.results):
            yield "results subject can not contain wildcards"
    if entry.response_threshold < 0:
        yield "negative response threshold is invalid"
    if entry.response_threshold > 0 and not is_service:
        yield "response threshold only valid for services"
    yield from _subject(entry.subject)
    yield from _token_position(entry)
    yield from _info(entry.description, entry.info_url)


def _token_position(entry: ExportClaims) -> Iterator[str]:
    if not entry.account_token_position:
        return
    tokens = entry.subject.split(".")
    if not _has_wildcards(entry.subject):
        yield f"Account Token Position can only be used with wildcard subjects: {entry.subject}"
    elif entry.account_token_position > len(tokens):
        yield f"Account Token Position exceeds length of subject '{entry.subject}'"
    elif tokens[entry.account_token_position - 1] != "*":
        yield f"Account Token Position must match a * in: {entry.subject}"


def _tiers(claims: AccountClaims) -> Iterator[str]:
    if "" in claims.limits.jetstream_tiers:
        yield 'Tiered JetStream Limits can not contain a blank "" tier name'


def _mappings(mappings: Mapping[str, Sequence[MappingClaims]]) -> Iterator[str]:
    for source, destinations in mappings.items():
        yield from _subject(source)
        totals: dict[str, int] = defaultdict(int)
        for entry in destinations:
            yield from _subject(entry.subject)
            totals[entry.cluster] += entry.percent
        if any(total > 100 for total in totals.values()):
            yield f'Mapping "{source}" exceeds 100% among all of its weighted to mappings'


def _callout(callout: CalloutClaims) -> Iterator[str]:
    if callout.allowed_accounts and not callout.users:
        yield "External authorization cannot have accounts without users specified"
    for user in callout.users:
        if not is_key(user, KeyKind.USER):
            yield f'AuthUser "{user}" is not a valid user public key'
    for account in callout.allowed_accounts:
        if account == EVERYBODY:
            if len(callout.allowed_accounts) > 1:
                yield 'AllowedAccounts can only be a list of accounts or "*"'
        elif not is_key(account, KeyKind.ACCOUNT):
            yield f'Account "{account}" is not a valid account public key'
    if callout.curve_key and not is_key(callout.curve_key, KeyKind.CURVE):
        yield f'XKey "{callout.curve_key}" is not a valid public xkey'


def _trace(trace: TraceClaims | None) -> Iterator[str]:
    if trace is None:
        return
    for issue in _subject(trace.destination):
        yield f"the account Trace.Destination {issue}"
    if _has_wildcards(trace.destination):
        yield f'the account Trace.Destination subject "{trace.destination}" is not a valid publish subject'
    if not 0 <= trace.sampling <= 100:
        yield "the account Trace.Sampling value is not valid, should be in the range [1..100]"


def _counts(claims: AccountClaims) -> Iterator[str]:
    most = claims.limits
    if most.imports != NO_LIMIT and len(claims.imports) > most.imports:
        yield "the account contains more imports than allowed by the operator"
    if most.exports == NO_LIMIT:
        return
    if len(claims.exports) > most.exports:
        yield "the account contains more exports than allowed by the operator"
    if not most.wildcard_exports and any(_has_wildcards(entry.subject) for entry in claims.exports):
        yield "the account contains wildcard exports that are not allowed by the operator"


def _signing_keys(claims: AccountClaims) -> Iterator[str]:
    for key, scope in claims.signing_keys.items():
        if not is_key(scope.key if scope else key, KeyKind.ACCOUNT):
            yield f'"{key}" is not a valid account signing key'


def _info(description: str, url: str) -> Iterable[str]:
    if len(description.encode()) > MAX_INFO:
        yield "Description is too long"
    if not url:
        return
    if len(url.encode()) > MAX_INFO:
        yield "Info URL is too long"
    try:
        parts = urlsplit(url)
        complete = bool(parts.scheme and parts.hostname)
    except ValueError:
        complete = False
    if not complete:
        yield "error parsing info url: no hostname or scheme"
