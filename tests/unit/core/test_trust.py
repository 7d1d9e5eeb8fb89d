"""Who a user is in operator mode, and why not."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from harness.claims import (
    ACCOUNT_KEY,
    ACCOUNT_LIMITS,
    ACCOUNT_SIGNER,
    ISSUED_AT,
    OPERATOR_KEY,
    OPERATOR_SIGNER,
    USER_KEY,
    account_token,
    scope,
    scoped_token,
    user_token,
)
from harness.keys import ACCOUNT, OPERATOR, USER, KeyPair, key_pair
from headrace.conf.account_options import ConnectionType, Permissions, ResponsePermission, SubjectPermission
from headrace.core.grants import Refused, TokenIdentity
from headrace.core.trust import Peer, Trust

NOW = 1_800_000_000.5
NONCE = b"q3fVGB3mP3ZbJcI"
SIGNING = {"signing_keys": [ACCOUNT_SIGNER.public]}
OTHER_ACCOUNT = key_pair(ACCOUNT, "another account")


def signature(key: KeyPair = USER_KEY, nonce: bytes = NONCE) -> str:
    return base64.urlsafe_b64encode(key.sign(nonce)).decode().rstrip("=")


def peer(**changes: Any) -> Peer:
    values = {"host": "192.0.2.7", "nonce": NONCE, "signature": signature(), **changes}
    return Peer(**values)


def trust(**changes: Any) -> Trust:
    keys = changes.pop("keys", [OPERATOR_KEY.public, OPERATOR_SIGNER.public])
    return Trust(keys, **{"now": lambda: NOW, **changes})


def identify(
    user: str | None = None, account: str | None = None, other: Peer | None = None, **changes: Any
) -> TokenIdentity:
    tokens = {ACCOUNT_KEY.public: account_token() if account is None else account}

    def lookup(key: str) -> str:
        if key not in tokens:
            raise LookupError("account missing")
        return tokens[key]

    return trust(**changes).identify(user_token() if user is None else user, other or peer(), lookup)


def refusal(*arguments: Any, **changes: Any) -> str:
    with pytest.raises(Refused) as caught:
        identify(*arguments, **changes)
    assert caught.value.is_error is str(caught.value).startswith(("Bad src", "Outside"))
    return str(caught.value)


def test_identity_says_who_it_is() -> None:
    found = identify(user_token(outer={"name": "joe"}, tags=["x:y"]), account_token(outer={"name": "acme"}))
    assert found == TokenIdentity(
        account=ACCOUNT_KEY.public,
        account_name="acme",
        user=USER_KEY.public,
        user_name="joe",
        issuer=ACCOUNT_KEY.public,
        tags=("x:y",),
        issued_at=ISSUED_AT,
        permissions=None,
        has_default_permissions=True,
        subscriptions=-1,
        payload=-1,
        expires_at=None,
        is_bearer=False,
    )


@pytest.mark.parametrize("issuer", [OPERATOR_KEY, OPERATOR_SIGNER])
def test_account_of_an_operators_key_is_trusted(issuer: KeyPair) -> None:
    assert identify(account=account_token(issuer)).account == ACCOUNT_KEY.public


@pytest.mark.parametrize("issuer", [key_pair(OPERATOR, "stranger"), ACCOUNT_KEY])
def test_account_of_another_key_is_refused(issuer: KeyPair) -> None:
    assert refusal(account=account_token(issuer)) == "Account JWT lookup error: account validation failed"


@pytest.mark.parametrize(
    "token",
    [
        account_token(subject=OTHER_ACCOUNT),
        account_token(outer={"exp": int(NOW) - 1}),
        account_token(outer={"nbf": int(NOW) + 1}),
        account_token(signing_keys=["nonsense"]),
    ],
    ids=["another's", "expired", "not yet valid", "invalid"],
)
def test_account_that_is_not_valid_is_refused(token: str) -> None:
    assert refusal(account=token) == "Account JWT lookup error: account validation failed"


def test_account_that_expires_this_second_is_refused() -> None:
    assert refusal(account=account_token(outer={"exp": int(NOW)})) == "Account JWT has expired"
    assert refusal(account=account_token(outer={"exp": -5})) == "Account JWT has expired"
    assert identify(account=account_token(outer={"exp": int(NOW) + 1})).expires_at is None


def test_account_that_cannot_be_decoded_or_found_is_refused() -> None:
    assert refusal(account="x") == "Account JWT lookup error: expected 3 chunks"
    assert refusal(account=user_token()) == "Account JWT lookup error: not account claim"
    assert refusal(user_token(OTHER_ACCOUNT)) == "Account JWT lookup error: account missing"


def test_account_kept_after_its_operator_is_trusted_no_longer_is_refused() -> None:
    account = trust().account(ACCOUNT_KEY.public, account_token())
    later = trust(keys=[OPERATOR_SIGNER.public])
    with pytest.raises(Refused, match="not signed by trusted operator"):
        later.identity(later.user(user_token()), account, peer())


def test_identity_in_an_account_that_is_not_the_users_is_refused() -> None:
    both = trust()
    account = both.account(OTHER_ACCOUNT.public, account_token(subject=OTHER_ACCOUNT))
    with pytest.raises(Refused, match="account validation failed"):
        both.identity(both.user(user_token()), account, peer())


@pytest.mark.parametrize("token", ["", "nonsense", account_token(), user_token()[:-8]])
def test_user_without_a_user_token_is_refused(token: str) -> None:
    assert refusal(token) == "Authentication requires a user JWT"


def test_user_without_a_token_is_the_default_sentinel() -> None:
    sentinel = user_token(bearer_token=True, outer={"name": "sentinel"})
    found = identify("nonsense", other=peer(signature=""), default_sentinel=sentinel)
    assert (found.user_name, found.is_bearer) == ("sentinel", True)
    assert refusal("nonsense", default_sentinel="bad").startswith("User JWT not valid: ")


def test_signing_key_needs_the_issuer_account() -> None:
    account = account_token(**SIGNING)
    user = user_token(ACCOUNT_SIGNER, issuer_account=ACCOUNT_KEY.public)
    assert identify(user, account).issuer == ACCOUNT_SIGNER.public
    assert refusal(user) == "User JWT issuer is not known"
    assert refusal(user_token(ACCOUNT_SIGNER), account) == "Account JWT lookup error: account missing"
    other = user_token(OTHER_ACCOUNT, issuer_account=ACCOUNT_KEY.public)
    assert refusal(other, account) == "User JWT issuer is not known"
    wrong = user_token(ACCOUNT_SIGNER, issuer_account="nonsense")
    assert "account_id is not an account public key" in refusal(wrong, account)


def test_strict_operator_takes_no_user_of_the_accounts_own_key() -> None:
    strict = {"strict_keys": [OPERATOR_SIGNER.public]}
    account = account_token(OPERATOR_SIGNER, **SIGNING)
    assert refusal(account=account, **strict) == "User JWT issuer is not known"
    user = user_token(ACCOUNT_SIGNER, issuer_account=ACCOUNT_KEY.public)
    assert identify(user, account, **strict).user == USER_KEY.public
    # An account that another of the keys signed is not concerned.
    assert identify(account=account_token(OPERATOR_KEY), **strict).user == USER_KEY.public


def test_pinned_accounts_are_the_only_ones() -> None:
    assert identify(pinned_accounts=[ACCOUNT_KEY.public]).user == USER_KEY.public
    text = refusal(pinned_accounts=[OTHER_ACCOUNT.public])
    assert text == f"Account {ACCOUNT_KEY.public} not listed as operator pinned account"
    assert "not listed" in refusal(pinned_accounts=[])


def test_scope_replaces_what_the_user_says() -> None:
    template = scope(
        pub={"allow": ["u.{{name()}}"]},
        resp={"max": 5, "ttl": 1_000_000_000},
        payload=100,
        subs=7,
        bearer_token=True,
    )
    account = account_token(signing_keys=[template], limits={**ACCOUNT_LIMITS, "payload": 50, "subs": 9})
    found = identify(scoped_token(outer={"name": "joe"}), account, peer(signature=""))
    assert found.permissions == Permissions(SubjectPermission(("u.joe",)), None, ResponsePermission(5, 1.0))
    assert (found.payload, found.subscriptions, found.is_bearer) == (50, 7, True)


@pytest.mark.parametrize(
    "own",
    [
        {"subs": -1},
        {"pub": {"allow": []}},
        {"src": []},
        {"bearer_token": True},
        {"resp": {"max": 0, "ttl": 0}},
    ],
)
def test_scope_takes_no_user_with_limits_of_its_own(own: dict[str, Any]) -> None:
    account = account_token(signing_keys=[scope()])
    expected = "User JWT is not valid: scoped users require no permissions or limits set"
    assert refusal(scoped_token(**own), account) == expected


def test_scope_that_makes_no_permissions_refuses() -> None:
    account = account_token(signing_keys=[scope(pub={"deny": ["{{tag(x)}}"]})])
    assert refusal(scoped_token(), account) == "User JWT generated invalid permissions"


def test_signature_must_be_the_users_over_this_nonce() -> None:
    assert refusal(other=peer(signature="")) == "Signature missing"
    assert refusal(other=peer(signature=signature(nonce=b"another"))) == "Signature not verified"
    assert refusal(other=peer(signature=signature(ACCOUNT_KEY))) == "Signature not verified"
    assert refusal(other=peer(signature="ü")) == "Signature not verified"
    # What was signed on one connection is worth nothing on the next.
    assert refusal(other=peer(nonce=b"the next one's ")) == "Signature not verified"


def test_bearer_needs_no_signature_unless_the_account_forbids_it() -> None:
    bearer = user_token(bearer_token=True)
    assert identify(bearer, other=peer(signature="")).is_bearer
    forbidding = account_token(limits={**ACCOUNT_LIMITS, "disallow_bearer": True})
    assert refusal(bearer, forbidding) == "Account does not allow bearer tokens"
    assert identify(account=forbidding).user == USER_KEY.public


@pytest.mark.parametrize(
    ("types", "actual", "expected"),
    [
        ([], ConnectionType.STANDARD, None),
        (["standard"], ConnectionType.STANDARD, None),
        (["WEBSOCKET", "new"], ConnectionType.WEBSOCKET, None),
        (["WEBSOCKET"], ConnectionType.STANDARD, "Connection type not allowed"),
        (["MQTT", "STANDARD"], ConnectionType.LEAFNODE, "Connection type not allowed"),
        (["new"], ConnectionType.STANDARD, 'invalid connection types ["NEW"]'),
    ],
)
def test_connection_type_must_be_among_those_named(
    types: list[str], actual: ConnectionType, expected: str | None
) -> None:
    user = user_token(allowed_connection_types=types)
    if expected is None:
        assert identify(user, other=peer(connection_type=actual)).user == USER_KEY.public
    else:
        assert refusal(user, other=peer(connection_type=actual)) == expected


@pytest.mark.parametrize("key", [USER_KEY.public, "*"])
def test_revoked_users_are_those_issued_until_then(key: str) -> None:
    assert refusal(account=account_token(revocations={key: ISSUED_AT})) == "User authentication revoked"
    assert identify(account=account_token(revocations={key: ISSUED_AT - 1})).user == USER_KEY.public
    other = {key_pair(USER, "other").public: ISSUED_AT + 5}
    assert identify(account=account_token(revocations=other)).user == USER_KEY.public


def test_source_network_must_hold_the_address() -> None:
    user = user_token(src=["10.0.0.0/8", "192.0.2.0/24"])
    assert identify(user).user == USER_KEY.public
    assert refusal(user, other=peer(host="198.51.100.1")) == "Bad src Ip 198.51.100.1"


def test_times_decide_and_end_the_connection() -> None:
    # 2027-01-15 08:00:00.5 UTC
    user = user_token(times=[{"start": "07:00:00", "end": "09:00:00"}], times_location="UTC")
    assert identify(user).expires_at == pytest.approx(NOW + 3599.5)
    until = user_token(
        times=[{"start": "07:00:00", "end": "09:00:00"}], times_location="UTC", outer={"exp": int(NOW) + 60}
    )
    assert identify(until).expires_at == int(NOW) + 60
    outside = user_token(times=[{"start": "09:00:00", "end": "07:00:00"}], times_location="UTC")
    assert refusal(outside) == "Outside connect times"


def test_times_of_a_template_that_cannot_be_read_are_outside() -> None:
    account = account_token(signing_keys=[scope(times=[{"start": "x", "end": "y"}])])
    assert refusal(scoped_token(), account) == "Outside connect times"


def test_user_is_refused_outside_its_time() -> None:
    assert "claim is expired" in refusal(user_token(outer={"exp": int(NOW) - 1}))
    assert "claim is not yet valid" in refusal(user_token(outer={"nbf": int(NOW) + 1}))
    # As in the Go server: in its last second it may connect, and is sent away at once.
    assert identify(user_token(outer={"exp": int(NOW)})).expires_at == int(NOW)


def test_proxy_required_without_a_proxy_is_refused() -> None:
    assert refusal(user_token(proxy_required=True)) == "proxy connection required"
    account = account_token(signing_keys=[scope(proxy_required=True)])
    assert refusal(scoped_token(), account) == "proxy connection required"
    assert (
        identify(user_token(proxy_required=True), other=peer(by_trusted_proxy=True)).user == USER_KEY.public
    )


def test_default_permissions_are_for_users_without_any() -> None:
    account = account_token(default_permissions={"pub": {"allow": ["d.>"]}})
    default = Permissions(SubjectPermission(("d.>",)), None, None)
    found = identify(account=account)
    assert (found.permissions, found.has_default_permissions) == (default, True)
    own = identify(user_token(sub={"deny": ["x"]}), account)
    assert own.permissions == Permissions(None, SubjectPermission(None, ("x",)), None)
    assert not own.has_default_permissions


@pytest.mark.parametrize(
    ("resp", "expected"),
    [
        ({}, ResponsePermission(1, 120.0)),
        ({"max": 3, "ttl": 5_000_000}, ResponsePermission(3, 0.005)),
        ({"max": -7, "ttl": -1}, ResponsePermission(-1, 0.0)),
    ],
)
def test_responses_are_permitted_with_the_servers_defaults(
    resp: dict[str, int], expected: ResponsePermission
) -> None:
    permissions = identify(user_token(resp=resp)).permissions
    assert permissions is not None
    assert permissions.allow_responses == expected


def test_entries_that_are_no_subjects_are_left_out_and_never_widen_what_is_allowed() -> None:
    found = identify(user_token(pub={"allow": ["a.>.b"], "deny": ["c\td"]}, sub={"allow": ["x", "y\tz\tw"]}))
    assert found.permissions == Permissions(
        SubjectPermission(None, ("c", ">")), SubjectPermission(("x",), ()), None
    )
    assert found.invalid_subjects == ("a.>.b", "y\tz\tw")


def test_empty_list_beside_denied_subjects_allows_nothing_to_be_published() -> None:
    found = identify(user_token(pub={"allow": [], "deny": ["x"]}, sub={"allow": [], "deny": ["x"]}))
    expected = Permissions(SubjectPermission(None, ("x", ">")), SubjectPermission(None, ("x",)), None)
    assert found.permissions == expected


@pytest.mark.parametrize(
    ("user", "account", "expected"),
    [(-1, -1, -1), (5, -1, 5), (-1, 5, 5), (5, 3, 3), (0, 5, 0), (-7, 5, 0), (1 << 40, -1, (1 << 31) - 1)],
)
def test_limits_are_the_lower_of_two(user: int, account: int, expected: int) -> None:
    limits = {**ACCOUNT_LIMITS, "subs": account, "payload": account}
    found = identify(user_token(subs=user, payload=user), account_token(limits=limits))
    assert (found.subscriptions, found.payload) == (expected, expected)


def test_refusal_with_a_strangers_words_is_one_short_line() -> None:
    text = refusal(user_token(pub={"allow": ["a  b\n[INF] all is well" + "x" * 3000]}))
    assert text.isprintable()
    assert len(text) < 500
