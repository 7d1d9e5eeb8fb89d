"""Predicates of names: well-formed subjects, public nkeys of users and accounts.

Here live predicates that configuration needs before the packages that own these ideas are loaded:
`headrace.subjects` and `headrace.protocol` lie above this one. Never lives here: matching, signatures.
Source: client protocol, sections 5 and 8.
"""

from __future__ import annotations

import re
from base64 import b32decode
from binascii import crc_hqx
from typing import Final

_WHITE_SPACE: Final = frozenset(" \t\n\f\r")
_NKEY: Final = r"[A-Z2-7]{56}\Z"
_USER_PREFIX: Final = 20 << 3
_ACCOUNT_PREFIX: Final = 0
_SEED_PREFIX: Final = 18 << 3
_SEED: Final = r"S[A-Z2-7]{57}\Z"


def is_valid_subject(subject: str) -> bool:
    """True if every token is non-empty and without white space, and `>` is at most the last one."""
    if not subject or not _WHITE_SPACE.isdisjoint(subject):
        return False
    tokens = subject.split(".")
    return "" not in tokens and ">" not in tokens[:-1]


def is_user_nkey(text: str) -> bool:
    """True if a text is a user's public key: `U…`, 56 characters, with a right checksum."""
    return _is_nkey(text, _USER_PREFIX)


def is_account_nkey(text: str) -> bool:
    """True if a text is an account's public key: `A…`, 56 characters, with a right checksum."""
    return _is_nkey(text, _ACCOUNT_PREFIX)


def is_user_seed(text: str) -> bool:
    """True if a text is a user's seed: `SU…`, 58 characters, with a right checksum."""
    if not re.match(_SEED, text):
        return False
    raw = b32decode(text + "=" * (-len(text) % 8))
    kind = (raw[0] & 7) << 5 | raw[1] >> 3
    is_right = crc_hqx(raw[:-2], 0) == int.from_bytes(raw[-2:], "little")
    return is_right and raw[0] & 0xF8 == _SEED_PREFIX and kind == _USER_PREFIX


def _is_nkey(text: str, prefix: int) -> bool:
    if not re.match(_NKEY, text):
        return False
    raw = b32decode(text)
    return raw[0] == prefix and crc_hqx(raw[:-2], 0) == int.from_bytes(raw[-2:], "little")
