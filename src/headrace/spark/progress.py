"""Progress of a running query, in messages and plain words, by stream.

Reads Spark's progress and exceptions; asks no server and changes nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.offsets import BEGAN, BEHIND, VERSION, Place, range_between

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

_OURS: Final = re.compile(r"^(?:\w+: )*headrace\.[\w.]+: (.*)$", re.MULTILINE)


def messages_before(offset: object) -> int | None:
    """Count the messages before an offset, as Spark's progress shows it; None for an offset of another
    source.
    """
    counts = [place.next - 1 for place in _places(_document(offset)).values()]
    return sum(counts) if counts else None


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """One micro-batch in one stream or channel; that of core subjects is called `core`.

    `messages` are sequences, those passed over by filters and those that were deleted too. `lag` is how many
    waited behind the batch when it was planned, `lag_seconds` how long the first of them had been stored by
    then; None where the source does not know.
    """

    name: str
    messages: int
    lag: int | None
    lag_seconds: float | None


def stream_progress(progress: Mapping[str, Any]) -> list[StreamProgress]:
    """The streams of all sources of a query, from `query.lastProgress`; one that several sources read is
    there several times.
    """
    return [one for source in progress.get("sources", ()) for one in _source_progress(source)]


def _source_progress(source: Mapping[str, Any]) -> Iterator[StreamProgress]:
    start, end, latest = (
        _document(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset")
    )
    begins = _places(start) or _places({"": end.get(BEGAN)})
    ends, newest, behind = _places(end), _places(latest), latest.get(BEHIND, {})
    nothing = Place(1, None)  # of what wildcards mean since
    for name in {**newest, **ends} if ends else ():
        place = ends.get(name, nothing)
        read = range_between(name, begins.get(name, nothing), place)
        waits = range_between(name, place, newest[name]) if name in newest else None
        ms = behind.get(name, {}).get("ms")
        yield StreamProgress(
            name,
            read.end - read.first,
            None if waits is None else waits.end - waits.first,
            None if ms is None else ms / 1000,
        )


def _document(offset: object) -> dict[str, Any]:
    """An offset as Spark's progress shows it; nothing for one of a source that is not ours."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    return offset if isinstance(offset, dict) and offset.get("v") == VERSION else {}


def _places(document: Mapping[str, Any]) -> dict[str, Place]:
    """The places by stream; where there is one only, by what it is a place of."""
    found: dict[str, Place] = {}
    for key, given in document.items():
        if key in (BEGAN, BEHIND) or not isinstance(given, dict):
            continue
        named = {key: given} if isinstance(given.get("next"), int) else given
        for name, place in named.items():
            if isinstance(place, dict) and isinstance(place.get("next"), int):
                found[name] = Place(place["next"], place.get("created"))
    return found


def failure_text(error: BaseException) -> str:
    """The one sentence of ours inside what Spark raises, or all of Spark's if none is ours."""
    found = _OURS.findall(str(error))
    return found[-1] if found else str(error)


@dataclass(slots=True)
class QueryCounts:
    """Messages a query has received and processed; `update` it at least once in 100 batches."""

    query: StreamingQuery
    received: int = 0
    rows: dict[int, int] = field(default_factory=dict)

    @property
    def processed(self) -> int:
        return sum(self.rows.values())

    @property
    def is_live(self) -> bool:
        """True once the first batch is done, which is only after the source has begun to listen."""
        return bool(self.rows)

    def update(self) -> None:
        """Read the progress. Raises: StreamingQueryException if the query has failed."""
        failure = self.query.exception()
        if failure is not None:
            raise failure
        for progress in self.query.recentProgress:
            self.rows[progress.batchId] = progress.numInputRows
            self.received = max(self.received, messages_before(progress.sources[0].latestOffset) or 0)
