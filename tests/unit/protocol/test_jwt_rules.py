"""What claims may say: every mistake for which a token is refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness.claims import (
    ACCOUNT_KEY,
    ACCOUNT_LIMITS,
    ACCOUNT_SIGNER,
    USER_KEY,
    account_token,
    claims_of,
    user_token,
)
from harness.keys import ACCOUNT, CURVE, key_pair
from headrace.protocol.jwt import rules
from headrace.protocol.jwt.decoding import decode_account, decode_activation, decode_user

NOW = 1_800_000_000.0
EXPORTER = key_pair(ACCOUNT, "exporter")
IMPORT = {"subject": "s.*", "account": EXPORTER.public, "type": "service"}
STREAM = {**IMPORT, "type": "stream"}


def user_issues(outer: dict[str, Any] | None = None, **nats: Any) -> list[str]:
    return rules.user_issues(decode_user(user_token(outer=outer, **nats)), NOW)


def account_issues(outer: dict[str, Any] | None = None, **nats: Any) -> list[str]:
    return rules.account_issues(decode_account(account_token(outer=outer, **nats)), NOW)


def activation(outer: dict[str, Any] | None = None, **nats: Any) -> str:
    given = {"subject": "s.*", "kind": "service", **nats}
    return EXPORTER.token(claims_of(EXPORTER, ACCOUNT_KEY, "activation", given, outer or {}))


@pytest.mark.parametrize(
    "nats",
    [
        {},
        {"pub": {"allow": ["a", "b.>", "*.c"]}, "sub": {"allow": ["a q", ">"], "deny": ["x.* q.*"]}},
        {"src": "192.0.2.0/24,10.0.0.0/8", "times": [{"start": "8:00:00", "end": "17:00:00"}]},
        {"times_location": "Europe/Zurich", "issuer_account": ACCOUNT_KEY.public},
    ],
)
def test_user_without_mistakes_has_no_issues(nats: dict[str, Any]) -> None:
    assert user_issues(**nats) == []


@pytest.mark.parametrize(
    ("nats", "issue"),
    [
        ({"pub": {"allow": [""]}}, "cannot be empty"),
        ({"pub": {"deny": [".a"]}}, "start or end"),
        ({"pub": {"deny": ["a."]}}, "start or end"),
        ({"pub": {"allow": ["a..b"]}}, "consecutive"),
        ({"pub": {"allow": ["a q"]}}, "not allowed to contain queue"),
        ({"sub": {"allow": ["a q r"]}}, "too many spaces"),
        ({"sub": {"allow": ["a "]}}, "cannot be empty"),
        ({"src": ["192.0.2.1"]}, "invalid cidr"),
        ({"times": [{"start": "08:00:00"}]}, "end in time range is invalid"),
        ({"times": [{"start": "8", "end": "09:00:00"}]}, "start in time range is invalid"),
        ({"times_location": "Nowhere/City"}, "time zone"),
        ({"issuer_account": USER_KEY.public}, "not an account public key"),
    ],
)
def test_user_with_a_mistake_has_one_issue(nats: dict[str, Any], issue: str) -> None:
    (found,) = user_issues(**nats)
    assert issue in found


@pytest.mark.parametrize(
    ("outer", "issues"),
    [
        ({"exp": int(NOW)}, []),
        ({"exp": int(NOW) - 1}, ["claim is expired"]),
        ({"exp": -1}, []),
        ({"nbf": int(NOW)}, []),
        ({"nbf": int(NOW) + 1}, ["claim is not yet valid"]),
        ({"nbf": -1}, []),
    ],
)
def test_times_are_compared_in_whole_seconds(outer: dict[str, Any], issues: list[str]) -> None:
    assert user_issues(outer) == issues
    assert account_issues(outer) == issues


@pytest.mark.parametrize(
    "nats",
    [
        {"imports": [IMPORT, {**STREAM, "local_subject": "l.$1"}, {**STREAM, "local_subject": "l.*"}]},
        {"imports": [{**IMPORT, "token": activation()}]},
        {"imports": [{**IMPORT, "token": activation({"exp": 5})}]},  # its time is looked at when it is used
        {"imports": [{**IMPORT, "subject": "x", "to": "s.1", "token": activation()}]},
        {"imports": [IMPORT, {**IMPORT, "account": ACCOUNT_SIGNER.public}]},
        {"exports": [{"subject": "s.*", "type": "service", "account_token_position": 2}]},
        {"exports": [{"subject": "s", "type": "service"}, {"subject": "s", "type": "stream"}]},
        {
            "exports": [
                {"subject": "s", "type": "service", "service_latency": {"sampling": 100, "results": "r"}}
            ]
        },
        {"signing_keys": [ACCOUNT_SIGNER.public]},
        {"mappings": {"a": [{"subject": "b", "weight": 60}, {"subject": "c", "weight": 40}]}},
        {"mappings": {"a": [{"subject": "b"}, {"subject": "c", "cluster": "x"}]}},
        {"authorization": {"auth_users": [USER_KEY.public], "allowed_accounts": ["*"]}},
        {"authorization": {"auth_users": [USER_KEY.public], "xkey": key_pair(CURVE, "x").public}},
        {"trace": {"dest": "t"}, "info_url": "https://example.com/x", "cluster_traffic": "system"},
        {"limits": {}},
    ],
)
def test_account_without_mistakes_has_no_issues(nats: dict[str, Any]) -> None:
    assert account_issues(**nats) == []


LIMITS = {**ACCOUNT_LIMITS}


@pytest.mark.parametrize(
    ("nats", "issue"),
    [
        ({"imports": [{**IMPORT, "type": None}]}, "invalid import type"),
        ({"imports": [{**IMPORT, "allow_trace": True}]}, "AllowTrace only valid for stream import"),
        ({"imports": [{**IMPORT, "account": ""}]}, "account to import from is not specified"),
        ({"imports": [{**IMPORT, "subject": "a b"}]}, "cannot have spaces"),
        ({"imports": [{**STREAM, "local_subject": "l.*.*"}]}, "enough * or reference"),
        ({"imports": [{**STREAM, "local_subject": "l.$1.>"}]}, "end or not end in >"),
        ({"imports": [{**STREAM, "subject": "a.*.*", "local_subject": "l.$3.$1.$2"}]}, "that is not in"),
        ({"imports": [{**STREAM, "local_subject": "l.*", "to": "x"}]}, "Local Subject replaces To"),
        ({"imports": [{**STREAM, "share": True}]}, "only valid for services"),
        ({"imports": [{**IMPORT, "token": "x"}]}, "invalid activation token"),
        (
            {"imports": [{**IMPORT, "account": ACCOUNT_SIGNER.public, "token": activation()}]},
            "match account for",
        ),
        ({"imports": [{**STREAM, "token": activation()}]}, "mismatch between token import type"),
        ({"imports": [{**IMPORT, "subject": "other", "token": activation()}]}, "doesn't match import"),
        ({"imports": [IMPORT, {**IMPORT, "subject": "s.a"}]}, "overlapping"),
        ({"imports": [IMPORT, {**IMPORT, "subject": "x.*", "local_subject": "s.$1"}]}, "overlapping"),
        ({"exports": [{"subject": "s"}]}, "invalid export type"),
        (
            {"exports": [{"subject": "s", "type": "service", "response_type": "x"}]},
            "response type for service",
        ),
        (
            {"exports": [{"subject": "s", "type": "stream", "response_type": "Stream"}]},
            "response type for stream",
        ),
        (
            {"exports": [{"subject": "s", "type": "stream", "allow_trace": True}]},
            "only valid for service export",
        ),
        (
            {"exports": [{"subject": "s", "type": "stream", "response_threshold": 1}]},
            "only valid for services",
        ),
        ({"exports": [{"subject": "s", "type": "service", "response_threshold": -1}]}, "negative"),
        (
            {"exports": [{"subject": "s", "type": "stream", "service_latency": {"results": "r"}}]},
            "only permitted for services",
        ),
        (
            {
                "exports": [
                    {"subject": "s", "type": "service", "service_latency": {"sampling": 101, "results": "r"}}
                ]
            },
            "between 1-100",
        ),
        (
            {"exports": [{"subject": "s", "type": "service", "service_latency": {"results": "r.*"}}]},
            "can not contain wildcards",
        ),
        (
            {"exports": [{"subject": "s", "type": "service", "account_token_position": 1}]},
            "wildcard subjects",
        ),
        ({"exports": [{"subject": "s.*", "type": "service", "account_token_position": 1}]}, "must match a *"),
        ({"exports": [{"subject": "s.*", "type": "service", "account_token_position": 3}]}, "exceeds length"),
        (
            {"exports": [{"subject": "s.*", "type": "stream"}, {"subject": "s.a", "type": "stream"}]},
            "already exports",
        ),
        ({"signing_keys": [USER_KEY.public]}, "not a valid account signing key"),
        ({"default_permissions": {"pub": {"allow": ["a b"]}}}, "contain queue"),
        (
            {"mappings": {"a": [{"subject": "b", "weight": 60}, {"subject": "c", "weight": 41}]}},
            "exceeds 100%",
        ),
        ({"mappings": {"a.": [{"subject": "b"}]}}, "start or end"),
        ({"authorization": {"allowed_accounts": ["*"]}}, "without users"),
        ({"authorization": {"auth_users": ["x"]}}, "not a valid user public key"),
        (
            {
                "authorization": {
                    "auth_users": [USER_KEY.public],
                    "allowed_accounts": ["*", ACCOUNT_KEY.public],
                }
            },
            "can only be a list",
        ),
        (
            {"authorization": {"auth_users": [USER_KEY.public], "allowed_accounts": ["x"]}},
            "not a valid account public key",
        ),
        ({"authorization": {"auth_users": [USER_KEY.public], "xkey": "x"}}, "not a valid public xkey"),
        ({"trace": {"dest": "t.*"}}, "not a valid publish subject"),
        ({"trace": {"dest": ""}}, "cannot be empty"),
        ({"trace": {"dest": "t", "sampling": 101}}, "range [1..100]"),
        ({"limits": {**LIMITS, "imports": 0}, "imports": [IMPORT]}, "more imports"),
        (
            {"limits": {**LIMITS, "exports": 0}, "exports": [{"subject": "s", "type": "stream"}]},
            "more exports",
        ),
        (
            {
                "limits": {**LIMITS, "exports": 5, "wildcards": False},
                "exports": [{"subject": ">", "type": "stream"}],
            },
            "wildcard exports",
        ),
        ({"limits": {**LIMITS, "tiered_limits": {"": {}}}}, "blank"),
        ({"description": "x" * (rules.MAX_INFO + 1)}, "Description is too long"),
        ({"info_url": "nonsense"}, "info url"),
        ({"info_url": "http://[nonsense"}, "info url"),
        ({"cluster_traffic": "x"}, "cluster traffic"),
    ],
)
def test_account_with_a_mistake_has_that_issue(nats: dict[str, Any], issue: str) -> None:
    found = account_issues(**nats)
    assert any(issue in text for text in found), found


@pytest.mark.parametrize(
    ("nats", "issues"),
    [
        ({}, []),
        ({"kind": None}, ["invalid import type"]),
        ({"subject": ""}, ["subject cannot be empty"]),
        ({"issuer_account": "x"}, ["account_id is not an account public key"]),
    ],
)
def test_activation_issues(nats: dict[str, Any], issues: list[str]) -> None:
    claims = decode_activation(activation({"exp": 5}, **nats))
    assert rules.activation_issues(claims, None) == issues
    assert rules.activation_issues(claims, NOW) == ["claim is expired", *issues]


@pytest.mark.parametrize(
    ("subject", "other", "contained"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.*", True),
        ("a.*", "a.*", True),
        ("a.*", "a.b", False),
        ("a.b.c", "a.>", True),
        ("a", "a.>", False),
        ("a.b.c", "a.b", False),
        ("a.>", "*.>", True),
        ("a.>", "a.*", True),
        (">", "a.>", False),
    ],
)
def test_is_contained(subject: str, other: str, contained: bool) -> None:
    assert rules.is_contained(subject, other) is contained
