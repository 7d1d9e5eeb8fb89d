"""Subjects and wildcards: what is well formed, what matches what.

Here live pure predicates on subjects as bytes, and the only place where subjects change between bytes
and text. Nothing here is on the per-message path (the compiled engine matches there); permissions,
mappings, monitoring and configuration use these. Never lives here: state, indexes, transforms.

A subject is tokens joined by `.`. As a whole token `*` stands for one token and `>`, last, for one or
more; inside a longer token both are ordinary characters.
Source: client protocol, section 5.
"""

from __future__ import annotations

from typing import Final

_SEPARATOR: Final = b"."
_ANY_TOKEN: Final = b"*"
_ANY_TAIL: Final = b">"
_WHITESPACE: Final = frozenset(b" \t\n\f\r")


def tokens(subject: bytes) -> list[bytes]:
    """The tokens of a subject in order; empty ones are kept, so joining with `.` gives the subject back."""
    return subject.split(_SEPARATOR)


def is_valid_subject(subject: bytes) -> bool:
    """True if a subject can be subscribed to: no empty token, no white space, `>` only as the last token."""
    if not is_sendable(subject):
        return False
    parts = tokens(subject)
    return b"" not in parts and _ANY_TAIL not in parts[:-1]


def has_wildcard(subject: bytes) -> bool:
    """True if any token is `*` or `>`, at any place."""
    parts = tokens(subject)
    return _ANY_TOKEN in parts or _ANY_TAIL in parts


def is_literal(subject: bytes) -> bool:
    """True if no token is a wildcard. Empty tokens are not checked."""
    return not has_wildcard(subject)


def is_valid_literal(subject: bytes) -> bool:
    """True if a pedantic client may publish to a subject: no token is empty or a wildcard."""
    parts = tokens(subject)
    return not (b"" in parts or _ANY_TOKEN in parts or _ANY_TAIL in parts)


def is_sendable(subject: bytes) -> bool:
    """True if a message's line can have this subject: it is not empty and has no white space."""
    return bool(subject) and _WHITESPACE.isdisjoint(subject)


def is_subset(narrow: bytes, wide: bytes) -> bool:
    """True if every subject that `narrow` matches is matched by `wide` too.

    `narrow` may be a literal; then this asks whether `wide` matches it. A subject with an empty token,
    or with `>` before its end, is subset of nothing and contains nothing.
    """
    inner, outer = tokens(narrow), tokens(wide)
    for position, token in enumerate(outer):
        if position >= len(inner):
            return False
        if token == _ANY_TAIL:
            break
        if inner[position] == _ANY_TAIL:
            return False
        if token not in (_ANY_TOKEN, inner[position]):
            return False
    else:
        if len(inner) != len(outer):
            return False
    return is_valid_subject(narrow) and is_valid_subject(wide)  # last: mostly the answer is no by now


def matches(pattern: bytes, literal: bytes) -> bool:
    """True if a subscription to `pattern` receives a message published to `literal`.

    Wildcard characters in `literal` are ordinary characters here: a message published to `a.*` reaches
    subscriptions to `a.*` and `a.>` and none to `a.b`. A subject with an empty token reaches nobody.
    """
    wanted, given = tokens(pattern), tokens(literal)
    if b"" in given:
        return False
    for position, token in enumerate(wanted):
        if position >= len(given):
            return False
        if token == _ANY_TAIL and position == len(wanted) - 1:
            return True
        if token not in (_ANY_TOKEN, given[position]):
            return False
    return len(wanted) == len(given)


def overlaps(first: bytes, second: bytes) -> bool:
    """True if some subject is matched by both patterns, so that subscriptions to them can collide."""
    left, right = tokens(first), tokens(second)
    for one, other in zip(left, right, strict=False):
        if _ANY_TAIL in (one, other):
            break
        if one != other and _ANY_TOKEN not in (one, other):
            return False
    else:
        if len(left) != len(right):
            return False
    return is_valid_subject(first) and is_valid_subject(second)  # last, as above
