"""`headrace creds user make`: a user signed with an account's seed, on this machine, without a server."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

from headrace.cli.client.key_files import read_signing_pair, read_user_private, write_secret
from headrace.cli.client.token_claims import claims_in, claims_summary
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.protocol.jwt.claims import (
    NO_LIMIT,
    PermissionClaims,
    ResponseClaims,
    SubjectClaims,
    UserClaims,
    UserLimitClaims,
)
from headrace.protocol.jwt.encoding import encode
from headrace.protocol.jwt.rules import is_key, user_issues
from headrace.protocol.keypairs import SigningKeyPair
from headrace.protocol.nkeys import KeyKind
from headrace.protocol.seeds import PRIVATE_BYTES, encode_seed
from headrace.protocol.user_seeds import credentials_text

if TYPE_CHECKING:
    import argparse

    from headrace.cli.call import Call

_SECOND_NS: Final = 1_000_000_000
_OF_LIMITS: Final = (
    "allow_pub", "deny_pub", "allow_sub", "deny_sub", "allow_responses", "response_ttl", "subscriptions",
    "max_payload", "source", "connection_type", "bearer",
)  # fmt: skip
"""Options that a scoped signing key decides about for its users."""


def make(call: Call) -> None:
    """Sign a user and write its credentials file.

    Raises: CommandError for options that exclude each other, and if there is a file; SeedError.
    """
    options = call.options
    if options.account_seed is None:
        raise CommandError("--account-seed is missing", ExitCode.WRONG_USE)
    if options.account_seed == options.user_seed == "-":
        raise CommandError("both seeds cannot be standard input", ExitCode.WRONG_USE)
    issuer = read_signing_pair(call, options.account_seed, KeyKind.ACCOUNT)
    private = _private(call)
    user = SigningKeyPair(KeyKind.USER, private)
    now = time.time()
    claims = _claims(options, user.public, issuer.public)
    problems = user_issues(claims, now)
    if problems:
        raise CommandError("; ".join(problems), ExitCode.WRONG_USE)
    token = encode(claims, issuer, now)
    path = _path(options)
    write_secret(path, credentials_text(token, encode_seed(KeyKind.USER, private)).encode())
    said = claims_in(token, path)
    found = {"file": path, **claims_summary(said), "claims": said}
    call.out.document(found, lambda: call.out.line(f"{user.public} written to {path}"), quiet=path)


def _private(call: Call) -> bytes:
    """The private bytes of the user: of its seed, or fresh ones."""
    path = call.options.user_seed
    if path is None:
        return secrets.token_bytes(PRIVATE_BYTES)
    return read_user_private(call, path)


def _path(options: argparse.Namespace) -> str:
    path = f"{options.name}.creds" if options.output is None else str(options.output)
    if path == "-":
        raise CommandError("credentials have a seed, and are written to a file only", ExitCode.WRONG_USE)
    if options.output is None and "/" in path:
        raise CommandError(f"{options.name!r} is no name of a file: say --output", ExitCode.WRONG_USE)
    return path


def _claims(options: argparse.Namespace, user: str, issuer: str) -> UserClaims:
    account = options.account or ""
    if account and not is_key(account, KeyKind.ACCOUNT):
        raise CommandError("--account is the public key of an account (A...)", ExitCode.WRONG_USE)
    return UserClaims(
        subject=user,
        name=options.name,
        expires=_seconds(options.expires),
        not_before=_seconds(options.not_before),
        tags=tuple(options.tag or ()),
        issuer_account="" if account == issuer else account,
        limits=_scoped(options, account, issuer) if options.scoped else _limits(options),
    )


def _scoped(options: argparse.Namespace, account: str, issuer: str) -> UserLimitClaims:
    """No limits of its own: the account's token has those of its scoped signing key."""
    given = [name for name in _OF_LIMITS if getattr(options, name) not in (None, False)]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        text = f"{flag}: with --scoped the signing key decides about permissions and limits"
        raise CommandError(text, ExitCode.WRONG_USE)
    if account in ("", issuer):
        raise CommandError("--scoped is for a signing key: say --account", ExitCode.WRONG_USE)
    return UserLimitClaims()


def _limits(options: argparse.Namespace) -> UserLimitClaims:
    responses = None
    if options.allow_responses is not None or options.response_ttl is not None:
        responses = ResponseClaims(max_messages=options.allow_responses or 0, ttl=options.response_ttl or 0)
    return UserLimitClaims(
        permissions=PermissionClaims(
            publish=SubjectClaims(_subjects(options.allow_pub), _subjects(options.deny_pub)),
            subscribe=SubjectClaims(_subjects(options.allow_sub), _subjects(options.deny_sub)),
            responses=responses,
        ),
        source_networks=_subjects(options.source),
        subscriptions=NO_LIMIT if options.subscriptions is None else options.subscriptions,
        data=NO_LIMIT,
        payload=NO_LIMIT if options.max_payload is None else options.max_payload,
        bearer_token=options.bearer,
        connection_types=_subjects(options.connection_type),
    )


def _subjects(given: list[str] | None) -> tuple[str, ...] | None:
    return tuple(given) if given else None


def _seconds(ns: int | None) -> int:
    """Seconds of a time in ns, 0 for none."""
    return 0 if ns is None else ns // _SECOND_NS
