"""Accounts as their tokens describe them, made into what `core.accounts` takes.

Here live the conversion of claims, and the decision which of an account's imports hold: the exporting account
must export the subject, and where its export asks for one, an activation token must say so. Never lives here:
where tokens come from (`headrace.server.operator_mode`), what users may (`grants`).

What does not hold is left out, with a word for the log: an account's token is the operator's to correct, and
its users are served meanwhile. Source: nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.conf.account_options import (
    AccountLimits,
    AccountOptions,
    ExportOptions,
    ImportOptions,
    JetStreamAccountLimits,
    LatencyOptions,
    SubjectMapping,
    TraceOptions,
)
from headrace.conf.account_rules import export_for, sound_imports
from headrace.core.mapping import Mappings
from headrace.core.trust import is_revoked
from headrace.errors import ConfigError
from headrace.protocol.jwt import rules
from headrace.protocol.jwt.claims import NO_LIMIT
from headrace.protocol.jwt.decoding import decode_activation
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.core.grants import TrustedAccount
    from headrace.protocol.jwt.claims import AccountLimitClaims as ClaimedLimits
    from headrace.protocol.jwt.claims import ExportClaims, ImportClaims, JetStreamLimitClaims, TraceClaims

_NS: Final = 1_000_000_000
_THRESHOLD: Final = ExportOptions("").response_threshold
_ALL: Final = 100
_RESPONSE_TYPES: Final = {"Stream": "stream", "Chunked": "chunked"}


class ClaimedAccount(Struct, frozen=True):
    """An account's options, what of its token was left out, and when (seconds since 1970) that may change."""

    options: AccountOptions
    troubles: tuple[str, ...] = ()
    changes_at: float | None = None


def without_imports(account: TrustedAccount) -> AccountOptions:
    """The options of an account before anybody looked at what it imports."""
    limits = account.claims.limits
    return AccountOptions(
        name=account.key,
        nickname=account.name,
        default_permissions=account.default_permissions,
        mappings=tuple(_mappings(account)),
        exports=tuple(map(_export, account.claims.exports)),
        limits=AccountLimits(
            max_connections=_limit(limits.connections),
            max_subscriptions=_limit(limits.subscriptions),
            max_payload=_limit(limits.payload),
            max_leafnodes=_limit(limits.leafnodes),
        ),
        jetstream=_jetstream(limits),
        trace=_trace(account.claims.trace),
    )


def _trace(claims: TraceClaims | None) -> TraceOptions | None:
    """Return the trace options of a token.

    As in the Go server, a bad destination counts as none, a bad sampling as all.
    """
    dest = b"" if claims is None else claims.destination.encode("utf-8", "replace")
    if claims is None or not grammar.is_valid_subject(dest) or grammar.has_wildcard(dest):
        return None
    return TraceOptions(claims.destination, claims.sampling if 0 < claims.sampling <= _ALL else _ALL)


def _jetstream(limits: ClaimedLimits) -> Mapping[str, JetStreamAccountLimits] | None:
    """Return the JetStream limits by tier; None: an account with neither kind of storage has no JetStream."""
    tiers = limits.jetstream_tiers or {"": limits.jetstream}
    if not any(tier.memory_storage or tier.disk_storage for tier in tiers.values()):
        return None
    return {name: _tier(tier) for name, tier in tiers.items()}


def _tier(tier: JetStreamLimitClaims) -> JetStreamAccountLimits:
    return JetStreamAccountLimits(
        max_memory=_limit(tier.memory_storage),
        max_storage=_limit(tier.disk_storage),
        max_streams=_limit(tier.streams),
        max_consumers=_limit(tier.consumers),
        max_ack_pending=_most(tier.max_ack_pending),
        memory_max_stream_bytes=_most(tier.memory_max_stream_bytes),
        storage_max_stream_bytes=_most(tier.disk_max_stream_bytes),
        max_bytes_required=tier.max_bytes_required,
    )


def _most(value: int) -> int:
    """A limit for which nothing says none."""
    return value if value > 0 else -1


