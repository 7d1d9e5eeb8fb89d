"""Whom a callout asks about, and which answers it takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.claims import (
    ACCOUNT_KEY,
    ACCOUNT_SIGNER,
    NO_LIMITS,
    OPERATOR_KEY,
    SCOPED_SIGNER,
    account_token,
    claims_of,
    scope,
)
from harness.keys import ACCOUNT, USER, KeyPair, key_pair
from headrace.conf.account_options import CalloutOptions, Permissions, SubjectPermission
from headrace.core.callout import (
    CURVE_KEY_HEADER,
    SUBJECT,
    CalloutRequest,
    ConfiguredCallout,
    Interviewer,
    OperatorCallout,
    claimed_user,
    connect_claims,
    without_asking,
)
from headrace.core.grants import Refused, TokenIdentity, TrustedAccount
from headrace.core.trust import Trust
from headrace.protocol.info import ClientConnect
from headrace.protocol.jwt.claims import ClientClaims, ConnectClaims, ServerClaims
from headrace.protocol.jwt.decoding import MAX_TOKEN, decode_authorization_request
from headrace.protocol.keypairs import CurveKeyPair, SigningKeyPair
from headrace.protocol.nkeys import KeyKind, encode_public

NOW = 1_800_000_000.5
SERVER = SigningKeyPair(KeyKind.SERVER, bytes(32))
CURVE = CurveKeyPair(bytes(range(32)))
SERVICE_CURVE = CurveKeyPair(bytes(range(1, 33)))
OPTIONS = CalloutOptions(ACCOUNT_KEY.public, ("service",), "AUTH")
SEALING = replace(OPTIONS, curve_key=SERVICE_CURVE.public)
OTHER = key_pair(ACCOUNT, "another account")
SERVICE_USER = key_pair(USER, "service")
CLIENT = ClientClaims(host="192.0.2.1", client_id=7, user="joe", nonce="once")
CONNECT = ConnectClaims(user="joe", password="s3cret", signature="sig")


def interviewer(curve: CurveKeyPair = CURVE) -> Interviewer:
    server = ServerClaims(name="n", host="h", server_id="not this one", version="v")
    return Interviewer(server, SERVER, curve, lambda: NOW)


def ask(options: CalloutOptions = OPTIONS, connect: ConnectClaims = CONNECT) -> CalloutRequest:
    return interviewer().question(ConfiguredCallout(options), CLIENT, connect, timeout=2)


def user_token(question: CalloutRequest, issuer: KeyPair = ACCOUNT_KEY, **changes: Any) -> str:
    outer = {
        "aud": "T",
        "name": "joe",
        **{name: changes.pop(name) for name in ("exp", "sub") if name in changes},
    }
    nats = {**NO_LIMITS, **changes}
    claimed = claims_of(issuer, SERVICE_USER, "user", nats, outer)
    return issuer.token({**claimed, "sub": outer.get("sub", question.user_key)})


def response(question: CalloutRequest, issuer: KeyPair = ACCOUNT_KEY, **nats: Any) -> bytes:
    claimed = claims_of(issuer, SERVICE_USER, "authorization_response", nats, {"aud": SERVER.public})
    return issuer.token({**claimed, "sub": question.user_key}).encode()


def accepted(question: CalloutRequest, answer: bytes, options: CalloutOptions = OPTIONS) -> TokenIdentity:
    callout = ConfiguredCallout(options)
    return callout.identity(interviewer().answer(callout, question, answer), NOW)


def refusal(question: CalloutRequest, answer: bytes, options: CalloutOptions = OPTIONS) -> str:
    with pytest.raises(Refused) as caught:
        accepted(question, answer, options)
    assert "eyJ" not in str(caught.value)
    return str(caught.value)


# --- questions ---


def test_question_names_a_new_user_key_and_this_server() -> None:
    question, another = ask(), ask()
    asked = decode_authorization_request(question.payload.decode())
    assert (asked.issuer, asked.server.server_id) == (SERVER.public, SERVER.public)
    assert (asked.subject, asked.audience) == (ACCOUNT_KEY.public, "nats-authorization-request")
    assert asked.user_nkey == question.user_key != another.user_key
    assert asked.expires == int(NOW + 2)
    assert (asked.client, asked.connect) == (CLIENT, CONNECT)
    assert (asked.server.curve_key, question.headers) == ("", ())
    assert "s3cret" not in repr(question)


def test_question_has_the_nonce_only_beside_a_signature() -> None:
    asked = decode_authorization_request(ask(connect=ConnectClaims(user="joe")).payload.decode())
    assert asked.client == replace(CLIENT, nonce="")


def test_question_is_encrypted_for_the_configured_key() -> None:
    question = ask(SEALING)
    assert question.headers == ((CURVE_KEY_HEADER, CURVE.public),)
    assert b"eyJ" not in question.payload
    token = SERVICE_CURVE.open(question.payload, CURVE.public).decode()
    assert decode_authorization_request(token).server.curve_key == CURVE.public


def test_question_that_cannot_be_made_refuses() -> None:
    with pytest.raises(Refused, match="Error encoding auth request claim"):
        ask(connect=ConnectClaims(name="x" * MAX_TOKEN))
    with pytest.raises(Refused, match="Error encrypting auth request claim"):
        ask(replace(OPTIONS, curve_key=encode_public(KeyKind.CURVE, bytes(32))))


def test_only_a_server_asks() -> None:
    with pytest.raises(ValueError, match="key of a server"):
        Interviewer(ServerClaims(), SigningKeyPair(KeyKind.ACCOUNT, bytes(32)), CURVE)


def test_client_is_who_it_claims_to_be() -> None:
    connect = ClientConnect(user="joe", auth_token="t")
    assert claimed_user(replace(connect, nkey="U")) == "U"
    assert claimed_user(connect, "eyJ", "UKEY") == "joe"
    assert claimed_user(ClientConnect(auth_token="t"), "eyJ", "UKEY") == "UKEY"
    assert claimed_user(ClientConnect(auth_token="t")) == "[REDACTED]"
    assert claimed_user(ClientConnect(jwt="eyJ")) == ""
    assert connect_claims(ClientConnect(jwt="eyJ")).jwt == ""
    assert connect_claims(ClientConnect(jwt="x", sig="s"), "eyJ") == ConnectClaims(jwt="eyJ", signature="s")


# --- whom it decides about ---


def test_configured_callout_decides_about_everybody_but_its_own_users() -> None:
    callout = ConfiguredCallout(OPTIONS)
    assert callout.decides_about("joe", "$G")
    assert callout.decides_about("joe", "T")
    assert not callout.decides_about("service", "AUTH")
    some = ConfiguredCallout(replace(OPTIONS, allowed_accounts=("T",)))
    assert some.decides_about("joe", "T")
    assert some.decides_about("joe", "$G")
    assert not some.decides_about("joe", "U")


def test_permissions_without_asking_deny_questions() -> None:
    assert without_asking(None) == Permissions(publish=SubjectPermission(deny=(SUBJECT,)))
    some = Permissions(SubjectPermission(("a",), ("b",)), SubjectPermission(("c",)))
    assert without_asking(some) == replace(some, publish=SubjectPermission(("a",), ("b", SUBJECT)))


# --- answers to a configured callout ---


def test_answer_grants_what_the_user_token_says() -> None:
    question = ask()
    token = user_token(question, pub={"allow": ["a"]}, payload=5, subs=7, exp=int(NOW) + 60, tags=["x:y"])
    found = accepted(question, response(question, jwt=token))
    assert (found.account, found.account_name, found.user, found.user_name) == (
        "T",
        "T",
        question.user_key,
        "joe",
    )
    assert found.permissions == Permissions(publish=SubjectPermission(("a",)))
    assert (found.payload, found.subscriptions, found.expires_at) == (-1, -1, int(NOW) + 60)
    assert found.tags == ("x:y",)


def test_answer_may_be_encrypted_where_the_question_is() -> None:
    question = ask(SEALING)
    answer = response(question, jwt=user_token(question))
    assert accepted(question, answer, SEALING).account == "T"
    assert accepted(question, SERVICE_CURVE.seal(answer, CURVE.public), SEALING).account == "T"
    assert "Error decrypting" in refusal(question, CURVE.seal(answer, CURVE.public), SEALING)
    # Nobody decrypts where nothing is encrypted.
    assert "no token" in refusal(ask(), b"\xff" + answer)
    assert "chunks" in refusal(ask(), b"xkv1")


def test_answer_to_another_question_is_refused() -> None:
    question, another = ask(), ask()
    answer = response(another, jwt=user_token(another))
    assert "not for expected user" in refusal(question, answer)
    answer = response(question, jwt=user_token(another))
    assert refusal(question, answer).startswith(f'Expected authorized user of "{question.user_key}" but got')


def test_answer_that_is_an_error_says_so_on_one_line() -> None:
    question = ask()
    found = refusal(question, response(question, error="go\r\n[INF] away" + "x" * 1000))
    assert found.startswith("Auth callout service returned an error: go\\r\\n[INF] away")
    assert len(found) < 500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"issuer": OTHER}, "Wrong issuer for auth callout response"),
        ({"issuer_account": ACCOUNT_KEY.public}, "attempted to use issuer_account"),
        ({"exp": int(NOW) - 60}, "Error validating user JWT: claim is expired"),
        ({"pub": {"allow": ["a..b"]}}, "Error validating user JWT"),
        ({"times": [{"start": "00:00:00", "end": "00:00:00"}]}, "outside of valid connect times"),
        ({"allowed_connection_types": ["NEW"]}, "using invalid connection type"),
        ({"proxy_required": True}, "Proxy connection required"),
    ],
)
def test_answer_with_a_user_that_may_not_be_is_refused(changes: dict[str, Any], message: str) -> None:
    question = ask()
    assert message in refusal(question, response(question, jwt=user_token(question, **changes)))


def test_answer_is_refused_unless_the_issuer_signed_it() -> None:
    question = ask()
    answer = response(question, OTHER, jwt=user_token(question))
    assert refusal(question, answer) == "Auth callout signing key is unknown"
    assert "no reason supplied" in refusal(question, b"")
    assert "too large" in refusal(question, b"eyJ" + bytes(MAX_TOKEN + 100))
    assert "Error or Jwt is required" in refusal(question, response(question))
    assert "Only Error or Jwt" in refusal(question, response(question, jwt="x", error="y"))


def test_proxy_that_is_required_is_enough() -> None:
    question, callout = ask(), ConfiguredCallout(OPTIONS)
    answer = response(question, jwt=user_token(question))
    with pytest.raises(Refused, match="Proxy connection required"):
        interviewer().answer(callout, question, answer, proxy_required=True)
    user = interviewer().answer(callout, question, answer, proxy_required=True, by_trusted_proxy=True)
    assert callout.placement(user) == "T"


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_one_refusal(answer: bytes, encrypted: bool) -> None:
    options = SEALING if encrypted else OPTIONS
    with pytest.raises(Refused):
        interviewer().answer(ConfiguredCallout(options), ask(options), answer)


# --- operator mode ---


def operator_account(key: KeyPair = ACCOUNT_KEY, **nats: Any) -> TrustedAccount:
    given = {"signing_keys": [ACCOUNT_SIGNER.public], **nats}
    token = account_token(OPERATOR_KEY, key, **given)
    return Trust([OPERATOR_KEY.public], now=lambda: NOW).account(key.public, token)


def operator_callout(**authorization: Any) -> OperatorCallout:
    given = {"auth_users": [SERVICE_USER.public], **authorization}
    return OperatorCallout(operator_account(authorization=given))


def operator_refusal(callout: OperatorCallout, answer: bytes, question: CalloutRequest) -> str:
    with pytest.raises(Refused) as caught:
        callout.placement(interviewer().answer(callout, question, answer))
    return str(caught.value)


def test_operator_callout_is_wanted_by_accounts_that_name_users() -> None:
    assert not OperatorCallout.is_wanted(operator_account())
    assert OperatorCallout.is_wanted(operator_account(authorization={"auth_users": [SERVICE_USER.public]}))


def test_operator_callout_decides_about_everybody_but_its_own_users() -> None:
    callout, question = operator_callout(), ask()
    answer = response(question, jwt=user_token(question))
    identity = callout.identity(interviewer().answer(callout, question, answer), operator_account(), NOW)
    assert callout.decides_about(identity)
    assert not callout.decides_about(replace(identity, user=SERVICE_USER.public))


def test_operator_callout_takes_answers_of_signing_keys_only() -> None:
    callout, question = operator_callout(), ask()
    token = user_token(question)
    signed = response(question, ACCOUNT_SIGNER, jwt=token, issuer_account=ACCOUNT_KEY.public)
    assert callout.placement(interviewer().answer(callout, question, signed)) == ACCOUNT_KEY.public
    stranger = response(question, OTHER, jwt=token, issuer_account=ACCOUNT_KEY.public)
    assert operator_refusal(callout, stranger, question) == "Auth callout signing key is unknown"
    error = response(question, OTHER, error="go away")
    assert operator_refusal(callout, error, question) == "Auth callout signing key is unknown"
    wrong = response(question, jwt=token, issuer_account=OTHER.public)
    assert "is not the callout account" in operator_refusal(callout, wrong, question)


def test_operator_callout_places_users_where_its_account_allows() -> None:
    question = ask()
    answer = response(question, jwt=user_token(question, OTHER))
    assert "not permitted as valid account option" in operator_refusal(operator_callout(), answer, question)
    for allowed in ([OTHER.public], ["*"]):
        callout = operator_callout(allowed_accounts=allowed)
        user = interviewer().answer(callout, question, answer)
        assert callout.placement(user) == OTHER.public
        with pytest.raises(ValueError, match="another account"):
            callout.identity(user, operator_account(), NOW)
        assert callout.identity(user, operator_account(OTHER), NOW).account == OTHER.public


def test_operator_callout_users_have_the_scope_of_their_signer() -> None:
    callout, question = operator_callout(), ask()
    target = operator_account(signing_keys=[scope(SCOPED_SIGNER, pub={"allow": ["u.{{name()}}"]}, payload=3)])
    own = {"issuer_account": ACCOUNT_KEY.public}
    claimed = claims_of(SCOPED_SIGNER, SERVICE_USER, "user", own, {"name": "joe"})
    token = SCOPED_SIGNER.token({**claimed, "sub": question.user_key})
    user = interviewer().answer(callout, question, response(question, jwt=token))
    found = callout.identity(user, target, NOW)
    assert found.permissions == Permissions(publish=SubjectPermission(("u.joe",)))
    with pytest.raises(Refused, match="is not known"):
        callout.identity(user, operator_account(), NOW)
    limited = user_token(question, SCOPED_SIGNER, **own)
    user = interviewer().answer(callout, question, response(question, jwt=limited))
    with pytest.raises(Refused, match="scoped users require no permissions"):
        callout.identity(user, target, NOW)
