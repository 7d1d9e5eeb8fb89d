"""Filters: the subjects that a read is about.

Here lives the choice that a list of filters makes, as a predicate; matching itself is
`headrace.subjects.grammar`, and what it is asked about belongs to the logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Iterable

REMEMBERED: Final = 10_000
"""Answers that one filter keeps; then it forgets them all and starts again."""


class SubjectFilter:
    """Calls are true for subjects that at least one filter matches; no filters at all match everything."""

    __slots__ = ("_answers", "everything", "literals", "patterns")

    def __init__(self, filters: Iterable[bytes]) -> None:
        wanted = frozenset(filters)
        self.everything: Final = not wanted
        self.literals: Final = frozenset(filter(grammar.is_valid_literal, wanted))
        """Filters that match themselves and nothing else."""
        self.patterns: Final = tuple(filter(grammar.has_wildcard, wanted))
        self._answers: dict[bytes, bool] = {}

    def __call__(self, subject: bytes) -> bool:
        if self.everything or subject in self.literals:
            return True
        answer = self._answers.get(subject)
        if answer is None:
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            answer = any(grammar.matches(pattern, subject) for pattern in self.patterns)
            self._answers[subject] = answer
        return answer
