"""Public nkeys: text form, identifiers, signatures."""

from __future__ import annotations

import base64
import re
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol import nkeys
from headrace.protocol.nkeys import KeyKind, NKeyError

# A user key made by the reference implementation.
USER_KEY = "UBYSLPEWL7UPLQHQCHIC6SB62J4TXM7HP5YV4JPW4764Z32WVIC3ZCBI"


def keypair() -> tuple[Ed25519PrivateKey, str]:
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    return private, nkeys.encode_public(KeyKind.USER, private.public_key().public_bytes_raw())


def unpadded(signature: bytes) -> str:
    return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def test_decode_public_then_encode_gives_the_text_back() -> None:
    kind, key = nkeys.decode_public(USER_KEY)
    assert kind is KeyKind.USER
    assert len(key) == 32
    assert nkeys.encode_public(kind, key) == USER_KEY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "U",
        USER_KEY[:-1],
        USER_KEY + "A",
        USER_KEY + "\n",
        USER_KEY.lower(),
        USER_KEY[:-1] + "A",
        USER_KEY.replace("P", "Q", 1),
        "U" + "0" * 55,
        "SUAJU43XSRE72GVJLADO25PASWIMUZSGDCXGF7AXXSSI65KAFIYZCMKMY4",
        "ü" * 56,
    ],
)
def test_decode_public_malformed_is_an_error(text: str) -> None:
    with pytest.raises(NKeyError):
        nkeys.decode_public(text)


def test_decode_public_unknown_kind_is_an_error() -> None:
    body = bytes([1 << 3]) + bytes(32)
    text = base64.b32encode(body + nkeys._checksum(body)).decode().rstrip("=")
    with pytest.raises(NKeyError, match="no known public kind"):
        nkeys.decode_public(text)


def test_encode_public_key_of_other_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        nkeys.encode_public(KeyKind.USER, bytes(31))


def test_new_server_ids_are_valid_and_differ() -> None:
    first, second = nkeys.new_server_id(), nkeys.new_server_id()
    assert re.fullmatch("N[A-Z2-7]{55}", first)
    assert first != second
    assert nkeys.decode_public(first)[0] is KeyKind.SERVER


def test_new_nonce_is_fifteen_url_safe_characters() -> None:
    assert re.fullmatch(rb"[A-Za-z0-9_-]{15}", nkeys.new_nonce())
    assert nkeys.new_nonce() != nkeys.new_nonce()


@pytest.mark.parametrize("encode", [unpadded, lambda signature: base64.b64encode(signature).decode()])
def test_verify_signature_right_key_and_nonce_is_true(encode: object) -> None:
    assert callable(encode)
    private, public = keypair()
    for nonce in (b"xxx", b"abcdefghijklmno", b"\xff\x00"):
        assert nkeys.verify_signature(public, nonce, encode(private.sign(nonce)))


@pytest.mark.parametrize("signature", ["", "AA", "!!", "=", "ü", "A" * 86, "A" * 85, "A" * 88 + "=="])
def test_verify_signature_malformed_is_false(signature: str) -> None:
    assert not nkeys.verify_signature(USER_KEY, b"nonce", signature)


def test_verify_signature_of_other_nonce_or_key_is_false() -> None:
    private, public = keypair()
    signature = unpadded(private.sign(b"nonce"))
    assert not nkeys.verify_signature(public, b"other", signature)
    assert not nkeys.verify_signature(USER_KEY, b"nonce", signature)
    assert not nkeys.verify_signature("U", b"nonce", signature)


def test_making_ids_does_not_load_cryptography() -> None:
    code = (
        "import sys; from headrace.protocol import nkeys; nkeys.new_server_id(); nkeys.new_nonce();"
        "sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@settings(deadline=None)
@given(st.sampled_from(KeyKind), st.binary(min_size=32, max_size=32), st.integers(0, 55))
def test_decode_public_one_changed_character_is_noticed(kind: KeyKind, key: bytes, position: int) -> None:
    text = nkeys.encode_public(kind, key)
    assert nkeys.decode_public(text) == (kind, key)
    other = "A" if text[position] != "A" else "B"
    with pytest.raises(NKeyError):
        nkeys.decode_public(text[:position] + other + text[position + 1 :])


@settings(deadline=None)
@given(st.text(max_size=90), st.text(max_size=60))
def test_verify_signature_any_text_is_no_exception(signature: str, key: str) -> None:
    assert not nkeys.verify_signature(key, b"nonce", signature)
