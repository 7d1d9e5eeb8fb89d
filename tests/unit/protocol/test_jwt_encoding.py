"""Questions and answers of a callout, written and read again."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.protocol.jwt import claims
from headrace.protocol.jwt.decoding import (
    MAX_TOKEN,
    JWTError,
    decode_authorization_request,
    decode_authorization_response,
)
from headrace.protocol.jwt.encoding import encode
from headrace.protocol.keypairs import SigningKeyPair
from headrace.protocol.nkeys import KeyKind

SERVER = SigningKeyPair(KeyKind.SERVER, bytes(32))
ACCOUNT = SigningKeyPair(KeyKind.ACCOUNT, bytes(32))
NOW = 1_800_000_000.9
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LISTS = st.lists(TEXTS, max_size=2).map(tuple)
NUMBERS = st.integers(0, (1 << 63) - 1)
COMMON = {
    "subject": TEXTS.filter(bool),
    "name": TEXTS,
    "audience": TEXTS,
    "expires": NUMBERS,
    "not_before": NUMBERS,
    "tags": LISTS,
}


def of(make: Any, **changes: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any value of a flat structure, texts where nothing else is said."""
    names = [name for name in make.__struct_fields__ if name not in changes]
    return st.builds(make, **dict.fromkeys(names, TEXTS), **changes)


REQUESTS = st.builds(
    claims.AuthorizationRequestClaims,
    **COMMON,
    server=of(claims.ServerClaims, tags=LISTS),
    user_nkey=TEXTS,
    client=of(claims.ClientClaims, tags=LISTS, client_id=st.integers(0, (1 << 64) - 1)),
    connect=of(claims.ConnectClaims, protocol=NUMBERS),
    tls=st.none()
    | of(claims.TLSClaims, certificates=LISTS, verified_chains=st.lists(LISTS, max_size=2).map(tuple)),
    request_nonce=TEXTS,
)
RESPONSES = st.builds(
    claims.AuthorizationResponseClaims, **COMMON, jwt=TEXTS, error=TEXTS, issuer_account=TEXTS
)


def document_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


@given(REQUESTS)
def test_request_is_read_as_it_was_written(request: claims.AuthorizationRequestClaims) -> None:
    found = decode_authorization_request(encode(request, SERVER, NOW))
    assert (found.issuer, found.issued_at, len(found.token_id)) == (SERVER.public, int(NOW), 52)
    assert found == replace(request, issuer=found.issuer, issued_at=int(NOW), token_id=found.token_id)


@given(RESPONSES)
def test_response_is_read_as_it_was_written(response: claims.AuthorizationResponseClaims) -> None:
    found = decode_authorization_response(encode(response, ACCOUNT, NOW))
    assert found == replace(response, issuer=ACCOUNT.public, issued_at=int(NOW), token_id=found.token_id)


def test_empty_request_has_what_services_count_on() -> None:
    document = document_of(encode(claims.AuthorizationRequestClaims(subject="A"), SERVER, NOW))
    assert document["nats"] == {
        "server_id": {"name": "", "host": "", "id": ""},
        "user_nkey": "",
        "client_info": {},
        "connect_opts": {"protocol": 0},
        "type": "authorization_request",
        "version": 2,
    }


def test_token_ids_differ_with_what_is_said() -> None:
    one, other = (claims.AuthorizationResponseClaims(subject="U", error=error) for error in ("a", "b"))
    ids = {document_of(encode(said, ACCOUNT, NOW))["jti"] for said in (one, other, one)}
    assert len(ids) == 2


def test_half_a_surrogate_pair_is_replaced() -> None:
    said = claims.AuthorizationRequestClaims(subject="A", connect=claims.ConnectClaims(name="a\ud800b"))
    assert decode_authorization_request(encode(said, SERVER, NOW)).connect.name == "a\ufffdb"


@pytest.mark.parametrize(
    ("said", "key", "message"),
    [
        (claims.AuthorizationRequestClaims(), SERVER, "subject is not set"),
        (claims.AuthorizationRequestClaims(subject="A"), ACCOUNT, "not issued by such a key"),
        (claims.AuthorizationResponseClaims(subject="U"), SERVER, "not issued by such a key"),
        (claims.AuthorizationResponseClaims(subject="U", jwt="x" * MAX_TOKEN), ACCOUNT, "exceeds maximum"),
    ],
)
def test_what_nobody_would_take_is_not_written(said: Any, key: SigningKeyPair, message: str) -> None:
    with pytest.raises(JWTError, match=message):
        encode(said, key, NOW)
