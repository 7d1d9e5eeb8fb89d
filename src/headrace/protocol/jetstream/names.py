"""Names in JetStream: which ones are allowed.

Source: nats-server 2.15.1: streams and consumers may not have white space, `.`, `*`, `>`, `/` or a backslash.
Other control characters are refused here too: names are parts of subjects.
"""

from __future__ import annotations

import re
from typing import Final

MAX_LENGTH: Final = 255
"""The longest name of a stream or consumer, in bytes."""

_NOT_IN_NAMES: Final = frozenset([*".*>\\/", *map(chr, range(ord(" ") + 1))])
_GROUP: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")


def is_asset_name(name: str) -> bool:
    """True if a stream or consumer may have this name, apart from its length."""
    return bool(name) and _NOT_IN_NAMES.isdisjoint(name)


def is_group_name(name: str) -> bool:
    """True if a priority group may have this name."""
    return _GROUP.fullmatch(name) is not None
