"""Literals: the meaning of an unquoted word as number, size, time, truth value or plain string.

Here lives the meaning of single words. Never lives here: where a word ends, variables.

Sizes: a bare letter counts in thousands, with `b`, `i` or `ib` behind it in 1024s:
    1k = 1000    1kb = 1ki = 1kib = 1024    likewise m g t p e, in any case
A word that starts like a number but goes on differently is a string (`5s`, `12abc`, `10.0.0.1:4222`) where
that cannot be a slip of the pen; `1.5s`, `12-3` and `.5` are refused and want quotes.
Source: the Go server 2.15.1, compared value by value. Beyond it, `-1.5e3` is a number as in JSON.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.conf.tree import ScalarValue

_TRUTH: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INTEGER: Final = r"-?[0-9]+\Z"
_SIZE: Final = r"(?i)(-?[0-9]+)([kmgtpe])([bi]*)\Z"
_FLOAT: Final = r"(?i)-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?\Z"
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z"
_ADDRESS: Final = r"-?[0-9]+\.[0-9]+\.[0-9.:-]*\Z"
_DIGITS_AND_DASH: Final = r"[0-9]+-"
_NEGATIVE_SIZE: Final = r"(?i)-[0-9]+[kmgtpe]"
_DOTTED: Final = r"-?[0-9]+\."
_DIGITS: Final = "0123456789"
_NUMERIC_START: Final = frozenset("-." + _DIGITS)
_SCALES: Final = "kmgtpe"
_BINARY_ENDINGS: Final = frozenset(("b", "i", "ib"))
_INT64: Final = range(-(1 << 63), 1 << 63)

_QUOTE_IT: Final = "put it in quotes if a string is meant"


class LiteralError(ValueError):
    """A word that means nothing; `hint` says how to write what was probably meant."""

    def __init__(self, message: str, hint: str | None = _QUOTE_IT) -> None:
        super().__init__(message)
        self.hint = hint


def meaning(word: str) -> ScalarValue:
    """The value an unquoted word stands for.

    Raises: LiteralError if it starts like a number or a time and is none. The message never repeats the
    word, which may be a password.
    """
    if word[0] in _NUMERIC_START:
        return _numeric(word)
    return _TRUTH.get(word.lower(), word)


def _numeric(word: str) -> ScalarValue:
    if re.match(_INTEGER, word):
        return _bounded(word)
    size = re.match(_SIZE, word)
    if size:
        return _sized(*size.groups())
    if re.match(_FLOAT, word):
        number = float(word)
        return number if math.isfinite(number) else word
    if re.match(_DATE, word):
        return _time(word)
    if re.match(_ADDRESS, word):
        return word
    return _numeric_looking_string(word)


def _numeric_looking_string(word: str) -> str:
    if word[0] == ".":
        raise LiteralError("a number must start with a digit, not with '.'")
    if word[0] == "-" and (len(word) == 1 or word[1] not in _DIGITS):
        raise LiteralError("a digit must follow '-'")
    if re.match(_DIGITS_AND_DASH, word):
        raise LiteralError("a time must have the form 2006-01-02T15:04:05Z")
    if re.match(_DOTTED, word):
        raise LiteralError("this starts like a number or an address and is neither")
    if word[0] == "-" and not re.match(_NEGATIVE_SIZE, word):
        raise LiteralError("this starts like a number and is none")
    return word


def _bounded(digits: str) -> int:
    # Length first: Python refuses to convert thousands of digits, even zeros, since it takes long.
    significant = digits.lstrip("-0") or "0"
    number = int(significant) if len(significant) <= 19 else _INT64.stop + 1
    number = -number if digits[0] == "-" else number
    if number not in _INT64:
        raise LiteralError("the integer does not fit into 64 bits")
    return number


def _sized(digits: str, scale: str, ending: str) -> int:
    ending = ending.lower()
    if ending and ending not in _BINARY_ENDINGS:
        raise LiteralError("unknown size suffix", "sizes end in k, kb, ki or kib, likewise m, g, t, p, e")
    factor: int = (1024 if ending else 1000) ** (_SCALES.index(scale.lower()) + 1)
    number = _bounded(digits) * factor
    if number not in _INT64:
        raise LiteralError("the size does not fit into 64 bits", None)
    return number


def _time(word: str) -> ScalarValue:
    from datetime import datetime

    try:
        return datetime.fromisoformat(word)
    except ValueError:
        raise LiteralError("there is no such time") from None
