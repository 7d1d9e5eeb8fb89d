"""The specification of a pipeline as plain data: sources, steps, expectations, sinks, triggers.

Here lives the meaning of a specification after everything in it was checked. Never lives here: YAML
(`reading`), Spark (`plan`, `queries`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.errors import Position

NATS: Final = "nats"
"""The format of our own data source and sink."""

DEAD_LETTERS: Final = "dead_letters"
"""Name of the sink for rows that meet no expectation; no other sink may have it."""


class OutputMode(Enum):
    """The output mode of a sink; names and meaning are Spark's, but for `overwrite` of a stream.

    There it means: after each micro-batch the table is the whole result, written anew.
    """

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"
    OVERWRITE = "overwrite"
    ERROR = "errorifexists"
    IGNORE = "ignore"


class Otherwise(Enum):
    """The treatment of a row that does not meet an expectation."""

    DEAD_LETTER = "dead_letter"
    DROP = "drop"
    FAIL = "fail"


class Stop(Enum):
    """The condition under which a run ends by itself."""

    NEVER = "never"
    CAUGHT_UP = "caught_up"


@dataclass(frozen=True, slots=True)
class Trigger:
    """The trigger of micro-batches: every `interval` seconds (0: one after the other), or until everything
    stored now has been read (None).
    """

    interval: float | None = 0.0

    @property
    def is_once(self) -> bool:
        return self.interval is None


@dataclass(frozen=True, slots=True)
class Watermark:
    """The lateness that rows may have: seconds behind the latest time seen in `column`."""

    column: str
    delay: float


@dataclass(frozen=True, slots=True)
class Source:
    """A named input. `schema` is Spark's DDL text; a source that is no stream is read once, as a table.

    `places`: where each option was written, by lower-case name.
    """

    name: str
    format: str
    options: Mapping[str, str]
    position: Position
    stream: bool = True
    schema: str | None = None
    table: str | None = None
    watermark: Watermark | None = None
    places: Mapping[str, Position] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """A named transformation: SQL over the views before it, or `module:function` called with frames."""

    name: str
    position: Position
    sql: str | None = None
    python: str | None = None
    inputs: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition, as SQL, that rows of a view must meet; null does not meet it."""

    name: str
    view: str
    check: str
    otherwise: Otherwise
    position: Position


@dataclass(frozen=True, slots=True)
class Sink:
    """A named output of one view; `mode` None is `append` of a stream and `errorifexists` of a table.

    `places`: as of a source.
    """

    name: str
    view: str
    position: Position
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    mode: OutputMode | None = None
    table: str | None = None
    partition_by: tuple[str, ...] = ()
    python: str | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    trigger: Trigger | None = None
    places: Mapping[str, Position] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spec:
    """A whole pipeline; paths are absolute or URLs. `nats` are options for every nats source and sink."""

    name: str
    file: Path
    checkpoint: str
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    expectations: tuple[Expectation, ...]
    sinks: tuple[Sink, ...]
    dead_letters: Sink | None = None
    trigger: Trigger = Trigger()
    stop: Stop = Stop.NEVER
    nats: Mapping[str, str] = field(default_factory=dict)
    nats_places: Mapping[str, Position] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the file, where relative paths and the modules of Python steps start."""
        return self.file.parent

    @property
    def all_sinks(self) -> tuple[Sink, ...]:
        """The sinks for each of which one query is started."""
        return (*self.sinks, self.dead_letters) if self.dead_letters else self.sinks
