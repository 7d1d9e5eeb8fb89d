"""Subject transforms: rewrite a subject that matches a source pattern into a destination.

Here live the destination language and its evaluation, pure except for an injected source of randomness.
Never lives here: which mapping applies (`core.mapping`), caches.

A destination is tokens joined by `.`, each of them one of
    literal                      itself
    `>`                          last, when the source ends with `>`: the rest of the subject
    `$n`, `{{wildcard(n)}}`      what the n-th `*` of the source stood for (from 1)
    `{{partition(count, n, …)}}` FNV-1a (32 bit) of those tokens, or of the whole subject, modulo count
    `{{random(count)}}`          0 to count - 1
    `{{split(n, text)}}`         the token split at each `text`, empty parts left out
    `{{splitFromLeft(n, at)}}`, `{{splitFromRight(n, at)}}`        the token cut in two
    `{{sliceFromLeft(n, size)}}`, `{{sliceFromRight(n, size)}}`    the token cut into pieces
    `{{left(n, size)}}`, `{{right(n, size)}}`                      one end of the token
A token too short to be cut stays whole. Each word of a function's name may start with a capital.

Source: results and error texts compared with the Go server 2.15.1. It takes an index of 0 or less for
the first token of the subject, and accepts negative counts; here both are errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from headrace.errors import HeadraceError
from headrace.subjects import grammar

RandomBelow: TypeAlias = Callable[[int], int]
"""Gives a number from 0 to its argument minus 1, as `random.randrange` does."""

_Piece: TypeAlias = Callable[[list[bytes]], bytes]
_Cut: TypeAlias = Callable[[bytes, int], bytes]

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_INT32: Final = range(-(2**31), 2**31)

_INTEGER: Final = rb"[+-]?[0-9]+\Z"
_CALL: Final = rb"(?s)\{\{\s*([A-Za-z]+)\s*\((.*)\)\s*\}\}\Z"
_ARGUMENT_SEPARATOR: Final = rb",\s*"
_WHITESPACE: Final = frozenset(b" \t\n\f\r")


def random_below(most: int) -> int:
    """A number from 0 to one below `most`."""
    import random  # few subjects are rewritten by chance

    return random.randrange(most)


class TransformError(HeadraceError):
    """A source or destination that makes no transform; the text says which token is wrong and how."""


class _PieceError(Exception):
    """An error in one destination token; it becomes a TransformError that names the token."""


class SubjectTransform:
    """Rewrites subjects that match `source` into `destination`.

    Raises: TransformError if either is malformed or they do not fit together.
    """

    __slots__ = ("_has_tail", "_pieces", "_tail_start", "destination", "is_random", "source")

    def __init__(self, source: bytes, destination: bytes, random_below: RandomBelow = random_below) -> None:
        if not grammar.is_valid_subject(source):
            raise TransformError("invalid subject")
        wanted, given = grammar.tokens(destination), grammar.tokens(source)
        _check_destination(wanted)
        self._has_tail = given[-1] == b">"
        if self._has_tail != (wanted[-1] == b">") or b"*" in wanted:
            raise TransformError("invalid subject")
        self.source: Final = source
        self.destination: Final = destination
        self._tail_start = len(given) - 1
        wildcards = [position for position, token in enumerate(given) if token == b"*"]
        builder = _PieceBuilder(wildcards, random_below, has_tail=self._has_tail)
        self._pieces = [builder.build(token) for token in (wanted[:-1] if self._has_tail else wanted)]
        self.is_random: Final[bool] = builder.used_random
        """True if one subject may be rewritten differently each time."""

    def match(self, subject: bytes) -> bytes | None:
        """The rewritten subject, or None if `subject` is not matched by the source."""
        if not grammar.is_subset(subject, self.source):
            return None
        parts = grammar.tokens(subject)
        rewritten = [piece(parts) for piece in self._pieces]
        if self._has_tail:
            rewritten.extend(parts[self._tail_start :])
        return b".".join(rewritten)


def fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash, which decides partitions."""
    value = _FNV_OFFSET
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value


