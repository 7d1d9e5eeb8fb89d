"""A specification's text to a `Spec`, or to everything that is wrong with it at once.

Here live the keys, what values they take and the rules between them. Never lives here: how they
are written (`yamltree`, `sqltree`, `building`), Spark: what only Spark can tell, such as a column that is
not there, `plan` finds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from headrace.conf import fields
from headrace.conf.fields import UNSET, Binder, Bound, Field, KeyTable, UnsetType, string_of
from headrace.conf.problems import Problems, shown
from headrace.conf.tree import ListNode, MapNode, Scalar, plain
from headrace.errors import ConfigError, ConfigProblem, Position
from headrace.pipelines.rules import check_rules
from headrace.pipelines.spec import (
    DEAD_LETTERS,
    NATS,
    Expectation,
    Otherwise,
    OutputMode,
    Sink,
    Source,
    Spec,
    Step,
    Stop,
    Trigger,
    Watermark,
)
from headrace.pipelines.sqltree import read_sql_tree
from headrace.pipelines.yamltree import read_tree, substitute
from headrace.protocol.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from enum import Enum

    from headrace.conf.tree import Entry, Node

    Made = TypeVar("Made")
    Choice = TypeVar("Choice", bound=Enum)

_VIEW_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SINK_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FILES: Final = frozenset(
    {
        "path", "logpath", "spooldir", "passwordfile", "tokenfile", "credsfile", "nkeyfile", "tlscafile",
        "tlscertfile", "tlskeyfile",
    }
)  # fmt: skip
"""Options of nats, in lower case, whose relative paths start at the folder of the specification."""

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def load_spec(path: Path, parameters: Mapping[str, str] | None = None) -> Spec:
    """The specification in a file: YAML, SQL or Python by its name's end. A Python file is run.

    Raises: ConfigError with every problem found, OSError if the file cannot be read.
    """
    if path.suffix == ".py":
        from headrace.pipelines.building import load_python_tree

        problems = Problems()
        return _spec_of(load_python_tree(path, problems), path, parameters, problems)
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError([ConfigProblem(f"not UTF-8 text: {error}", Position(str(path), 1, 1))]) from error
    return read_spec(text, path, parameters)


def read_spec(text: str, file: Path, parameters: Mapping[str, str] | None = None) -> Spec:
    """The specification in a text: SQL if `file` ends in .sql, else YAML; relative paths in it start at the
    folder of `file`.

    `parameters` replace values of its `parameters:`. Raises: ConfigError with every problem found.
    """
    problems = Problems()
    read = read_sql_tree if file.suffix == ".sql" else read_tree
    return _spec_of(read(text, str(file), problems), file, parameters, problems)


def _spec_of(tree: MapNode, file: Path, parameters: Mapping[str, str] | None, problems: Problems) -> Spec:
    if not tree.entries:  # everything else would be a consequence
        problems.raise_any()
    root = _with_parameters(tree, parameters or {}, problems)
    reader = _Reader(problems, file)
    bound = reader.binder.bind(root, reader.top)
    spec = reader.spec(bound, root)
    check_rules(spec, _view_places(root), bound.failed, problems)
    problems.raise_any()
    return spec


def _view_places(root: MapNode) -> dict[str, Position]:
    """Return the position of each view, also of unreadable ones; of a name with two, the first."""
    places: dict[str, Position] = {}
    for key in ("sources", "transforms"):
        entry = root.entries.get(key)
        if entry is not None and isinstance(entry.node, MapNode):
            for name, one in entry.node.entries.items():
                places.setdefault(name, one.position)
    return places


def _with_parameters(root: MapNode, given: Mapping[str, str], problems: Problems) -> MapNode:
    values: dict[str, str] = {}
    entry = root.entries.get("parameters")
    if entry is not None:
        if isinstance(entry.node, MapNode):
            for name, one in entry.node.entries.items():
                if isinstance(one.node, Scalar):
                    values[name] = str(one.node.value) if one.node.text.startswith('"') else one.node.text
                else:
                    problems.add(f"parameter {shown(name)} must be a text or a number", one.position)
        else:
            problems.add('field "parameters" must be a map', entry.position)
    for name, value in given.items():
        if name in values:
            values[name] = value
        else:
            known = f"its parameters are {', '.join(values)}" if values else "it has no parameters"
            problems.add(f"the specification has no parameter {shown(name)}", root.position, known)
    rest = {key: one for key, one in root.entries.items() if key != "parameters"}
    filled = substitute(MapNode(rest, root.position), values, problems)
    return cast("MapNode", filled)


@dataclass(frozen=True, slots=True)
class _Named:
    """An entry of a map of named things, bound by the table of its kind."""

    name: str
    position: Position
    bound: Bound

    def get(self, option: str, default: Any = None) -> Any:
        return self.bound.values.get(option, default)


class _Reader:
    """Readers that know where the file is; one for each specification."""

    def __init__(self, problems: Problems, file: Path) -> None:
        self.binder = Binder(problems)
        self._problems = problems
        self._file = file.absolute()
        watermark = Field(("watermark",), _watermark)
        format_keys = (
            Field(("format",), fields.text),
            Field(("options",), _options),
            Field(("path",), self._path),
            Field(("table",), fields.text),
        )
        self._source = KeyTable(
            (*format_keys, Field(("schema",), fields.text), Field(("stream",), fields.flag), watermark)
        )
        self._step = KeyTable(
            (
                Field(("sql",), fields.text),
                Field(("python",), _function),
                Field(("from",), fields.strings),
                Field(("options",), _values),
                watermark,
            )
        )
        self._expectation = KeyTable(
            (
                Field(("view",), fields.text),
                Field(("check",), fields.text),
                Field(("otherwise",), _one_of(Otherwise)),
            )
        )
        dead = (
            *format_keys,
            Field(("partition_by",), fields.strings),
            Field(("trigger",), _trigger),
        )
        self._dead = KeyTable(dead)
        self._sink = KeyTable(
            (
                *dead,
                Field(("from",), fields.text),
                Field(("mode",), _one_of(OutputMode)),
                Field(("python",), _function),
                Field(("arguments",), _values),
            )
        )
        self.top = KeyTable(
            (
                Field(("pipeline",), fields.text),
                Field(("checkpoint",), self._path),
                Field(("trigger",), _trigger),
                Field(("stop",), _one_of(Stop)),
                Field(("nats",), _options),
                Field(("spark",), _options),
                Field(("sources",), self._each(self._source, _VIEW_NAME, self._make_source)),
                Field(("transforms",), self._each(self._step, _VIEW_NAME, self._make_step)),
                Field(("expectations",), self._each(self._expectation, _VIEW_NAME, self._make_expectation)),
                Field((DEAD_LETTERS,), self._read_dead_letters),
                Field(("sinks",), self._each(self._sink, _SINK_NAME, self._make_sink)),
            )
        )

    def spec(self, bound: Bound, root: MapNode) -> Spec:
        values = bound.values
        for needed, example in (("sources", "what to read"), ("sinks", "where the result goes")):
            if needed not in values and needed not in bound.failed:
                self._problems.add(f"{needed}: is missing", root.position, example)
        name = str(values.get("pipeline") or self._file.stem)
        if not _SINK_NAME.fullmatch(name):
            self._problems.add(
                f"{shown(name)} is no name for a pipeline", bound.positions.get("pipeline", root.position),
                "letters, digits, _ and -",
            )  # fmt: skip
        return Spec(
            name=name,
            file=self._file,
            checkpoint=str(values.get("checkpoint") or self._file.parent / "checkpoints" / name),
            sources=cast("tuple[Source, ...]", values.get("sources", ())),
            steps=cast("tuple[Step, ...]", values.get("transforms", ())),
            expectations=cast("tuple[Expectation, ...]", values.get("expectations", ())),
            sinks=cast("tuple[Sink, ...]", values.get("sinks", ())),
            dead_letters=cast("Sink | None", values.get(DEAD_LETTERS)),
            trigger=cast("Trigger", values.get("trigger", Trigger())),
            stop=cast("Stop", values.get("stop", Stop.NEVER)),
            nats=self._anchored(cast("Mapping[str, str]", values.get("nats", {}))),
            nats_places=getattr(values.get("nats"), "places", {}),
            spark=dict(cast("Mapping[str, str]", values.get("spark", {}))),
        )

    def _path(self, binder: Binder, entry: Entry) -> str | UnsetType:
        """A path of this machine, made absolute, or a URL as it is."""
        text = fields.text(binder, entry)
        return text if text is UNSET else self._absolute(text)

    def _absolute(self, text: str) -> str:
        return text if _URL.match(text) else str(self._file.parent / Path(text).expanduser())

    def _each(
        self, table: KeyTable, names: re.Pattern[str], make: Callable[[_Named], Made | None]
    ) -> Callable[[Binder, Entry], tuple[Made, ...] | UnsetType]:
        """A reader of a map of named things; what cannot be made is reported and left out."""

        def read(binder: Binder, entry: Entry) -> tuple[Made, ...] | UnsetType:
            node = binder.map(entry)
            if node is UNSET:
                return UNSET
            made = []
            for one in node.entries.values():
                if not names.fullmatch(one.key):
                    allowed = "letters, digits and _" if names is _VIEW_NAME else "letters, digits, _ and -"
                    binder.problem(f"{shown(one.key)} is no name here", one.position, allowed)
                bound = binder.bind_map(one, table)
                if bound is UNSET:
                    continue
                thing = make(_Named(one.key, one.position, bound))
                if thing is not None and not bound.failed:  # half a thing would have problems of its own
                    made.append(thing)
            return tuple(made)

        return read

    def _needs(self, named: _Named, keys: tuple[str, ...], what: str) -> bool:
        """True if exactly one of these keys is there; else it is reported, unless one was bad."""
        found = [key for key in keys if key in named.bound.values]
        if len(found) > 1:
            both = " and ".join(f"{key}:" for key in found)
            self._problems.add(f"{what} {shown(named.name)} has {both}: one is needed", named.position)
        elif not found and not named.bound.failed & set(keys):
            these = " or ".join(f"{key}:" for key in keys)
            self._problems.add(f"{what} {shown(named.name)} needs {these}", named.position)
        return len(found) == 1

    def _format_options(self, named: _Named) -> dict[str, str]:
        options = dict(named.get("options", {}))
        if named.get("format") == NATS:
            options = self._anchored(options)
        if "path" in named.bound.values:
            options["path"] = named.get("path")
        return options

    def _anchored(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options with the paths that options of nats name made absolute."""
        return {
            name: self._absolute(value) if name.lower() in _FILES else value
            for name, value in options.items()
        }

    def _make_source(self, named: _Named) -> Source | None:
        if not self._needs(named, ("format", "table"), "source"):
            return None
        return Source(
            named.name, named.get("format", ""), self._format_options(named), named.position,
            stream=named.get("stream", True), schema=named.get("schema"), table=named.get("table"),
            watermark=named.get("watermark"), places=getattr(named.get("options"), "places", {}),
        )  # fmt: skip

    def _make_step(self, named: _Named) -> Step | None:
        if not self._needs(named, ("sql", "python"), "transform"):
            return None
        inputs: tuple[str, ...] = named.get("from", ())
        if "python" in named.bound.values and not inputs and "from" not in named.bound.failed:
            self._problems.add(
                f"transform {shown(named.name)} needs from:",
                named.position,
                "the views its function is given",
            )
        for key in ("from", "options"):
            if "sql" in named.bound.values and key in named.bound.values:
                where = named.bound.positions.get(key)
                self._problems.add(
                    f"{key}: goes with python:, not with sql:", where, "SQL names its views itself"
                )
        return Step(
            named.name, named.position, sql=named.get("sql"), python=named.get("python"), inputs=inputs,
            options=named.get("options", {}), watermark=named.get("watermark"),
        )  # fmt: skip

    def _make_expectation(self, named: _Named) -> Expectation | None:
        has_view, has_check = (self._needs(named, (key,), "expectation") for key in ("view", "check"))
        if not has_view or not has_check:
            return None
        otherwise = named.get("otherwise", Otherwise.DEAD_LETTER)
        return Expectation(named.name, named.get("view"), named.get("check"), otherwise, named.position)

    def _make_sink(self, named: _Named) -> Sink | None:
        has_view = self._needs(named, ("from",), "sink")
        if not self._needs(named, ("format", "table", "python"), "sink") or not has_view:
            return None
        return self._sink_of(named, named.get("from"))

    def _read_dead_letters(self, binder: Binder, entry: Entry) -> Sink | UnsetType:
        bound = binder.bind_map(entry, self._dead)
        if bound is UNSET:
            return UNSET
        named = _Named(DEAD_LETTERS, entry.position, bound)
        return self._sink_of(named, "") if self._needs(named, ("format", "table"), "sink") else UNSET

    def _sink_of(self, named: _Named, view: str) -> Sink:
        return Sink(
            named.name, view, named.position, format=named.get("format"),
            options=self._format_options(named), mode=named.get("mode"), table=named.get("table"),
            partition_by=named.get("partition_by", ()), python=named.get("python"),
            arguments=named.get("arguments", {}), trigger=named.get("trigger"),
            places=getattr(named.get("options"), "places", {}),
        )  # fmt: skip


