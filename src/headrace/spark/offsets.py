"""Offsets of this source in Spark's checkpoint, and the ranges between two of them.

Core subjects: `{"v": 1, "core": {"capture": "<id>", "next": <sequence>}}`; `next` is the first sequence not
yet read and `capture` names the run that holds the messages, because core subjects cannot be read again.
Stored streams: `{"v": 1, "channels": {"<name>": {"next": <sequence>, "created": <id or null>}}}` for STAN
channels, with the key `streams` for JetStream streams; `created` tells a stream from one of the same name
made after it was deleted, null: there was none yet. The end of a query's first batch says under `began`
where that batch begins, in the same words: Spark keeps the ends of batches only, and asks anew where to begin
when it has to repeat the first one.
What is reported as the latest offset, for the query's progress only, says under `behind` what of each stream
waits behind the end of the batch.
Later selections use other keys beside `v`, so that a checkpoint can never be continued by the wrong kind of
source. Spark compares the JSON: keys keep their order, no floats. No server is asked here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.errors import DataLossError
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

VERSION: Final = 1
BEGAN: Final = "began"
"""The key, beside the end of a query's first batch, for where that batch begins."""
BEHIND: Final = "behind"
"""The key, beside the latest offset, for what waits of each stream."""


@dataclass(frozen=True, slots=True)
class CoreOffset:
    """A place in one capture of core subjects."""

    capture: str
    next: int

    def to_json(self) -> dict[str, Any]:
        return {"v": VERSION, "core": {"capture": self.capture, "next": self.next}}

    @classmethod
    def from_json(cls, offset: dict[str, Any]) -> CoreOffset:
        """Read the offset of a checkpoint.

        Raises: DataLossError if it is not one of a core subject source.
        """
        core = _fields(offset, "core")
        if core is None:
            raise DataLossError(
                f"the checkpoint holds the offset {offset}, which was not written by a source that reads "
                "core subjects; give this query a checkpointLocation of its own"
            )
        try:
            return cls(str(core["capture"]), _sequence(core["next"]))
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(offset) from error


@dataclass(frozen=True, slots=True)
class StoredKind:
    """A kind of stored stream: the word for one, which is the option that selects it, its key in offsets."""

    word: str
    key: str
    title: str

    def is_pattern(self, text: str) -> bool:
        """True if the text of an option may mean several streams."""
        raise NotImplementedError

    def matches(self, pattern: str, name: str) -> bool:
        """True if a pattern matches a name."""
        raise NotImplementedError

    def chosen(self, wanted: Sequence[str], known: Iterable[str]) -> list[str]:
        """The names that are wanted, each once: as they are, and in place of a pattern those it means."""
        names: dict[str, None] = {}
        there = sorted(known)
        for one in wanted:
            found = [name for name in there if self.matches(one, name)] if self.is_pattern(one) else [one]
            names |= dict.fromkeys(found)
        return list(names)


class _Channels(StoredKind):
    """Patterns are subjects with wildcards."""

    def is_pattern(self, text: str) -> bool:
        return not {"*", ">"}.isdisjoint(text.split("."))

    def matches(self, pattern: str, name: str) -> bool:
        return matches(pattern.encode(), name.encode("utf-8", "surrogateescape"))


class _Streams(StoredKind):
    """The offsets of several streams; in their patterns `*` stands for any text."""

    def is_pattern(self, text: str) -> bool:
        return "*" in text

    def matches(self, pattern: str, name: str) -> bool:
        return fnmatchcase(name, pattern)


CHANNEL: Final = _Channels("channel", "channels", "STAN channels")
STREAM: Final = _Streams("stream", "streams", "JetStream streams")


@dataclass(frozen=True, slots=True)
class Place:
    """The first sequence of a stream not yet read, in which incarnation of it (None: none was there)."""

    next: int
    created: int | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """The messages of a stream that wait behind the end of a batch: how many sequences, and the ms since the
    first of them was stored (0: none waits; None: not known).
    """

    messages: int
    ms: int | None


@dataclass(frozen=True, slots=True)
class StoredRange:
    """The sequences [first, end) of one incarnation of a stored stream."""

    name: str
    first: int
    end: int
    created: int | None


def places_to_json(
    kind: StoredKind, places: Mapping[str, Place], began: Mapping[str, Place] | None = None
) -> dict[str, Any]:
    """The offset, streams in the order of the mapping; `began` for the end of a query's first batch."""
    offset = {"v": VERSION, kind.key: _named(places)}
    return offset if began is None else offset | {BEGAN: _named(began)}


