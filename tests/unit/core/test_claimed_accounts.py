"""Accounts out of tokens: options, and which imports hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.claims import ACCOUNT_LIMITS, ACCOUNT_SIGNER, OPERATOR_KEY, account_token
from harness.keys import ACCOUNT, KeyPair, key_pair
from headrace.conf.account_options import (
    AccountLimits,
    ImportOptions,
    JetStreamAccountLimits,
    LatencyOptions,
    SubjectMapping,
)
from headrace.core.claimed_accounts import claimed_account, without_imports
from headrace.core.trust import Trust

if TYPE_CHECKING:
    from headrace.conf.account_options import AccountOptions
    from headrace.core.claimed_accounts import ClaimedAccount
    from headrace.core.grants import TrustedAccount

NOW = 1_800_000_000.5
A, B, C = (key_pair(ACCOUNT, f"claimed {name}") for name in "ABC")
TRUST = Trust([OPERATOR_KEY.public], now=lambda: NOW)


def account(key: KeyPair, **nats: Any) -> TrustedAccount:
    return TRUST.account(key.public, account_token(subject=key, **nats))


def export(subject: str, kind: str = "stream", **more: Any) -> dict[str, Any]:
    return {"name": "e", "subject": subject, "type": kind, **more}


def imported(subject: str, kind: str = "stream", source: KeyPair = A, **more: Any) -> dict[str, Any]:
    return {"name": "i", "subject": subject, "account": source.public, "type": kind, **more}


def activation(
    issuer: KeyPair = A, subject: KeyPair = B, outer: dict[str, Any] | None = None, **nats: Any
) -> str:
    claims = {"jti": "T", "iat": 1_700_000_000, "iss": issuer.public, "sub": subject.public, "name": "a"}
    about = {"type": "activation", "version": 2, "subject": "s.>", "kind": "stream", **nats}
    return issuer.token({**claims, **(outer or {}), "nats": about})


def options_of(*accounts: TrustedAccount) -> dict[str, AccountOptions]:
    return {each.key: without_imports(each) for each in accounts}


def claimed(importer: TrustedAccount, *others: TrustedAccount, now: float = NOW) -> ClaimedAccount:
    known = (importer, *others)
    return claimed_account(importer, {each.key: each for each in known}, options_of(*known), now)


def locals_of(made: ClaimedAccount) -> list[str]:
    return [item.local for item in made.options.imports]


def test_limits_are_the_tokens_and_less_than_none_is_nothing() -> None:
    limits = {**ACCOUNT_LIMITS, "conn": 3, "subs": -5, "payload": 0}
    assert without_imports(account(A, limits=limits)).limits == AccountLimits(3, 0, 0)
    assert without_imports(account(A)).limits == AccountLimits()


def test_exports_keep_their_response_types_and_times() -> None:
    made = without_imports(
        account(
            A,
            exports=[
                export("st"),
                export("one", "service", response_threshold=5_000_000_000),
                export("more", "service", response_type="Stream"),
                export("parts", "service", response_type="Chunked"),
                export("timed", "service", service_latency={"sampling": 50, "results": "m"}),
                export("of.*", "service", account_token_position=2),
            ],
        )
    )
    types = [(each.response_type, each.response_threshold) for each in made.exports if each.is_service]
    assert types == [
        ("singleton", 5.0),
        ("stream", 120.0),
        ("chunked", 120.0),
        ("singleton", 120.0),
        ("singleton", 120.0),
    ]
    assert made.exports[4].latency == LatencyOptions("m", 50)
    assert made.exports[5].token_position == 2


def test_mappings_may_be_of_one_cluster() -> None:
    mappings = {"a": [{"subject": "b", "weight": 40}, {"subject": "c", "cluster": "east"}]}
    assert without_imports(account(A, mappings=mappings)).mappings == (
        SubjectMapping("a", "b", 40),
        SubjectMapping("a", "c", 100, "east"),
    )


def test_mapping_that_cannot_be_is_left_out() -> None:
    mappings = {"a.*": [{"subject": "b.{{wildcard(2)}}"}], "c": [{"subject": "d"}]}
    assert without_imports(account(A, mappings=mappings)).mappings == (SubjectMapping("c", "d"),)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (imported("s.a"), ImportOptions(A.public, "s.a", "s.a")),
        (imported("s.a", local_subject="x"), ImportOptions(A.public, "s.a", "x")),
        (imported("s.a", to="old."), ImportOptions(A.public, "s.a", "old.s.a")),
        (imported("q", "service"), ImportOptions(A.public, "q", "q", is_service=True)),
        (imported("mine", "service", to="q"), ImportOptions(A.public, "q", "mine", is_service=True)),
        (
            imported("q", "service", local_subject="mine", share=True),
            ImportOptions(A.public, "q", "mine", is_service=True, share=True),
        ),
    ],
)
def test_import_is_renamed_in_the_ways_of_old_and_new_tokens(
    entry: dict[str, Any], expected: ImportOptions
) -> None:
    exporter = account(A, exports=[export("s.>"), export("q", "service")])
    made = claimed(account(B, imports=[entry]), exporter)
    assert made.options.imports == (expected,)
    assert made.troubles == ()


@pytest.mark.parametrize(
    ("token", "holds"),
    [
        (None, False),
        (activation(), True),
        (activation(subject=C), None),
        (activation(issuer=C), None),
        (activation(ACCOUNT_SIGNER, issuer_account=A.public), True),
        (activation(C, issuer_account=A.public), False),
        (activation(outer={"exp": 1_700_000_100}), False),
        (activation(outer={"exp": 1_900_000_000}), True),
        (activation(outer={"nbf": 1_900_000_000}), False),
        (activation(outer={"iat": 1_600_000_000}), False),
    ],
)
def test_private_export_wants_an_activation_token(token: str | None, *, holds: bool | None) -> None:
    """None: the account's own token is refused for it."""
    revocations = {B.public: 1_650_000_000}
    private = export("s.>", token_req=True, revocations=revocations)
    exporter = account(A, exports=[private], signing_keys=[ACCOUNT_SIGNER.public])
    entry = imported("s.a") if token is None else imported("s.a", token=token)
    if holds is None:
        with pytest.raises(Exception, match="account validation failed"):
            account(B, imports=[entry])
        return
    made = claimed(account(B, imports=[entry]), exporter)
    assert bool(made.options.imports) is holds
    assert bool(made.troubles) is not holds