# --- readers of single values ---


def _one_of(choices: type[Choice]) -> Callable[[Binder, Entry], Choice | UnsetType]:
    names = [str(one.value) for one in choices]

    def read(binder: Binder, entry: Entry) -> Choice | UnsetType:
        value = fields.text(binder, entry)
        if value is UNSET:
            return UNSET
        if value not in names:
            from difflib import get_close_matches

            close = get_close_matches(value[:40], names, n=1)
            hint = f'did you mean "{close[0]}"?' if close else f"there are: {', '.join(names)}"
            return binder.problem(f"{entry.key}: cannot be {shown(value)}", entry.node.position, hint)
        return choices(value)

    return read


def _trigger(binder: Binder, entry: Entry) -> Trigger | UnsetType:
    value = fields.text(binder, entry)
    if value is UNSET:
        return UNSET
    if value in ("once", "availableNow"):
        return Trigger(None)
    try:
        seconds = parse_duration(value)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        return binder.problem(
            f"trigger: cannot be {shown(value)}",
            entry.node.position,
            "once, or a duration such as 500ms or 1m",
        )
    return Trigger(seconds)


_WATERMARK: Final = KeyTable((Field(("column",), fields.text), Field(("delay",), fields.duration)))


def _watermark(binder: Binder, entry: Entry) -> Watermark | UnsetType:
    bound = binder.bind_map(entry, _WATERMARK)
    if bound is UNSET:
        return UNSET
    column, delay = bound.values.get("column"), bound.values.get("delay")
    if column is None or delay is None:
        if not bound.failed:
            binder.problem("watermark: needs column: and delay:", entry.position)
        return UNSET
    return Watermark(str(column), cast("float", delay))


