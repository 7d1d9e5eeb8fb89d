"""A specification to Spark DataFrames: sources, steps, expectations; one frame for each sink.

Nothing is started here and no row is read. Each view is a temporary view of the session that is given, so
that SQL finds it; `headrace.pipelines.running` gives every run a session of its own for that.

An expectation stands directly behind its view: whoever reads the view sees only rows that meet it, and those
that do not are a frame of their own, with the reasons, for the dead letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name every Spark user knows

from headrace.conf.problems import Problems, shown
from headrace.errors import HeadraceError
from headrace.pipelines.functions import find_function
from headrace.pipelines.spec import NATS, Otherwise
from headrace.pipelines.table_replay import TableReplay
from headrace.spark.errors import OptionError
from headrace.spark.progress import failure_text
from headrace.spark.sink_options import read_sink_options
from headrace.spark.sink_rows import check_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, SparkSession

    from headrace.errors import Position
    from headrace.pipelines.spec import Expectation, Sink, Source, Spec, Step, Watermark

_REASONS: Final = "__headrace_unmet"
"""Column with the names of the expectations a row does not meet; gone again before anybody sees the row."""

_MISSING_VIEW: Final = re.compile(r"table or view `([^`]+)`")


@dataclass(slots=True)
class PipelinePlan:
    """Frames by view, and the frame of each sink by its name."""

    views: dict[str, DataFrame] = field(default_factory=dict)
    sinks: dict[str, DataFrame] = field(default_factory=dict)


def build(spec: Spec, spark: SparkSession) -> PipelinePlan:
    """The frames of a specification.

    Raises: ConfigError with every step Spark refuses and why; what depends on one is not reported again.
    """
    spark.dataSource.register(TableReplay)
    return _Builder(spec, spark).plan()


class _Builder:
    def __init__(self, spec: Spec, spark: SparkSession) -> None:
        self._spec = spec
        self._spark = spark
        self._plan = PipelinePlan()
        self._dead: list[DataFrame] = []
        self._missing: set[str] = set()
        self._problems = Problems()

    def plan(self) -> PipelinePlan:
        for source in self._spec.sources:
            self._add(source.name, source.position, lambda source=source: self._source(source))  # type: ignore[misc]
        for step in self._spec.steps:
            if self._missing.intersection(step.inputs):
                self._missing.add(step.name)
                continue
            self._add(step.name, step.position, lambda step=step: self._step(step))  # type: ignore[misc]
        for sink in self._spec.sinks:
            if sink.view in self._plan.views:
                self._attempt(sink.position, lambda sink=sink: self._sink(sink))  # type: ignore[misc]
        if self._spec.dead_letters is not None and self._dead:
            self._plan.sinks[self._spec.dead_letters.name] = self._dead_letters(self._spec.dead_letters)
        self._problems.raise_any()
        return self._plan

    def _add(self, name: str, position: Position, make: Callable[[], DataFrame]) -> None:
        """Make a view, put its expectations behind it and let SQL see it."""

        def work() -> None:
            frame = self._expected(name, make())
            frame.createOrReplaceTempView(name)
            self._plan.views[name] = frame

        if not self._attempt(position, work):
            self._missing.add(name)

    def _attempt(self, position: Position, work: Callable[[], None]) -> bool:
        try:
            work()
        except (PySparkException, HeadraceError) as error:
            text = reason(error)
            if not _names_any(text, self._missing):
                self._problems.add(text, position)
            return False
        return True

    def _source(self, source: Source) -> DataFrame:
        reader = self._spark.readStream if source.stream else self._spark.read
        if source.schema is not None:
            reader = reader.schema(source.schema)
        options = {**self._spec.nats, **source.options} if source.format == NATS else source.options
        reader = reader.options(**options)
        frame = reader.table(source.table) if source.table else reader.format(source.format).load()
        return _with_watermark(frame, source.watermark)

    def _step(self, step: Step) -> DataFrame:
        if step.sql is not None:
            frame = self._spark.sql(step.sql)
        else:
            assert step.python is not None
            function = find_function(step.python, self._spec.folder)
            frame = _called(
                step.python, function, [self._plan.views[name] for name in step.inputs], step.options
            )
        if not frame.columns:
            raise HeadraceError(f"transform {shown(step.name)} gives no columns: it must be a query")
        return _with_watermark(frame, step.watermark)

    def _expected(self, view: str, frame: DataFrame) -> DataFrame:
        """The rows that meet every expectation of the view; the others are kept for the dead letters."""
        expectations = [one for one in self._spec.expectations if one.view == view]
        for one in expectations:
            self._check_condition(one, frame)
        failing = [one for one in expectations if one.otherwise is Otherwise.FAIL]
        for one in failing:
            # First, or a row would be put aside or dropped for another reason. rand() keeps Spark from moving
            # later conditions before this one, down into a table's reader.
            is_met = F.when(_met(one) & (F.rand(0) >= 0), F.lit(True))
            frame = frame.where(is_met.otherwise(_raising(one, frame.columns)))
        kept = [one for one in expectations if one.otherwise is Otherwise.DEAD_LETTER]
        if kept:
            unmet = F.filter(F.array(*(F.when(~_met(one), F.lit(one.name)) for one in kept)), F.isnotnull)
            marked = frame.withColumn(_REASONS, unmet)
            self._dead.append(
                marked.where(F.size(_REASONS) > 0).select(
                    F.lit(view).alias("view"),
                    F.col(_REASONS).alias("expectations"),
                    _as_json(frame.columns).alias("row"),
                )
            )
        for one in expectations:
            if one.otherwise is not Otherwise.FAIL:
                frame = frame.where(_met(one))
        return frame

    def _check_condition(self, expectation: Expectation, frame: DataFrame) -> None:
        try:
            kind = frame.select(_met(expectation)).schema[0].dataType.simpleString()
        except PySparkException as error:
            raise HeadraceError(f"expectation {shown(expectation.name)}: {reason(error)}") from error
        if kind != "boolean":
            raise HeadraceError(f"expectation {shown(expectation.name)} is {kind}, not true or false")

    def _sink(self, sink: Sink) -> None:
        frame = self._plan.views[sink.view]
        for column in sink.partition_by:
            if column not in frame.columns:
                there = ", ".join(frame.columns)
                raise HeadraceError(
                    f"sink {shown(sink.name)}: no column {shown(column)} to partition by: {there}"
                )
        if sink.format == NATS:
            try:
                check_keys(frame.schema, read_sink_options({**self._spec.nats, **sink.options}))
            except OptionError as error:
                raise HeadraceError(f"sink {shown(sink.name)}: {error}") from error
        self._plan.sinks[sink.name] = frame

    def _dead_letters(self, sink: Sink) -> DataFrame:
        """Return the rows that expectations put aside, as a table: view, expectations, row (JSON) and time;
        for NATS all of them as JSON in `data`.
        """
        rows = reduce(DataFrame.unionByName, self._dead).withColumn("time", F.current_timestamp())
        return rows.select(_as_json(rows.columns).alias("data")) if sink.format == NATS else rows


def _met(expectation: Expectation) -> Column:
    """Return the column that is true for rows that meet the expectation; a null does not."""
    return F.coalesce(F.expr(expectation.check), F.lit(False))


def _as_json(columns: Sequence[str]) -> Column:
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in columns)), {"ignoreNullFields": "false"})


def _raising(expectation: Expectation, columns: Sequence[str]) -> Column:
    text = (
        f"headrace.pipelines.ExpectationError: a row of {expectation.view} does not meet {expectation.name}: "
    )
    return F.raise_error(F.concat(F.lit(text), _as_json(columns))).cast("boolean")


def _with_watermark(frame: DataFrame, watermark: Watermark | None) -> DataFrame:
    if watermark is None:
        return frame
    return frame.withWatermark(watermark.column, f"{watermark.delay:.3f} seconds")


def _called(
    name: str, function: Callable[..., object], frames: Sequence[DataFrame], options: object
) -> DataFrame:
    assert isinstance(options, dict)
    try:
        made = function(*frames, **options)
    except (PySparkException, HeadraceError):
        raise
    except Exception as error:  # whatever a user's function raises
        raise HeadraceError(f"python: {name}: {type(error).__name__}: {error}") from error
    if not isinstance(made, DataFrame):
        raise HeadraceError(f"python: {name} gave {type(made).__name__}, not a DataFrame")
    return made


def reason(error: Exception) -> str:
    """Return the text of Spark's error, without its plan and its links."""
    text = failure_text(error)
    if isinstance(error, PySparkException):
        text = re.split(r"(?:;\n|\n\n|\s+SQLSTATE: \w+)", text, maxsplit=1)[0]
    return " ".join(text.split())


def _names_any(text: str, names: set[str]) -> bool:
    match = _MISSING_VIEW.search(text)
    return match is not None and match[1] in names
