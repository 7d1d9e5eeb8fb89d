"""A pipeline written in Python: the same keys as in YAML, said in calls and decorators.

    from headrace.pipelines import Pipeline

    pipeline = Pipeline("orders", trigger="5s", parameters={"stream": "ORDERS"})
    pipeline.source("messages", format="nats", options={"stream": "${stream}"})

    @pipeline.transform("messages")
    def texts(messages):
        return messages.selectExpr("CAST(data AS STRING) AS text")

    pipeline.sink("table", "texts", format="parquet", path="tables/texts")

Nothing is checked or run here: calls only note what they were given, for `reading`, and in which line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.conf.tree import BadValue, Entry, ListNode, MapNode, Scalar
from headrace.errors import ConfigError, ConfigProblem, Position
from headrace.pipelines.modules import ModuleError, load_module
from headrace.pipelines.yamltree import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.problems import Problems
    from headrace.conf.tree import Node

    Function = TypeVar("Function", bound=Callable[..., object])

_OWN: Final = frozenset((__name__,))


class Pipeline:
    """A pipeline written in Python. A file makes one.

    Each method adds one part, in the order of the calls. `keys` of a method are the keys that the part has
    in a file of YAML (docs/pipelines.md).
    """

    def __init__(self, name: str, **keys: object) -> None:
        """Begin a pipeline. Its keys are parameters, nats, spark, checkpoint, trigger and stop."""
        self._problems: list[tuple[str, Position]] = []
        at = _caller()
        self.tree = MapNode({}, Position(at.file, 1, 1))
        for key, value in {"pipeline": name, **keys}.items():
            self._put(self.tree, key, at, self._node(value, at))

    def source(self, name: str, **keys: object) -> None:
        """Add a source. Its keys are format, options, path, table, schema, stream and watermark."""
        self._add("sources", name, keys)

    def sql(self, name: str, query: str, **keys: object) -> None:
        """Add a view that is a query over the views before it. Its key is watermark."""
        self._add("transforms", name, {"sql": query, **keys})

    def transform(self, *views: str, **keys: object) -> Callable[[Function], Function]:
        """Add a view that a function makes of the frames of `views`; it has the function's name.

        For use as a decorator. Its keys are options, which the function is called with, and watermark.
        """
        at = _caller()

        def note(function: Function) -> Function:
            given = {"python": self._name_of(function, at), "from": list(views), **keys}
            self._add("transforms", function.__name__, given, at)
            return function

        return note

    def expect(self, name: str, view: str, check: str, **keys: object) -> None:
        """Add a condition that the rows of a view must meet. Its key is otherwise."""
        self._add("expectations", name, {"view": view, "check": check, **keys})

    def dead_letters(self, **keys: object) -> None:
        """Add the sink of the rows that do not meet a condition.

        Its keys are format, options, path, table, partition_by and trigger.
        """
        at = _caller()
        self._put(self.tree, "dead_letters", at, self._node(keys, at))

    def sink(self, name: str, view: str, **keys: object) -> None:
        """Add a sink for a view.

        Its keys are format, options, path, table, mode, partition_by and trigger.
        """
        self._add("sinks", name, {"from": view, **keys})

    def writer(self, view: str, **keys: object) -> Callable[[Function], Function]:
        """Add a sink that is a function of a frame and the number of its batch; it has the function's name.

        For use as a decorator. Its keys are arguments, mode and trigger.
        """
        at = _caller()

        def note(function: Function) -> Function:
            given = {"python": self._name_of(function, at), "from": view, **keys}
            self._add("sinks", function.__name__, given, at)
            return function

        return note

    def report(self, problems: Problems) -> None:
        """Add the mistakes of the calls to `problems`."""
        for text, at in self._problems:
            problems.add(text, at)

    def _add(self, group: str, name: str, keys: dict[str, object], at: Position | None = None) -> None:
        at = at or _caller()
        entry = self.tree.entries.get(group)
        if entry is None:
            entry = self.tree.entries[group] = Entry(group, at, MapNode({}, at))
        assert isinstance(entry.node, MapNode)
        self._put(entry.node, name, at, self._node(keys, at))

    def _put(self, into: MapNode, key: str, at: Position, node: Node) -> None:
        if key in into.entries:
            first = into.entries[key].position.line
            self._problems.append((f'"{key}" is there twice: first in line {first}', at))
        else:
            into.entries[key] = Entry(key, at, node)

    def _node(self, value: object, at: Position) -> Node:
        if isinstance(value, dict):
            return MapNode(
                {str(key): Entry(str(key), at, self._node(one, at)) for key, one in value.items()}, at
            )
        if isinstance(value, list | tuple):
            return ListNode(tuple(self._node(one, at) for one in value), at, len(value))
        if isinstance(value, bool):
            return Scalar(value, at, str(value).lower())
        if isinstance(value, int | float):
            return Scalar(value, at, str(value))
        if isinstance(value, Path):
            value = str(value)
        if isinstance(value, str):
            is_parameter = value.startswith("${") and value.find("}") == len(value) - 1
            return Scalar(resolve(value), at, value) if is_parameter else Scalar(value, at, f'"{value}"')
        what = f"{type(value).__name__} is no value here: texts, numbers, truth values, lists and dicts are"
        self._problems.append((what, at))
        return BadValue(at)

    def _name_of(self, function: Any, at: Position) -> str:
        if function.__qualname__ != function.__name__:
            self._problems.append(
                (f"{function.__qualname__} is inside something: it must be the file's own", at)
            )
        return f"{function.__module__}:{function.__name__}"


def load_python_tree(path: Path, problems: Problems) -> MapNode:
    """Run a file and give what its one `Pipeline` was told.

    Raises: ConfigError where the file does not run or makes no pipeline; FileNotFoundError.
    """
    top = Position(str(path), 1, 1)
    if not path.is_file():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    if not path.stem.isidentifier():
        _refuse(f"{path.name} cannot be imported: its name must be letters, digits and _", top)
    try:
        module = load_module(path.stem, path.absolute().parent)
    except ModuleError as error:
        _refuse(str(error), _place_of(error.__cause__, path))
    found = {id(one): one for one in vars(module).values() if isinstance(one, Pipeline)}
    if len(found) != 1:
        _refuse(f"makes {len(found) or 'no'} pipelines: a file holds one headrace.pipelines.Pipeline", top)
    [pipeline] = found.values()
    pipeline.report(problems)
    return pipeline.tree


def _refuse(text: str, at: Position) -> None:
    raise ConfigError([ConfigProblem(text, at)])


def _place_of(error: BaseException | None, path: Path) -> Position:
    """The deepest line of the file that an error came through."""
    line = 1
    if isinstance(error, SyntaxError) and error.filename == str(path.absolute()):
        return Position(str(path), error.lineno or 1, error.offset or 1)
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path.absolute()):
            line = trace.tb_lineno
        trace = trace.tb_next
    return Position(str(path), line, 1)


def _caller() -> Position:
    """The line outside this module that called into it."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in _OWN and frame.f_back is not None:
        frame = frame.f_back
    return Position(frame.f_code.co_filename, frame.f_lineno, 1)