def _function(binder: Binder, entry: Entry) -> str | UnsetType:
    value = fields.text(binder, entry)
    if value is UNSET or _FUNCTION.fullmatch(value):
        return value
    return binder.problem(
        f"python: {shown(value)} names no function", entry.node.position, "write module:function"
    )


class _Placed(dict[str, str]):
    """Options with where each was written."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, Position] = {}


def _options(binder: Binder, entry: Entry) -> _Placed | UnsetType:
    """Options of Spark, which are text: `5s`, `10`, `true`; a list becomes text with commas."""
    node = binder.map(entry)
    if node is UNSET:
        return UNSET
    values = _Placed()
    for one in node.entries.values():
        text = _option_text(one.node)
        if text is None:
            binder.wrong_type(one, "a string, a number, true or false, or a list of them")
        else:
            values[one.key] = text
            values.places[one.key.lower()] = one.position
    return values


def _option_text(node: Node) -> str | None:
    if isinstance(node, ListNode):
        parts = [_option_text(item) for item in node.items]
        return None if None in parts else ",".join(cast("list[str]", parts))
    if not isinstance(node, Scalar):
        return None
    return str(node.value).lower() if isinstance(node.value, bool) else string_of(node) or node.text


def _values(binder: Binder, entry: Entry) -> dict[str, object] | UnsetType:
    """Arguments of a Python function, as ordinary values."""
    node = binder.map(entry)
    return UNSET if node is UNSET else cast("dict[str, object]", plain(node))