def test_time_of_an_activation_token_is_when_to_look_again() -> None:
    exporter = account(A, exports=[export("s.>", token_req=True)])
    tokens = [activation(outer={"exp": 1_900_000_000 + number}) for number in (5, 0)]
    later = activation(outer={"nbf": 1_850_000_000})
    entries = [imported(f"s.{number}", token=token) for number, token in enumerate([*tokens, later])]
    made = claimed(account(B, imports=entries), exporter)
    assert locals_of(made) == ["s.0", "s.1"]
    assert made.changes_at == 1_850_000_000
    assert locals_of(claimed(account(B, imports=entries), exporter, now=1_900_000_000.0)) == ["s.0", "s.2"]


def test_import_that_nobody_exports_is_left_out_with_a_word() -> None:
    importer = account(B, imports=[imported("s.a"), imported("t"), imported("u", source=C)])
    made = claimed(importer, account(A, exports=[export("s.>")]))
    assert locals_of(made) == ["s.a"]
    assert len(made.troubles) == 2


def test_export_to_those_named_in_its_subject_is_for_them_only() -> None:
    exporter = account(A, exports=[export("own.*", account_token_position=2)])
    importer = account(B, imports=[imported(f"own.{B.public}"), imported(f"own.{C.public}")])
    assert locals_of(claimed(importer, exporter)) == [f"own.{B.public}"]


def test_imports_in_a_circle_are_left_out() -> None:
    first = account(A, exports=[export("s.>")], imports=[imported("s.>", source=B)])
    second = account(B, exports=[export("s.>")], imports=[imported("s.>", source=A)])
    known = {first.key: first, second.key: second}
    options = options_of(first, second)
    options[first.key] = claimed_account(first, known, options, NOW).options
    made = claimed_account(second, known, options, NOW)
    assert [len(options[first.key].imports), len(made.options.imports)] == [1, 0]
    assert "forms a cycle" in made.troubles[0]


def test_default_permissions_come_from_the_token() -> None:
    made = without_imports(account(A, default_permissions={"pub": {"deny": ["x"]}}))
    assert made.default_permissions is not None
    assert made.default_permissions.publish is not None
    assert made.default_permissions.publish.deny == ("x",)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({"streams": 5}, None),
        (
            {"mem_storage": -1, "disk_storage": 7, "streams": 3, "consumer": -1},
            {"": JetStreamAccountLimits(-1, 7, 3, -1)},
        ),
        (
            {"disk_storage": 7, "max_ack_pending": 9, "mem_max_stream_bytes": 0, "max_bytes_required": True},
            {"": JetStreamAccountLimits(0, 7, 0, 0, 9, max_bytes_required=True)},
        ),
        (
            {"tiered_limits": {"R1": {"disk_storage": 7}, "R3": {"streams": 1}}},
            {"R1": JetStreamAccountLimits(0, 7, 0, 0), "R3": JetStreamAccountLimits(0, 0, 1, 0)},
        ),
        ({"tiered_limits": {"R3": {"streams": 1}}}, None),
    ],
)
def test_limits_of_jetstream_are_the_tokens(given: dict[str, Any], found: object) -> None:
    made = without_imports(account(A, limits={**ACCOUNT_LIMITS, **given}))
    assert made.jetstream == found
