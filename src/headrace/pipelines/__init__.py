"""Pipelines: a file names sources, transformations, expectations and sinks; Spark runs them.

Here live specifications and their runs, over `format("nats")` and plain structured streaming. Never here: the
data source itself (`headrace.spark`), arguments of the command (`headrace.cli.pipeline`).
Reading order: `spec`; what files say: `yamltree`, `sqltree`, `building` over `modules`, then `reading`,
`rules`; `plan`, `functions`, `queries`; `state`, `display`, `metrics`, `report`; `running` runs them all.
`table_files` and `table_replay` are a source of their own, `steps` and `starters` what ships ready-made,
`system_events` and `operations` are for the ready-made pipeline `operations` and its report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipelines.building import Pipeline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["Pipeline", "run"]


def run(
    path: str | Path, parameters: Mapping[str, str] | None = None, *, spark: SparkSession | None = None
) -> bool:
    """Run the pipeline of a file as `headrace pipeline run` does, in this process; return True if no query
    failed.

    For notebooks and programs: with `spark` it runs in a session of theirs. Ctrl-C ends it.

    Raises: ConfigError with everything wrong with the file; HeadraceError, OSError.
    """
    import threading
    from pathlib import Path

    from headrace.pipelines.display import RunDisplay
    from headrace.pipelines.reading import load_spec
    from headrace.pipelines.running import RunOptions, run_pipeline

    spec = load_spec(Path(path), parameters)
    return run_pipeline(spec, RunOptions(), RunDisplay(), threading.Event(), spark=spark)
