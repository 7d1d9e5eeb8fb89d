"""Key pairs of a server: signatures that verify, and boxes that only two can open."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol import nkeys
from headrace.protocol.keypairs import SEALED_EXTRA, CurveKeyPair, SealError, SigningKeyPair
from headrace.protocol.nkeys import KeyKind, encode_public

ALICE = CurveKeyPair(bytes(range(32)))
BOB = CurveKeyPair(bytes(range(1, 33)))
EVE = CurveKeyPair(bytes(range(2, 34)))
MESSAGE = b"who is it"
SEALED = ALICE.seal(MESSAGE, BOB.public)


def test_signature_is_of_the_public_key() -> None:
    pair = SigningKeyPair.generate(KeyKind.SERVER)
    signature = base64.urlsafe_b64encode(pair.sign(b"data")).decode().rstrip("=")
    assert pair.public.startswith("N")
    assert nkeys.verify_signature(pair.public, b"data", signature)
    assert not nkeys.verify_signature(pair.public, b"other", signature)


def test_pairs_are_new_each_time_and_of_their_seed() -> None:
    assert SigningKeyPair.generate(KeyKind.SERVER).public != SigningKeyPair.generate(KeyKind.SERVER).public
    assert CurveKeyPair.generate().public != CurveKeyPair.generate().public
    assert (
        SigningKeyPair(KeyKind.ACCOUNT, bytes(32)).public == SigningKeyPair(KeyKind.ACCOUNT, bytes(32)).public
    )
    assert CurveKeyPair(bytes(range(32))).public == ALICE.public


@pytest.mark.parametrize("length", [0, 31, 33])
def test_pair_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="32"):
        SigningKeyPair(KeyKind.SERVER, bytes(length))
    with pytest.raises(ValueError, match="32"):
        CurveKeyPair(bytes(length))


def test_repr_shows_the_public_half_only() -> None:
    seed = b"a very secret seed of 32 bytes.."
    for pair in (SigningKeyPair(KeyKind.SERVER, seed), CurveKeyPair(seed)):
        assert pair.public in repr(pair)
        assert "secret" not in repr(pair)


@given(st.binary(max_size=2000))
def test_sealed_is_opened_by_the_recipient(data: bytes) -> None:
    sealed = ALICE.seal(data, BOB.public)
    assert sealed.startswith(b"xkv1")
    assert len(sealed) == len(data) + SEALED_EXTRA
    assert BOB.open(sealed, ALICE.public) == data


def test_sealed_differs_each_time() -> None:
    assert ALICE.seal(MESSAGE, BOB.public) != SEALED


@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
def test_changed_or_cut_off_is_not_opened(at: int, change: int) -> None:
    changed = bytearray(SEALED)
    changed[at] ^= change
    for sealed in (bytes(changed), SEALED[:at]):
        with pytest.raises(SealError):
            BOB.open(sealed, ALICE.public)


def test_others_cannot_open_it_nor_be_its_sender() -> None:
    for pair, sender in ((EVE, ALICE.public), (BOB, EVE.public)):
        with pytest.raises(SealError, match="could not be decrypted"):
            pair.open(SEALED, sender)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "not a public curve key"),
        ("nonsense", "not a public curve key"),
        (SigningKeyPair(KeyKind.ACCOUNT, bytes(32)).public, "of another kind"),
        (encode_public(KeyKind.CURVE, bytes(32)), "weak"),
    ],
)
def test_key_that_is_no_good_is_one_error(key: str, message: str) -> None:
    with pytest.raises(SealError, match=message):
        ALICE.seal(MESSAGE, key)
    with pytest.raises(SealError, match=message):
        BOB.open(SEALED, key)
