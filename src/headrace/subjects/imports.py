"""Imported subjects: what an exported subject is called in the account that imports it, and back.

Here lives the translation of one import, both ways, and of subscriptions that want a part of it. Never lives
here: who may import what (`conf.accounts`), caches (the engine has them).

The local subject is written like the destination of a mapping, but only so that it can be undone: `$n`,
`{{wildcard(n)}}` or `*` (the next one in order) stand for the n-th `*` of the exported subject, each exactly
once, and `>` ends both or none. A service with a subject without wildcards may have any pattern here.
Source: results and error texts compared with the Go server 2.15.1, which takes a wildcard twice and then
panics on the first subscription; here that is an error.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import HeadraceError
from headrace.subjects import grammar

_WILDCARD: Final = rb"\$([0-9]{1,9})\Z|\{\{\s*[wW]ildcard\s*\(\s*([0-9]{1,9})\s*\)\s*\}\}\Z"
_ANY: Final = b"*"
_TAIL: Final = b">"


class BadImport(HeadraceError):
    """A local subject that cannot stand for the exported one; the text says why."""


class ImportedSubject:
    """One import's pair of subjects: `exported` there, `local` (a pattern without `$n`) here.

    Raises: BadImport if they do not fit together.
    """

    __slots__ = ("_order", "_parts", "exported", "is_same", "local")

    def __init__(self, exported: bytes, local: bytes) -> None:
        if not grammar.is_valid_subject(exported):
            raise BadImport("invalid subject")
        given = grammar.tokens(exported)
        count = given.count(_ANY)
        parts: list[bytes | int] = []
        for token in grammar.tokens(local):
            parts.append(_part(token, len([p for p in parts if isinstance(p, int)])))
        pattern = b".".join(_ANY if isinstance(part, int) else part for part in parts)
        if not grammar.is_valid_subject(pattern) or (parts[-1] == _TAIL) != (given[-1] == _TAIL):
            raise BadImport("invalid subject")
        used = [part for part in parts if isinstance(part, int)]
        text = local.decode(errors="replace")
        if any(not 0 <= number < count for number in used):
            raise BadImport(f"invalid mapping destination: wildcard index out of range in {text}")
        if len(set(used)) != len(used):
            raise BadImport(f"invalid mapping destination: a token wildcard is used twice in {text}")
        if len(used) != count:
            raise BadImport(f"invalid mapping destination: not using all of the token wildcard(s) in {text}")
        self.exported: Final = exported
        self.local: Final = pattern
        self.is_same: Final[bool] = exported == pattern and used == sorted(used)
        places = [place for place, token in enumerate(given) if token == _ANY]
        # For each local token: itself, or where in the exported subject it comes from; and back.
        self._parts: Final = _sources(parts, dict(enumerate(places)))
        homes = {number: place for place, number in enumerate(parts) if isinstance(number, int)}
        counter = iter(range(count))
        numbered: list[bytes | int] = [next(counter) if token == _ANY else token for token in given]
        self._order: Final = _sources(numbered, homes)

    def to_local(self, subject: bytes) -> bytes:
        """Translate a subject of the exporting account, which the export matches, into the local one."""
        return subject if self.is_same else _rewritten(subject, self.exported, self._parts)

    def to_exported(self, subject: bytes) -> bytes:
        """Translate a local subject, which the import's local one matches, into that of the exporting
        account.
        """
        return subject if self.is_same else _rewritten(subject, self.local, self._order)

    def wanted_by(self, subscription: bytes) -> bytes | None:
        """The exported subjects that a local subscription can receive, as one pattern; None: none."""
        common = intersection(self.local, subscription)
        if common is None:
            return None
        if self.is_same:
            return common
        # What is common is never wider than the local pattern, and has its tokens in the same places.
        return _rewritten(common, self.local, self._order)


class SingleSubject:
    """A service with one subject there and a pattern of them here: all that is asked for goes to that one.

    Raises: BadImport if they are no subjects.
    """

    __slots__ = ("exported", "local")

    def __init__(self, exported: bytes, local: bytes) -> None:
        if not grammar.is_valid_subject(exported) or not grammar.is_valid_subject(local):
            raise BadImport("invalid subject")
        if any(isinstance(_part(token, 0), int) for token in grammar.tokens(local) if token != _ANY):
            text = local.decode(errors="replace")
            raise BadImport(f"invalid mapping destination: wildcard index out of range in {text}")
        self.exported: Final = exported
        self.local: Final = local

    def to_exported(self, _subject: bytes) -> bytes:
        """Translate a local subject, which the import's local one matches, into that of the exporting
        account.
        """
        return self.exported


def intersection(first: bytes, second: bytes) -> bytes | None:
    """The pattern that matches what both patterns match; None where nothing can be matched by both."""
    left, right = grammar.tokens(first), grammar.tokens(second)
    common: list[bytes] = []
    for place in range(max(len(left), len(right))):
        one = left[place] if place < len(left) else b""
        other = right[place] if place < len(right) else b""
        if _TAIL in (one, other):
            rest = right[place:] if one == _TAIL else left[place:]
            return b".".join(common + rest) if rest else None
        if not one or not other or (one != other and _ANY not in (one, other)):
            return None
        common.append(other if one == _ANY else one)
    return b".".join(common)


def _part(token: bytes, before: int) -> bytes | int:
    """A literal token or `>` as it is, a wildcard as its number from 0."""
    if token == _ANY:
        return before
    found = re.match(_WILDCARD, token)
    if found is not None:
        return int(found[1] or found[2]) - 1
    if token.startswith(b"{{") and token.endswith(b"}}"):
        text = token.decode(errors="replace")
        raise BadImport(
            "invalid mapping destination: the only mapping function allowed for import transforms is "
            f"{{{{wildcard()}}}}, not {text}"
        )
    return token


def _sources(parts: list[bytes | int], places: dict[int, int]) -> tuple[bytes | int, ...]:
    return tuple(places[part] if isinstance(part, int) else part for part in parts)


def _rewritten(subject: bytes, pattern: bytes, parts: tuple[bytes | int, ...]) -> bytes:
    given = grammar.tokens(subject)
    made = [given[part] if isinstance(part, int) else part for part in parts]
    if parts[-1] == _TAIL:
        made[-1:] = given[len(grammar.tokens(pattern)) - 1 :]
    return b".".join(made)
