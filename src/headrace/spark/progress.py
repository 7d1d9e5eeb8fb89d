"""Progress of a running query, in messages and plain words.

Reads Spark's progress and exceptions; asks no server and changes nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.offsets import BEGAN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.query import StreamingQuery

_OURS: Final = re.compile(r"^(?:\w+: )*headrace\.[\w.]+: (.*)$", re.MULTILINE)


def messages_before(offset: object) -> int | None:
    """Count the messages before an offset, as Spark's progress shows it; None for an offset of another
    source.
    """
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    if not isinstance(offset, dict):
        return None
    counts = [place["next"] - 1 for key, found in offset.items() if key != BEGAN for place in _places(found)]
    return sum(counts) if counts else None


def _places(found: object) -> Iterator[dict[str, Any]]:
    """One place, or one for each of several streams, which may have any names."""
    if isinstance(found, dict):
        for place in (found, *found.values()):
            if isinstance(place, dict) and isinstance(place.get("next"), int):
                yield place


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