def claimed_account(
    account: TrustedAccount,
    others: Mapping[str, TrustedAccount],
    options: Mapping[str, AccountOptions],
    now: float,
) -> ClaimedAccount:
    """The options of an account with those imports that hold.

    `others`: the accounts known by their tokens, `options`: as they are, or `without_imports`.
    Units: `now` is seconds since 1970.
    """
    bare = options[account.key]
    troubles: list[str] = []
    imports: list[ImportOptions] = []
    times: list[float] = []
    for entry in account.claims.imports:
        wanted = _import(entry)
        exporter = others.get(entry.account)
        if exporter is None:
            troubles.append(f"Can't locate account [{entry.account}] for import of [{entry.subject}]")
            continue
        export = _required(wanted, account, exporter, options[entry.account])
        if export is not None:
            trouble, ends = _activation(entry, account, exporter, export, now)
            times.extend(ends)
            if trouble:
                troubles.append(f"{entry.kind} import of [{entry.subject}]: {trouble}")
                continue
        imports.append(wanted)
    sound, wrong = sound_imports(replace(bare, imports=tuple(imports)), options)
    return ClaimedAccount(
        replace(bare, imports=sound), (*troubles, *wrong), min((t for t in times if t > now), default=None)
    )


def _import(entry: ImportClaims) -> ImportOptions:
    """Return the options of an import that a token has.

    `local_subject` renames; older tokens have a stream's prefix, or a service's real name, in `to`.
    """
    subject, local = entry.subject, entry.local_subject
    is_service = entry.kind == "service"
    if not local:
        local = subject
        if entry.to and is_service:
            subject = entry.to
        elif entry.to:
            local = f"{entry.to.removesuffix('.')}.{subject}"
    traces = entry.allow_trace and not is_service
    return ImportOptions(entry.account, subject, local, is_service, entry.share, traces)


def _required(
    wanted: ImportOptions, importer: TrustedAccount, exporter: TrustedAccount, options: AccountOptions
) -> ExportClaims | None:
    """The export behind an import if it asks for an activation token."""
    found = export_for(wanted, importer.key, options)
    # What every account exports to the system's stands behind its own.
    for option, export in zip(options.exports, exporter.claims.exports, strict=False):
        if option is found and export.token_required and not export.account_token_position:
            return export
    return None


def _activation(
    entry: ImportClaims, importer: TrustedAccount, exporter: TrustedAccount, export: ExportClaims, now: float
) -> tuple[str, list[float]]:
    """Check an import's activation token: return its error, "" if there is none, and the times at which that
    may change.
    """
    issues = list(rules.import_issues(entry, importer.key)) if entry.token else ["no activation token"]
    if issues:
        return issues[0], []
    activation = decode_activation(entry.token)  # there were no issues, so it can be decoded
    ends = [float(time) for time in (activation.not_before, activation.expires) if time]
    issues = rules.activation_issues(activation, now)
    if 0 < activation.expires <= int(now):  # a second before what is said of tokens in general
        issues.append("the activation token has expired")
    if activation.issuer_account not in ("", exporter.key):
        issues.append("the activation token is of another account")
    elif activation.issuer_account and activation.issuer not in exporter.signers:
        issues.append("the activation token's issuer is not known")
    if is_revoked(export.revocations, activation.subject, activation.issued_at):
        issues.append("the activation token is revoked")
    return issues[0] if issues else "", ends


def _export(export: ExportClaims) -> ExportOptions:
    latency = None
    is_service = export.kind == "service"
    response_type = _RESPONSE_TYPES.get(export.response_type, "singleton") if is_service else "singleton"
    if export.latency is not None and is_service and response_type == "singleton":
        latency = LatencyOptions(export.latency.results, export.latency.sampling)
    threshold = export.response_threshold / _NS if is_service else 0.0
    return ExportOptions(
        subject=export.subject,
        is_service=is_service,
        token_position=export.account_token_position,
        response_type=response_type,
        response_threshold=threshold if threshold > 0 else _THRESHOLD,
        latency=latency,
        allow_trace=is_service and export.allow_trace,
    )


def _mappings(account: TrustedAccount) -> Iterator[SubjectMapping]:
    """Yield the mappings of a token that can be made."""
    for source, destinations in account.claims.mappings.items():
        found = tuple(
            SubjectMapping(source, each.subject, each.percent, each.cluster) for each in destinations
        )
        try:
            Mappings(found)
        except ConfigError:  # as in the Go server one that is no good is passed over
            continue
        yield from found


def _limit(value: int) -> int:
    """-1 for none; what is less allows nothing."""
    return value if value == NO_LIMIT else max(value, 0)
