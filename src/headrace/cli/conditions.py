"""Conditions of `--where`: a key of a document, a comparison and a value, such as `state.messages>1000`.

Here lives how one is read and when it is true. Never lives here: documents.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CONDITION: Final = r"([^=!<>]+?)\s*(<=|>=|!=|=|<|>)\s*(.*)"
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING: Final = object()


class FieldCondition:
    """A condition on one field of a document."""

    def __init__(self, text: str) -> None:
        """Read a condition. Raises: CommandError (wrong use)."""
        match = re.fullmatch(_CONDITION, text, re.DOTALL)
        if match is None:
            raise CommandError(f"--where {text!r}: not a condition such as KEY=VALUE", ExitCode.WRONG_USE)
        self._path = match[1].strip().split(".")
        self._sign = match[2]
        self._wanted = match[3]

    def holds(self, document: Any) -> bool:
        """True if the document has the field and its value compares so; a missing field is only not equal.

        A list is equal to each of its items.
        """
        value = self._value(document)
        if isinstance(value, list):
            is_there = self._wanted in map(str, value)
            return is_there if self._sign == "=" else self._sign == "!=" and not is_there
        pair = self._pair(value)
        return self._sign == "!=" if pair is None else _COMPARISONS[self._sign](*pair)

    def _pair(self, value: Any) -> tuple[Any, Any] | None:
        """The value and the one that is wanted, of one type; None if they cannot be compared."""
        if isinstance(value, str):
            return value, self._wanted
        if isinstance(value, bool) or value is None:
            return {True: "true", False: "false", None: "null"}[value], self._wanted
        if not isinstance(value, int | float):
            return None
        try:
            return value, float(self._wanted) if "." in self._wanted else int(self._wanted)
        except ValueError:
            return None

    def _value(self, document: Any) -> Any:
        found = document
        for name in self._path:
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            else:
                return _MISSING
        return found


def conditions(texts: Iterable[str] | None) -> list[FieldCondition]:
    """Return the conditions of a flag that may be given several times. Raises: CommandError."""
    return [FieldCondition(text) for text in texts or ()]