class _PieceBuilder:
    """Turns the tokens of one destination into functions of the subject's tokens."""

    def __init__(self, wildcards: list[int], random_below: RandomBelow, *, has_tail: bool) -> None:
        self._wildcards = wildcards
        self._has_places = bool(wildcards) or has_tail
        self._random_below = random_below
        self.used_random = False

    def build(self, token: bytes) -> _Piece:
        try:
            return self._build(token)
        except _PieceError as problem:
            reason, _, detail = str(problem).partition(": ")
            text = token.decode(errors="replace") + (f": {detail}" if detail else "")
            raise TransformError(f"invalid mapping destination: {reason} in {text}") from None

    def _build(self, token: bytes) -> _Piece:
        if token.startswith(b"$") and re.match(_INTEGER, token[1:]):
            return self._wildcard([token[1:]])
        if len(token) <= 4 or not (token.startswith(b"{{") and token.endswith(b"}}")):
            return lambda _: token
        call = re.match(_CALL, token)
        if call is None:
            raise _PieceError("unknown function")
        arguments = re.split(_ARGUMENT_SEPARATOR, call[2])
        functions: dict[str, Callable[[list[bytes]], _Piece]] = {
            "wildcard": self._wildcard,
            "partition": self._partition,
            "random": self._random,
            "split": self._split,
            **{name: partial(self._cut, cut) for name, cut in _CUTS.items()},
        }
        for name, build in functions.items():
            if _is_named(call[1], name):
                return build(arguments)
        raise _PieceError("unknown function")

    def _wildcard(self, arguments: list[bytes]) -> _Piece:
        if arguments == [b""]:
            raise _PieceError("not enough arguments passed to the function")
        _expect_count(arguments, 1)
        position = self._position(arguments[0])
        return lambda parts: parts[position]

    def _partition(self, arguments: list[bytes]) -> _Piece:
        count = _count(arguments[0])
        # Without wildcards in the source there is nothing to choose from: the whole subject counts.
        positions = [self._position(argument) for argument in arguments[1:] if self._has_places]

        def partition(parts: list[bytes]) -> bytes:
            key = b"".join(parts[position] for position in positions) if positions else b".".join(parts)
            return b"%d" % (fnv1a(key) % count if count else 0)

        return partition

    def _random(self, arguments: list[bytes]) -> _Piece:
        _expect_count(arguments, 1)
        count = _count(arguments[0])
        self.used_random = True
        random_below = self._random_below
        return lambda _: b"%d" % (random_below(count) if count else 0)

    def _split(self, arguments: list[bytes]) -> _Piece:
        _expect_count(arguments, 2)
        position, separator = self._position(arguments[0]), arguments[1]
        if b" " in separator:
            raise _PieceError("function argument is invalid or in the wrong format")

        def split(parts: list[bytes]) -> bytes:
            token = parts[position]
            pieces = token.split(separator) if separator else _characters(token)
            return b".".join(filter(None, pieces))

        return split

    def _cut(self, cut: _Cut, arguments: list[bytes]) -> _Piece:
        _expect_count(arguments, 2)
        position, size = self._position(arguments[0]), _integer(arguments[1])

        def cut_token(parts: list[bytes]) -> bytes:
            token = parts[position]
            return cut(token, size) if 0 < size < len(token) else token

        return cut_token

    def _position(self, argument: bytes) -> int:
        """Return the position of the source's n-th wildcard among the tokens of the subject."""
        index = _integer(argument)
        if not 1 <= index <= len(self._wildcards):
            raise _PieceError("wildcard index out of range" + (f": [{index}]" if self._has_places else ""))
        return self._wildcards[index - 1]


def _characters(token: bytes) -> list[bytes]:
    """The UTF-8 characters of a token; bytes that belong to none stand for themselves."""
    text = token.decode("utf-8", "surrogateescape")
    return [character.encode("utf-8", "surrogateescape") for character in text]


def _slice_left(token: bytes, size: int) -> bytes:
    return b".".join(token[start : start + size] for start in range(0, len(token), size))


def _slice_right(token: bytes, size: int) -> bytes:
    first = len(token) % size
    pieces = [token[:first]] if first else []
    pieces.extend(token[start : start + size] for start in range(first, len(token), size))
    return b".".join(pieces)


# Called only with 0 < size < len(token).
_CUTS: Final[dict[str, _Cut]] = {
    "split_from_left": lambda token, at: token[:at] + b"." + token[at:],
    "split_from_right": lambda token, at: token[:-at] + b"." + token[-at:],
    "slice_from_left": _slice_left,
    "slice_from_right": _slice_right,
    "left": lambda token, size: token[:size],
    "right": lambda token, size: token[-size:],
}


def _is_named(given: bytes, name: str) -> bool:
    """True if a text is this name, with its words run together and each in either case."""
    text, words = given.decode(), name.split("_")
    if text.lower() != "".join(words):
        return False
    at = 0
    for word in words:
        if text[at + 1 : at + len(word)] != word[1:]:
            return False
        at += len(word)
    return True


def _check_destination(parts: list[bytes]) -> None:
    for position, token in enumerate(parts):
        is_call = len(token) > 4 and token.startswith(b"{{") and token.endswith(b"}}")
        misplaced_tail = token == b">" and position != len(parts) - 1
        if not token or misplaced_tail or not (is_call or _WHITESPACE.isdisjoint(token)):
            raise TransformError("invalid mapping destination: invalid transform")


def _expect_count(arguments: list[bytes], count: int) -> None:
    if len(arguments) < count:
        raise _PieceError("not enough arguments passed to the function")
    if len(arguments) > count:
        raise _PieceError("too many arguments passed to the function")


def _integer(argument: bytes) -> int:
    text = argument.strip(b" ")
    if not re.match(_INTEGER, text) or int(text) not in _INT32:
        raise _PieceError("function argument is invalid or in the wrong format")
    return int(text)


def _count(argument: bytes) -> int:
    count = _integer(argument)
    if count < 0:
        raise _PieceError("function argument is invalid or in the wrong format")
    return count
