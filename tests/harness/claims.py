"""Claims of tokens as JSON, with what is asked for put over what every tool writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.keys import ACCOUNT, OPERATOR, USER, KeyPair, key_pair

if TYPE_CHECKING:
    from collections.abc import Mapping

OPERATOR_KEY = key_pair(OPERATOR, "operator")
OPERATOR_SIGNER = key_pair(OPERATOR, "operator's signing key")
ACCOUNT_KEY = key_pair(ACCOUNT, "account")
ACCOUNT_SIGNER = key_pair(ACCOUNT, "account's signing key")
SCOPED_SIGNER = key_pair(ACCOUNT, "account's scoped signing key")
USER_KEY = key_pair(USER, "user")
ISSUED_AT = 1_700_000_000

NO_LIMITS = {"subs": -1, "data": -1, "payload": -1}
ACCOUNT_LIMITS = {**NO_LIMITS, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}


def claims_of(
    issuer: KeyPair, subject: KeyPair, kind: str, nats: Mapping[str, Any], outer: Mapping[str, Any]
) -> dict[str, Any]:
    """Claims of version 2; what is None in `nats` or `outer` is left out."""
    found = {
        "jti": "T",
        "iat": ISSUED_AT,
        "iss": issuer.public,
        "sub": subject.public,
        "name": kind,
        **outer,
        "nats": _without_none({"type": kind, "version": 2, **nats}),
    }
    return _without_none(found)


def operator_token(outer: Mapping[str, Any] | None = None, **nats: Any) -> str:
    given = {"signing_keys": [OPERATOR_SIGNER.public], **nats}
    return OPERATOR_KEY.token(claims_of(OPERATOR_KEY, OPERATOR_KEY, "operator", given, outer or {}))


def account_token(
    issuer: KeyPair = OPERATOR_KEY,
    subject: KeyPair = ACCOUNT_KEY,
    outer: Mapping[str, Any] | None = None,
    **nats: Any,
) -> str:
    given = {"limits": ACCOUNT_LIMITS, **nats}
    return issuer.token(claims_of(issuer, subject, "account", given, outer or {}))


def user_token(
    issuer: KeyPair = ACCOUNT_KEY,
    subject: KeyPair = USER_KEY,
    outer: Mapping[str, Any] | None = None,
    **nats: Any,
) -> str:
    return issuer.token(claims_of(issuer, subject, "user", {**NO_LIMITS, **nats}, outer or {}))


def scoped_token(issuer: KeyPair = SCOPED_SIGNER, outer: Mapping[str, Any] | None = None, **nats: Any) -> str:
    """A user of a scoped signing key, without limits of its own."""
    given = {"issuer_account": ACCOUNT_KEY.public, **nats}
    return issuer.token(claims_of(issuer, USER_KEY, "user", given, outer or {}))


def scope(key: KeyPair = SCOPED_SIGNER, **template: Any) -> dict[str, Any]:
    return {"kind": "user_scope", "key": key.public, "role": "r", "template": template}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
