"""Names in JetStream: which ones are allowed, and new ones that nobody has.

Source: nats-server 2.15.1: streams and consumers may not have white space, `.`, `*`, `>`, `/` or a backslash.
"""

from __future__ import annotations

import re
import secrets
import string
from typing import Final

MAX_LENGTH: Final = 255
"""Of a stream's or consumer's name, in bytes."""

_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_NOT_IN_NAMES: Final = frozenset(" \t\r\n\f.*>\\/")
_GROUP: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")


def is_asset_name(name: str) -> bool:
    """Whether a stream or consumer may be called so, its length aside."""
    return bool(name) and _NOT_IN_NAMES.isdisjoint(name)


def is_group_name(name: str) -> bool:
    """Whether a priority group may be called so."""
    return _GROUP.fullmatch(name) is not None


def new_nuid() -> str:
    """22 letters and digits that tell one event from all others."""
    return _random(22)


def new_consumer_name() -> str:
    """8 letters and digits, for a consumer whose client named none."""
    return _random(8)


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