def latest_to_json(
    kind: StoredKind, places: Mapping[str, Place], behind: Mapping[str, Backlog]
) -> dict[str, Any]:
    """The latest offset as it is reported, with what waits."""
    waits = {name: {"messages": one.messages, "ms": one.ms} for name, one in behind.items()}
    return places_to_json(kind, places) | {BEHIND: waits}


def batch_places(
    kind: StoredKind, start: dict[str, Any], end: dict[str, Any], names: Sequence[str]
) -> tuple[dict[str, Place], dict[str, Place]]:
    """Return the places where a batch begins and ends. Raises: DataLossError as `places_from_json`.

    `start` of a query's first batch is where a new query would begin now; what was planned counts. Of a batch
    from an end to itself nothing was planned.
    """
    ends = places_from_json(kind, end, names)
    if BEGAN in end and start != end:
        start = {"v": VERSION, kind.key: end[BEGAN]}
    return places_from_json(kind, start, names), ends


def places_from_json(kind: StoredKind, offset: dict[str, Any], names: Sequence[str]) -> dict[str, Place]:
    """Read the place of each stream from an offset; of patterns, of each stream that matched then.

    Raises: DataLossError if the checkpoint is not one of theirs.
    """
    found = _fields(offset, kind.key)
    if found is None:
        raise DataLossError(
            f"the checkpoint holds the offset {offset}, which was not written by a source that reads "
            f"{kind.title}; give this query a checkpointLocation of its own"
        )
    fixed = {name for name in names if not kind.is_pattern(name)}
    others = [name for name in found if name not in fixed]
    if not fixed <= set(found) or any(not _is_meant(kind, names, name) for name in others):
        raise DataLossError(
            f"the checkpoint is one of the {kind.key} {', '.join(found)}, option {kind.word} says "
            f"{', '.join(names)}; give this query a checkpointLocation of its own"
        )
    try:
        return {name: _place(found[name]) for name in (*(name for name in names if name in fixed), *others)}
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(offset) from error


def _named(places: Mapping[str, Place]) -> dict[str, Any]:
    return {name: {"next": place.next, "created": place.created} for name, place in places.items()}


def _fields(offset: object, key: str) -> dict[str, Any] | None:
    """Return what an offset of this version has under a key; None for any other content of a checkpoint."""
    found = offset.get(key) if isinstance(offset, dict) and offset.get("v") == VERSION else None
    return found if isinstance(found, dict) else None


def _is_meant(kind: StoredKind, names: Sequence[str], name: str) -> bool:
    return any(kind.is_pattern(one) and kind.matches(one, name) for one in names)


def _place(fields: dict[str, Any]) -> Place:
    created = fields["created"]
    return Place(_sequence(fields["next"]), None if created is None else int(created))


def _sequence(value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is no sequence")
    return value


def _damaged(offset: object) -> DataLossError:
    return DataLossError(
        f"the checkpoint holds the offset {offset}, which is damaged; give this query a new "
        "checkpointLocation"
    )


def range_between(name: str, start: Place, end: Place) -> StoredRange:
    """Return the range that a batch from `start` to `end` reads; of a stream made again, all from its first
    message on.
    """
    first = start.next if start.created is None or start.created == end.created else 1
    return StoredRange(name, first, max(first, end.next), end.created)


def split(whole: StoredRange, pieces: int) -> list[StoredRange]:
    """The range in so many pieces of about equal width; none of them is empty, so there may be fewer."""
    width = whole.end - whole.first
    count = min(pieces, width)
    edges = [whole.first + width * piece // count for piece in range(count + 1)] if count else []
    return [StoredRange(whole.name, low, high, whole.created) for low, high in itertools.pairwise(edges)]


def shared_limit(widths: Mapping[str, int], limit: int) -> dict[str, int]:
    """Share a limit among streams, in proportion to their waiting messages.

    Adds up to the limit, or to everything if that is less. What rounding leaves goes to those with least.
    """
    total = sum(widths.values())
    if total <= limit:
        return dict(widths)
    shares = {name: width * limit // total for name, width in widths.items()}
    left = limit - sum(shares.values())
    for name in sorted(widths, key=lambda name: (shares[name], -widths[name])):
        extra = min(left, widths[name] - shares[name], 1)
        shares[name] += extra
        left -= extra
    return shares
