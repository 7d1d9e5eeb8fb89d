"""Progress of queries as Spark writes it."""

from __future__ import annotations

import json
from typing import Any

from headrace.spark.query_state import WRITTEN


def progress(
    batch: int, rows: int, end: int = 0, latest: int = 0, *, rate: float = 100.0, written: int | None = None
) -> dict[str, Any]:
    def offset(following: int) -> str:
        return json.dumps(at(a=following))

    return {
        "batchId": batch,
        "numInputRows": rows,
        "inputRowsPerSecond": rate,
        "processedRowsPerSecond": rate,
        "timestamp": "2026-11-21T08:00:00.000Z",
        "durationMs": {"triggerExecution": 250},
        "sources": [{"endOffset": offset(end), "latestOffset": offset(latest)}],
        "observedMetrics": {} if written is None else {WRITTEN: {"rows": written}},
    }


def at(**following: int) -> dict[str, Any]:
    return {"v": 1, "channels": {name: {"next": one, "created": 9} for name, one in following.items()}}


def replayed(following: int) -> dict[str, Any]:
    return {"v": 1, "replay": {"table": "t", "next": following}}
