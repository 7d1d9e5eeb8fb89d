"""The rules between parts of a specification: names that must be there, keys that exclude each other.

Every problem is added, none is raised. Never lives here: reading (`reading`), what only Spark knows (`plan`).
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from headrace.conf.problems import shown
from headrace.errors import HeadraceError
from headrace.pipelines.spec import DEAD_LETTERS, NATS, Otherwise, OutputMode, Stop
from headrace.spark.errors import OptionError
from headrace.spark.options import read_options
from headrace.spark.sink_options import Guarantee, read_sink_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set

    from headrace.conf.problems import Problems
    from headrace.errors import Position
    from headrace.pipelines.spec import Sink, Source, Spec, Step


def check_rules(spec: Spec, views: Mapping[str, Position], failed: Set[str], problems: Problems) -> None:
    """Add what is wrong. `views` are all that are written, with those that could not be read and are not in
    `spec`; `failed` names the top-level keys that could not be read whole.
    """
    _check_view_names(spec, problems)
    if views:
        _check_references(spec, list(views), problems)
    if not failed & {"expectations", DEAD_LETTERS}:
        _check_dead_letters(spec, problems)
    _check_sinks(spec, problems)
    _check_nats_options(spec, problems)
    if spec.stop is Stop.CAUGHT_UP and spec.trigger.is_once:
        problems.add(
            "stop: caught_up and trigger: once exclude each other", spec.sources[0].position if spec.sources
            else None, "trigger: once ends by itself",
        )  # fmt: skip


def _check_view_names(spec: Spec, problems: Problems) -> None:
    """SQL does not tell upper from lower case, so names of views may not differ by that alone."""
    places: dict[str, Position] = {}
    views: list[Source | Step] = [*spec.sources, *spec.steps]
    for view in views:
        first = places.setdefault(view.name.lower(), view.position)
        if first is not view.position:
            problems.add(
                f"{shown(view.name)} is the name of two views",
                view.position,
                f"the other is in line {first.line}",
            )


def _check_references(spec: Spec, views: list[str], problems: Problems) -> None:
    for step in spec.steps:
        before = views[: views.index(step.name)]
        for name in step.inputs:
            if name in before:
                continue
            is_later = name in views and name != step.name
            hint = f"{name} comes after {step.name}" if is_later else _suggestion(name, before)
            problems.add(
                f"transform {shown(step.name)} reads {shown(name)}, which is not there", step.position, hint
            )
    for expectation in spec.expectations:
        if expectation.view not in views:
            what = (
                f"expectation {shown(expectation.name)} is of {shown(expectation.view)}, which is not there"
            )
            problems.add(what, expectation.position, _suggestion(expectation.view, views))
    for sink in spec.sinks:
        if sink.view not in views:
            what = f"sink {shown(sink.name)} is from {shown(sink.view)}, which is not there"
            problems.add(what, sink.position, _suggestion(sink.view, views))


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name[:40], names, n=1)
    return f'did you mean "{close[0]}"?' if close else f"there are: {', '.join(names)}"


def _check_dead_letters(spec: Spec, problems: Problems) -> None:
    wanting = [one for one in spec.expectations if one.otherwise is Otherwise.DEAD_LETTER]
    if wanting and spec.dead_letters is None:
        problems.add(
            f"expectation {shown(wanting[0].name)} has nowhere to put rows that fail", wanting[0].position,
            f"add {DEAD_LETTERS}:, or otherwise: drop or fail",
        )  # fmt: skip
    if spec.dead_letters is not None and not wanting:
        problems.add(
            f"{DEAD_LETTERS}: gets no rows", spec.dead_letters.position, "no expectation sends any there"
        )


def _check_sinks(spec: Spec, problems: Problems) -> None:
    folders: dict[str, str] = {}
    for sink in spec.all_sinks:
        if sink in spec.sinks and sink.name == DEAD_LETTERS:
            problems.add(f"{DEAD_LETTERS} is not a name for a sink", sink.position, "rows that fail have it")
        _check_sink(sink, problems)
        path = sink.options.get("path")
        if path is not None and folders.setdefault(path, sink.name) != sink.name:
            problems.add(
                f"sink {shown(sink.name)} writes where {shown(folders[path])} does", sink.position,
                "give each a path of its own: Spark keeps the list of good files there",
            )  # fmt: skip


def _check_sink(sink: Sink, problems: Problems) -> None:
    what = f"sink {shown(sink.name)}"
    if sink.python is not None:
        for given, key in ((sink.options, "options"), (sink.partition_by, "partition_by")):
            if given:
                problems.add(f"{what}: {key}: does not go with python:", sink.position, "use arguments:")
    elif sink.arguments:
        problems.add(f"{what}: arguments: goes with python:", sink.position, "use options:")
    if sink.format == NATS and sink.mode is OutputMode.OVERWRITE:
        problems.add(f"{what}: mode: overwrite is for tables", sink.position, "use append or update")
    if sink.format in _FILES and "path" not in sink.options:
        problems.add(f"{what}: format: {sink.format} needs path:", sink.position)


_FILES = frozenset(("parquet", "orc", "json", "csv", "text"))


def _check_nats_options(spec: Spec, problems: Problems) -> None:
    """Check the options of `format("nats")` before Spark is started."""
    for source in spec.sources:
        if source.format == NATS:
            _check_options(f"source {shown(source.name)}", source, read_options, spec, problems)
    for sink in spec.all_sinks:
        if sink.format == NATS:
            read = _read_update if sink.mode is OutputMode.UPDATE else read_sink_options
            _check_options(f"sink {shown(sink.name)}", sink, read, spec, problems)


def _read_update(options: Mapping[str, str]) -> None:
    """Check a sink that is written by updates: each micro-batch is a write of its own, so no ids go from one
    to the next.
    """
    if read_sink_options(options).guarantee is Guarantee.EXACTLY_ONCE:
        raise OptionError(
            "mode: update cannot write exactly once: set deliveryGuarantee to at-least-once, enough where a "
            "subject's last message counts, as in a key-value bucket; or use mode: append"
        )


def _check_options(
    what: str,
    thing: Source | Sink,
    read: Callable[[Mapping[str, str]], object],
    spec: Spec,
    problems: Problems,
) -> None:
    try:
        read({**spec.nats, **thing.options})
    except HeadraceError as error:
        named = re.findall(r"\w+", str(error))
        places = {**spec.nats_places, **thing.places}
        place = next((places[word.lower()] for word in named if word.lower() in places), None)
        problems.add(f"{what}: {error}", place or thing.position)
