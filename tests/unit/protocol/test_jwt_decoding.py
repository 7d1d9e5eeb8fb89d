"""Tokens to claims: every kind and version, and one error for whatever is wrong."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from harness.claims import (
    ACCOUNT_KEY,
    ACCOUNT_SIGNER,
    ISSUED_AT,
    OPERATOR_KEY,
    SCOPED_SIGNER,
    USER_KEY,
    account_token,
    claims_of,
    operator_token,
    scope,
    scoped_token,
    user_token,
)
from harness.keys import SERVER, KeyPair, key_pair
from headrace.protocol.jwt import claims
from headrace.protocol.jwt.decoding import (
    MAX_TOKEN,
    JWTError,
    decode,
    decode_account,
    decode_activation,
    decode_authorization_request,
    decode_authorization_response,
    decode_operator,
    decode_user,
    undecorated,
)

SERVER_KEY = key_pair(SERVER, "server")
VECTORS = Path(__file__).parents[2] / "conformance" / "client_vectors.json"


def part(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def signed(raw_claims: bytes, key: KeyPair = ACCOUNT_KEY, header: object = None) -> str:
    """A token over these very bytes."""
    body = f"{part(header or {'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{part(raw_claims)}"
    return f"{body}.{part(key.sign(body.encode()))}"


def user_claims(**outer: Any) -> dict[str, Any]:
    return claims_of(ACCOUNT_KEY, USER_KEY, "user", {"subs": -1}, outer)


def test_decode_user_gives_every_field() -> None:
    nats = {
        "pub": {"allow": ["a"], "deny": ["b"]},
        "sub": {"allow": ["c q"], "deny": []},
        "resp": {"max": 3, "ttl": 5_000_000_000},
        "subs": 7,
        "data": 8,
        "payload": 9,
        "src": ["192.0.2.0/24"],
        "times": [{"start": "08:00:00", "end": "17:00:00"}],
        "times_location": "Europe/Zurich",
        "bearer_token": True,
        "proxy_required": True,
        "allowed_connection_types": ["STANDARD"],
        "issuer_account": ACCOUNT_KEY.public,
        "tags": ["x:1"],
    }
    outer = {"exp": 2_000_000_000, "nbf": 5, "aud": "aud", "name": "ü"}
    found = decode_user(user_token(ACCOUNT_SIGNER, outer=outer, **nats))
    assert found == claims.UserClaims(
        issuer=ACCOUNT_SIGNER.public,
        subject=USER_KEY.public,
        name="ü",
        audience="aud",
        token_id="T",
        issued_at=ISSUED_AT,
        expires=2_000_000_000,
        not_before=5,
        tags=("x:1",),
        issuer_account=ACCOUNT_KEY.public,
        limits=claims.UserLimitClaims(
            permissions=claims.PermissionClaims(
                publish=claims.SubjectClaims(("a",), ("b",)),
                subscribe=claims.SubjectClaims(("c q",), ()),
                responses=claims.ResponseClaims(3, 5_000_000_000),
            ),
            source_networks=("192.0.2.0/24",),
            times=(claims.TimeRange("08:00:00", "17:00:00"),),
            times_location="Europe/Zurich",
            subscriptions=7,
            data=8,
            payload=9,
            bearer_token=True,
            proxy_required=True,
            connection_types=("STANDARD",),
        ),
    )
    assert found.account == ACCOUNT_KEY.public


def test_decode_account_gives_every_field() -> None:
    nats = {
        "imports": [
            {
                "name": "i",
                "subject": "s",
                "account": "A",
                "token": "t",
                "to": "x",
                "type": "service",
                "share": True,
            },
            {"local_subject": "l", "type": "stream", "allow_trace": True},
        ],
        "exports": [
            {
                "name": "e",
                "subject": "svc.*",
                "type": "service",
                "token_req": True,
                "revocations": {"*": 5},
                "response_type": "Chunked",
                "response_threshold": 6,
                "service_latency": {"sampling": "headers", "results": "lat"},
                "account_token_position": 2,
                "advertise": True,
                "allow_trace": True,
                "description": "d",
                "info_url": "http://i",
            }
        ],
        "limits": {
            **{"subs": 1, "data": 2, "payload": 3, "imports": 4, "exports": 5, "wildcards": True},
            **{"disallow_bearer": True, "conn": 6, "leaf": 7, "mem_storage": 8, "streams": 9},
        },
        "signing_keys": [ACCOUNT_SIGNER.public, scope(pub={"allow": ["x"]}, bearer_token=True)],
        "revocations": {USER_KEY.public: 10},
        "default_permissions": {"pub": {"deny": ["no"]}},
        "mappings": {"m": [{"subject": "n", "weight": 60, "cluster": "c"}, {"subject": "o"}]},
        "authorization": {"auth_users": ["U"], "allowed_accounts": ["*"], "xkey": "X"},
        "trace": {"dest": "t", "sampling": 50},
        "cluster_traffic": "owner",
        "description": "account",
        "info_url": "http://a",
        "tags": ["t"],
    }
    found = decode_account(account_token(**nats))
    assert found.imports == (
        claims.ImportClaims(
            name="i", subject="s", account="A", token="t", to="x", kind="service", share=True
        ),
        claims.ImportClaims(local_subject="l", kind="stream", allow_trace=True),
    )
    (export,) = found.exports
    assert export.latency == claims.Latency(0, "lat")
    assert dict(export.revocations) == {"*": 5}
    assert (export.kind, export.response_type, export.response_threshold) == ("service", "Chunked", 6)
    assert (export.token_required, export.account_token_position, export.advertise) == (True, 2, True)
    assert (export.description, export.info_url, export.allow_trace) == ("d", "http://i", True)
    assert found.limits == claims.AccountLimitClaims(
        1, 2, 3, 4, 5, True, True, 6, 7, claims.JetStreamLimitClaims(memory_storage=8, streams=9)
    )
    assert found.signing_keys[ACCOUNT_SIGNER.public] is None
    scoped = found.signing_keys[SCOPED_SIGNER.public]
    assert scoped is not None
    assert scoped.role == "r"
    # What a template does not limit has no limit, unlike in a user's own token.
    assert scoped.template == claims.UserLimitClaims(
        permissions=claims.PermissionClaims(publish=claims.SubjectClaims(("x",))),
        subscriptions=-1,
        data=-1,
        payload=-1,
        bearer_token=True,
    )
    assert dict(found.revocations) == {USER_KEY.public: 10}
    assert found.default_permissions.publish == claims.SubjectClaims(deny=("no",))
    assert [entry.percent for entry in found.mappings["m"]] == [60, 100]
    assert found.callout == claims.CalloutClaims(("U",), ("*",), "X")
    assert found.trace == claims.TraceClaims("t", 50)
    assert (found.cluster_traffic, found.description, found.info_url) == ("owner", "account", "http://a")
    assert found.tags == ("t",)


def test_decode_account_jetstream_tiers_replace_the_limits_beside_them() -> None:
    limits = {"mem_storage": 8, "tiered_limits": {"R1": {"disk_storage": 5}}}
    found = decode_account(account_token(limits=limits)).limits
    assert found.jetstream == claims.JetStreamLimitClaims()
    assert dict(found.jetstream_tiers) == {"R1": claims.JetStreamLimitClaims(disk_storage=5)}


def test_decode_operator_gives_every_field() -> None:
    found = decode_operator(
        operator_token(
            signing_keys=["O1"],
            account_server_url="http://x",
            operator_service_urls=["nats://y"],
            system_account="A",
            assert_server_version="2.1.0",
            strict_signing_key_usage=True,
        )
    )
    assert found.signing_keys == ("O1",)
    assert (found.account_server_url, found.service_urls) == ("http://x", ("nats://y",))
    assert (found.system_account, found.server_version) == ("A", "2.1.0")
    assert found.strict_signing_keys


def test_decode_activation_gives_every_field() -> None:
    nats = {"subject": "s.>", "kind": "stream", "issuer_account": "A", "tags": ["t"]}
    token = ACCOUNT_KEY.token(claims_of(ACCOUNT_KEY, ACCOUNT_SIGNER, "activation", nats, {}))
    found = decode_activation(token)
    assert (found.import_subject, found.kind, found.issuer_account) == ("s.>", "stream", "A")


def test_decode_authorization_request_gives_every_field_and_shows_no_secret() -> None:
    nats = {
        "server_id": {"name": "n", "host": "h", "id": "N", "version": "v", "cluster": "c", "xkey": "X"},
        "user_nkey": "U",
        "client_info": {"host": "1.2.3.4", "id": 7, "user": "u", "kind": "Client", "nonce": "s3cret-nonce"},
        "connect_opts": {
            **{"jwt": "s3cret-jwt", "sig": "s3cret-sig", "auth_token": "s3cret-token", "pass": "s3cret-pass"},
            **{"user": "u", "nkey": "k", "lang": "go", "version": "1", "protocol": 1},
        },
        "client_tls": {"version": "1.3", "cipher": "c", "certs": ["p"], "verified_chains": [["p", "q"]]},
        "request_nonce": "s3cret-request",
    }
    claimed = claims_of(SERVER_KEY, USER_KEY, "authorization_request", nats, {})
    found = decode_authorization_request(SERVER_KEY.token(claimed))
    assert (found.server.server_id, found.server.curve_key, found.user_nkey) == ("N", "X", "U")
    assert (found.client.client_id, found.client.nonce) == (7, "s3cret-nonce")
    assert (found.connect.jwt, found.connect.password, found.connect.protocol) == (
        "s3cret-jwt",
        "s3cret-pass",
        1,
    )
    assert found.tls == claims.TLSClaims("1.3", "c", ("p",), (("p", "q"),))
    assert found.request_nonce == "s3cret-request"
    assert "s3cret" not in repr(found)


def test_decode_authorization_response_gives_every_field_and_shows_no_token() -> None:
    nats = {"jwt": "s3cret", "error": "no", "issuer_account": "A"}
    claimed = claims_of(ACCOUNT_KEY, USER_KEY, "authorization_response", nats, {"aud": "N"})
    found = decode_authorization_response(ACCOUNT_KEY.token(claimed))
    assert (found.jwt, found.error, found.issuer_account, found.audience) == ("s3cret", "no", "A", "N")
    assert "s3cret" not in repr(found)


def test_decode_version_1_moves_what_lay_elsewhere() -> None:
    common = {"iss": ACCOUNT_KEY.public, "sub": USER_KEY.public, "iat": ISSUED_AT}
    old = {
        **common,
        "type": "user",
        "tags": ["t"],
        "issuer_account": "A",
        "nats": {
            "pub": {"allow": ["a"]},
            "src": "192.0.2.0/24, 10.0.0.0/8",
            "type": "ignored",
            "tags": ["not"],
        },
    }
    found = decode_user(ACCOUNT_KEY.old_token(old))
    assert (found.version, found.tags, found.issuer_account) == (1, ("t",), "A")
    assert found.limits.source_networks == ("192.0.2.0/24", "10.0.0.0/8")
    # In version 1 what is not there is not limited.
    assert (found.limits.subscriptions, found.limits.data, found.limits.payload) == (-1, -1, -1)
    account = {
        **common,
        "type": "account",
        "nats": {"signing_keys": ["A1"], "limits": {"subs": 5, "conn": 3, "mem_storage": "not read"}},
    }
    decoded = decode_account(ACCOUNT_KEY.old_token(account))
    assert dict(decoded.signing_keys) == {"A1": None}
    assert decoded.limits == claims.AccountLimitClaims(subscriptions=5, connections=3)
    activation = {**common, "type": "activation", "nats": {"subject": "s", "type": "service"}}
    assert decode_activation(ACCOUNT_KEY.old_token(activation)).kind == "service"
    operator = {**common, "iss": OPERATOR_KEY.public, "type": "operator", "nats": {"system_account": "A"}}
    assert decode_operator(OPERATOR_KEY.old_token(operator)).system_account == "A"


def test_decode_version_and_kind_of_signature_belong_together() -> None:
    with pytest.raises(JWTError, match="V2 signature"):
        decode(ACCOUNT_KEY.old_token(user_claims()))
    with pytest.raises(JWTError, match="V1 signature"):
        decode(ACCOUNT_KEY.token({**user_claims(), "type": "user"}))


def test_decode_names_match_in_any_case_and_null_is_absent() -> None:
    claimed = {
        **user_claims(),
        "EXP": 5,
        "ſub": USER_KEY.public,
        "NATS": {"Type": "user", "VERSION": 2, "pub": None},
    }
    del claimed["sub"], claimed["nats"]
    found = decode_user(ACCOUNT_KEY.token(claimed))
    assert (found.expires, found.subject) == (5, USER_KEY.public)
    assert found.limits == claims.UserLimitClaims()


def test_decode_passes_over_unknown_fields_and_line_ends() -> None:
    token = ACCOUNT_KEY.token({**user_claims(), "zzz": [1, {"a": None}]})
    assert decode_user(token + "\r\n") == decode_user(token)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", "expected 3 chunks"),
        ("a.b", "expected 3 chunks"),
        ("a.b.c.d", "expected 3 chunks"),
        ("..", "not JSON"),
        ("a.b.c", "cut off"),
        ("ä.b.c", "base64url"),
        ("\ud800.b.c", "base64url"),
        (part({}) + "=.b.c", "base64url"),
        (part({}) + ".b.c", "not supported type"),
        (part({"typ": "JWT"}) + ".b.c", "unexpected algorithm"),
        (part({"typ": "JWT", "alg": "none"}) + ".b.c", "unexpected algorithm"),
        (part({"typ": "JWT", "alg": "ed25519-other"}) + ".b.c", "unexpected algorithm"),
        (part({"typ": 1, "alg": "ed25519"}) + ".b.c", "typ: a string is expected"),
        (part([]) + ".b.c", "an object is expected, not a list"),
        (signed(b"null"), "an object is expected, not null"),
        (signed(b"[" * 100_000 + b"]" * 100_000), "nested too deep"),
        (signed(b'{"iss":"\xff"}'), "not UTF-8"),
        (signed(b'{"exp":NaN}'), "NaN"),
        (signed(b'{"exp":1,"exp":2}'), "twice"),
        (signed(b"{}"), "no known type"),
        (signed(b'{"nats":{"type":"user","version":3}}'), "newer version"),
        (signed(b'{"nats":{"type":"user","version":2}}'), "V2 signature"),
        (signed(b'{"type":"user"}'), "V1 signature"),
        (signed(b'{"nats":{"type":"generic","version":2}}'), "no known type"),
        (signed(b'{"nats":[]}'), "nats: an object is expected, not a list"),
        (signed(b'{"exp":' + b"9" * 5000 + b"}"), "no known type"),
        ("x" * (MAX_TOKEN + 1), "exceeds maximum"),
        (user_token()[:-4], "signature verification"),
        (user_token().rsplit(".", 1)[0] + ".", "signature verification"),
        (USER_KEY.token({**user_claims(), "iss": USER_KEY.public}), "expected prefixes"),
        (OPERATOR_KEY.token({**user_claims(), "iss": OPERATOR_KEY.public}), "expected prefixes"),
    ],
)
def test_decode_of_what_is_no_token_says_why(token: str, message: str) -> None:
    with pytest.raises(JWTError, match=message):
        decode(token)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exp": "5"}, "exp: a whole number is expected, not a string"),
        ({"exp": 1.5}, "exp: a whole number"),
        ({"exp": True}, "exp: a whole number is expected, not true or false"),
        ({"exp": 1 << 63}, "exp: the number is too large"),
        ({"exp": 10**30}, "exp: a whole number is expected, not a fraction or a number that is too large"),
        ({"name": ["x"]}, "name: a string is expected, not a list"),
        ({"name": "\ud800"}, "name: half a surrogate pair"),
        ({"EXP": 1, "Exp": 2}, "exp: it stands twice"),
    ],
)
def test_decode_user_with_a_field_of_another_type_names_it(change: dict[str, Any], message: str) -> None:
    with pytest.raises(JWTError, match=message):
        decode_user(ACCOUNT_KEY.token({**user_claims(), **change}))


@pytest.mark.parametrize(
    ("nats", "message"),
    [
        ({"pub": []}, "pub: an object is expected"),
        ({"pub": {"allow": "x"}}, "pub.allow: a list is expected, not a string"),
        ({"pub": {"allow": ["x", 5]}}, r"pub.allow\[1\]: a string is expected, not a number"),
        ({"sub": {"deny": [None]}}, r"sub.deny\[0\]: a string is expected, not null"),
        ({"bearer_token": 1}, "bearer_token: true or false is expected"),
        ({"times": [5]}, r"times\[0\]: an object"),
        ({"src": 5}, "src: a list is expected"),
        ({"version": "2"}, "version: a whole number"),
        ({"version": 0}, "version 1 or 2 is supported, not 0"),
        ({"version": -1}, "version 1 or 2 is supported, not -1"),
        ({"type": 5}, "type: a string"),
    ],
)
def test_decode_user_with_a_wrong_claim_names_it(nats: dict[str, Any], message: str) -> None:
    claimed = claims_of(ACCOUNT_KEY, USER_KEY, "user", nats, {})
    old = isinstance(nats.get("version"), int) and nats["version"] < 2
    body = json.dumps(claimed).encode()
    token = ACCOUNT_KEY.old_token(claimed) if old else signed(body)
    with pytest.raises(JWTError, match=message):
        decode_user(token)


@pytest.mark.parametrize(
    ("nats", "message"),
    [
        ({"exports": [{"type": "queue"}]}, r"exports\[0\].type: unknown export type"),
        ({"exports": [None]}, r"exports\[0\]: an object"),
        ({"signing_keys": [{"kind": "other_scope", "key": "A"}]}, "signing_keys: unknown signing key scope"),
        ({"signing_keys": [5]}, "signing_keys: a string"),
        ({"signing_keys": "A"}, "signing_keys: a list"),
        ({"mappings": {"a": [{"subject": "b", "weight": 256}]}}, "a number from 0 to 255"),
        ({"mappings": {"a": {}}}, r"mappings\[…\]: a list"),
        ({"revocations": {"s3cret": "x"}}, r"revocations\[…\]: a whole number"),
        ({"exports": [{"account_token_position": -1}]}, "a number from 0 to"),
        ({"exports": [{"service_latency": {"sampling": "x"}}]}, "sampling: a whole number"),
        ({"limits": {"tiered_limits": {"R1": 5}}}, r"limits.tiered_limits\[…\]: an object"),
    ],
)
def test_decode_account_with_a_wrong_claim_names_it(nats: dict[str, Any], message: str) -> None:
    with pytest.raises(JWTError, match=message):
        decode_account(account_token(**nats))


def test_decode_of_another_kind_is_refused() -> None:
    readers = [decode_operator, decode_account, decode_activation]
    readers += [decode_authorization_request, decode_authorization_response]  # type: ignore[list-item]
    for reader in readers:
        with pytest.raises(JWTError, match=r"not .* claim"):
            reader(user_token())
    with pytest.raises(JWTError, match="not user claim"):
        decode_user(account_token())


def test_undecorated_takes_the_token_of_a_file() -> None:
    token = user_token()
    decorated = f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
    assert undecorated(decorated) == token
    assert undecorated(decorated.replace("\n", "\r\n")) == token
    assert (
        undecorated(f"{decorated}-----BEGIN USER NKEY SEED-----\nSUX\n------END USER NKEY SEED------\n")
        == token
    )
    assert undecorated(f" {token}\n") == token


def test_decode_takes_every_token_of_the_vectors() -> None:
    config = next(v for v in json.loads(VECTORS.read_text()) if v["name"] == "jwt_ok")["server_config"]
    tokens = [word.strip('",') for word in config.split() if word.startswith("eyJ")]
    assert len(tokens) == 3
    assert isinstance(decode(tokens[0]), claims.OperatorClaims)
    assert all(isinstance(decode(token), claims.AccountClaims) for token in tokens[1:])


TOKEN = scoped_token()


@settings(deadline=None, max_examples=300)
@given(
    st.integers(0, len(TOKEN) - 1), st.characters(), st.sampled_from(["replace", "insert", "cut", "double"])
)
@example(0, "e", "replace")
def test_decode_of_a_changed_token_is_an_error_that_shows_nothing_of_it(at: int, char: str, how: str) -> None:
    changed = {
        "replace": TOKEN[:at] + char + TOKEN[at + 1 :],
        "insert": TOKEN[:at] + char + TOKEN[at:],
        "cut": TOKEN[:at],
        "double": TOKEN[:at] + TOKEN,
    }[how]
    try:
        found = decode(changed)
    except JWTError as error:
        text = str(error)
        assert all(text.find(TOKEN[i : i + 8]) == -1 for i in range(0, len(TOKEN) - 8))
    else:
        # The last character of a part has bits that say nothing.
        assert found == decode(TOKEN)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = ["type", "version", "tags", "pub", "sub", "resp", "src", "times", "limits", "signing_keys", "exports"]
NAMES += [
    "imports",
    "mappings",
    "authorization",
    "trace",
    "revocations",
    "default_permissions",
    "jwt",
    "subject",
]
KINDS = ["operator", "account", "user", "activation", "authorization_request", "authorization_response"]


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(NAMES), JSON_VALUES, max_size=4),
    st.dictionaries(st.sampled_from(["exp", "nbf", "name", "type", "nats", "sub"]), JSON_VALUES, max_size=2),
    st.sampled_from([OPERATOR_KEY, ACCOUNT_KEY, SERVER_KEY, USER_KEY]),
)
def test_decode_of_any_signed_json_gives_claims_or_one_error(
    kind: str, nats: dict[str, Any], outer: dict[str, Any], key: KeyPair
) -> None:
    claimed = claims_of(key, USER_KEY, kind, nats, outer)
    for token in (key.token(claimed), key.old_token({**claimed, "type": kind})):
        try:
            found = decode(token)
        except JWTError:
            continue
        assert isinstance(found, claims.Claims)
        asdict(claims.UserClaims())


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: f"{part(raw)}.{part(raw)}.{part(raw)}"))
def test_decode_of_any_text_is_one_error(token: str) -> None:
    with pytest.raises(JWTError):
        decode(token)
