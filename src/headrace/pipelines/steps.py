"""Python steps that ship with the product, for what SQL cannot say; named in a specification as
`headrace.pipelines.steps:function`.

Each takes frames and arguments and gives a frame; nothing is started or stored here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.protocol.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


def deduplicate(
    rows: DataFrame, keys: str | Sequence[str], time: str = "timestamp", within: str = "10m"
) -> DataFrame:
    """The first row of each key; a later one is dropped if it comes less than `within` (such as 10m) after.

    Spark keeps keys for that long (its `dropDuplicatesWithinWatermark`), measured by the column `time`; a row
    that comes later than `within` behind the latest time seen is dropped too.

    Raises: HeadraceError if a column is not there or the duration is none.
    """
    names = [keys] if isinstance(keys, str) else list(keys)
    for name in (*names, time):
        if name not in rows.columns:
            raise HeadraceError(f"deduplicate: no column {name!r} in {', '.join(rows.columns)}")
    try:
        seconds = parse_duration(within)
    except ValueError as error:
        raise HeadraceError(f"deduplicate: within: {within!r} is not a duration: {error}") from error
    if not rows.isStreaming:
        return rows.dropDuplicates(names)
    return rows.withWatermark(time, f"{seconds:.3f} seconds").dropDuplicatesWithinWatermark(names)
