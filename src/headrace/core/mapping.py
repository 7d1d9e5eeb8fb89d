"""Subject mappings: where a published subject really goes.

Here lives the choice among the configured mappings and, by weight, among the destinations of one. Never
lives here: the rewriting itself (`subjects.transform`), caches of results.

When several sources match, the most specific wins: tokens are compared from the left, a literal before
`*` before `>`. The Go server takes one of them at random per start (2.15.1), so either is compatible.
Destinations whose weights add up to less than 100 leave the rest to the subject itself, unless the source
is listed as its own destination: then the rest is lost, on purpose.

A server maps by the destinations of its cluster where a source has such, else by those of no cluster. It is
the cluster of the server that a client or leaf node sends to, wherever receivers are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.errors import ConfigError, ConfigProblem
from headrace.subjects import grammar
from headrace.subjects.transform import RandomBelow, SubjectTransform, TransformError, random_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.conf.account_options import SubjectMapping

_WHOLE: Final = 100
LOST: Final = b""
"""The result of `Mappings.map` for a message that the weights lose; no subscription matches it."""


class _Mapping(Struct, frozen=True):
    """One source; `choices` are (upper bound of the draw, transform), the transform None for the rest."""

    source: bytes
    choices: tuple[tuple[int, SubjectTransform | None], ...]

    @property
    def is_weighted(self) -> bool:
        """True if the destination is drawn: neither all nor no messages go to one destination."""
        return len(self.choices) > 1 or (len(self.choices) == 1 and self.choices[0][0] < _WHOLE)

    @property
    def is_random(self) -> bool:
        return self.is_weighted or any(t is not None and t.is_random for _, t in self.choices)


class Mappings:
    """The configured mappings of one account, in a server of `cluster` ("": none); falsy when there are none.

    Raises: ConfigError naming every mapping that is wrong.
    """

    __slots__ = ("_literals", "_random_below", "_wildcards")

    def __init__(
        self,
        mappings: Iterable[SubjectMapping],
        random_below: RandomBelow = random_below,
        *,
        cluster: str = "",
    ) -> None:
        self._random_below = random_below
        by_source: dict[str, list[SubjectMapping]] = {}
        for mapping in mappings:
            by_source.setdefault(mapping.source, []).append(mapping)
        problems: list[ConfigProblem] = []
        self._literals: dict[bytes, _Mapping] = {}
        wildcards: list[_Mapping] = []
        for source, destinations in by_source.items():
            read = _read(source, destinations, cluster, random_below, problems)
            if read is None:
                continue
            if grammar.has_wildcard(read.source):
                wildcards.append(read)
            else:
                self._literals[read.source] = read
        if problems:
            raise ConfigError(problems)
        self._wildcards = tuple(sorted(wildcards, key=lambda mapping: _specificity(mapping.source)))

    def __bool__(self) -> bool:
        return bool(self._literals or self._wildcards)

    def map(self, subject: bytes) -> bytes | None:
        """The subject a message published to `subject` really has; None if no mapping applies.

        `LOST` (empty) when the message goes nowhere.
        """
        mapping = self._find(subject)
        if mapping is None:
            return None
        draw = self._random_below(_WHOLE) if mapping.is_weighted else 0
        for bound, transform in mapping.choices:
            if draw < bound:
                return subject if transform is None else transform.match(subject)
        return LOST

    def is_random(self, subject: bytes) -> bool:
        """True if `map` may answer differently next time, so that its answer must not be kept."""
        mapping = self._find(subject)
        return mapping is not None and mapping.is_random

    def _find(self, subject: bytes) -> _Mapping | None:
        found = self._literals.get(subject)
        if found is not None:
            return found
        return next((m for m in self._wildcards if grammar.is_subset(subject, m.source)), None)


def _specificity(source: bytes) -> list[int]:
    """Sort sources so that of two that can match the same subject the more specific comes first."""
    return [{b"*": 1, b">": 2}.get(token, 0) for token in grammar.tokens(source)]


def _read(
    source: str,
    mappings: Sequence[SubjectMapping],
    cluster: str,
    random_below: RandomBelow,
    problems: list[ConfigProblem],
) -> _Mapping | None:
    subject = source.encode()
    if not grammar.is_valid_subject(subject):
        problems.append(ConfigProblem(f'Subject "{source}" is not a valid subject'))
        return None
    found = len(problems)
    by_cluster: dict[str, list[tuple[int, SubjectTransform | None]]] = {"": []}
    seen: set[str] = set()
    for mapping in mappings:
        destination, weight = mapping.destination, mapping.weight
        if destination in seen:
            problems.append(
                ConfigProblem(f'Error adding mapping for "{source}" : duplicate entry for "{destination}"')
            )
        if not 0 <= weight <= _WHOLE:
            problems.append(ConfigProblem(f"Invalid weight {weight} for mapping destination"))
        seen.add(destination)
        try:
            made = SubjectTransform(subject, destination.encode(), random_below)
            by_cluster.setdefault(mapping.cluster, []).append((weight, made))
        except TransformError as error:
            problems.append(
                ConfigProblem(f'Error adding mapping for "{source}" to "{destination}" : {error}')
            )
    if any(sum(weight for weight, _ in each) > _WHOLE for each in by_cluster.values()):
        problems.append(
            ConfigProblem(f'Error adding mapping for "{source}" : total weight needs to be <= 100')
        )
    if len(problems) > found:
        return None
    weighted = by_cluster.get(cluster, by_cluster[""])
    rest = _WHOLE - sum(weight for weight, _ in weighted)
    if rest and source not in seen:
        weighted.append((rest, None))
    bound, choices = 0, []
    for weight, transform in weighted:
        if weight:
            bound += weight
            choices.append((bound, transform))
    return _Mapping(subject, tuple(choices))
