"""The dearest tests: most start several Java runtimes, one does much in a browser; minutes on a busy machine.

`make test` plays one of them, another with the next commit; `make test-deep` plays all. What they show of
kills, restarts and stores is tested in smaller parts by every run (tests/spark: restarts, sink, stored).
"""

from __future__ import annotations

from typing import Final

import pytest

from harness import depth

DEAREST: Final = (
    "killed queries",
    "cluster",
    "killed pipeline",
    "object store",
    "streams in a bucket",
    "demo",
    "notebook",
    "guide",
    "MQTT's page",
    "Spark's page",
    "schemas",
    "pipelines",
    "pipeline",
    "published pipeline",
    "outcome",
    "restarts",
    "open logs",
    "signals",
    "tables",
    "ten tasks",
    "ten tasks by mouse",
    "progress",
    "rows by schema",
)
"""What each is about."""


def in_turn(about: str) -> pytest.MarkDecorator:
    """Mark one of `DEAREST`. Raises: ValueError for any other."""
    if about not in DEAREST:
        raise ValueError(f"{about!r} is none of {DEAREST}")
    return pytest.mark.skipif(
        about not in depth.turn(DEAREST), reason="the dearest tests take turns (harness/dearest)"
    )
