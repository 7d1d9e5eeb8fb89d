"""`compression` of links between servers: a mode, or a map with what `s2_auto` means.

Never lives here: what a mode does (`headrace.cluster.compression`). Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from headrace.conf.fields import UNSET, Binder, Field, KeyTable, strings, text
from headrace.conf.problems import shown
from headrace.conf.tree import MapNode, Scalar
from headrace.protocol.durations import format_duration, parse_duration

if TYPE_CHECKING:
    from headrace.conf.fields import Reader, UnsetType
    from headrace.conf.tree import Entry
    from headrace.errors import Position

_ON: Final = ""
_MODES: Final = {
    **dict.fromkeys(("not supported", "not_supported"), "not supported"),
    **dict.fromkeys(("disabled", "off", "false"), "off"),
    "accept": "accept",
    **dict.fromkeys(("auto", "s2_auto"), "s2_auto"),
    **dict.fromkeys(("on", "enabled", "true"), _ON),
    **dict.fromkeys(("fast", "s2_fast"), "s2_fast"),
    **dict.fromkeys(("better", "s2_better"), "s2_better"),
    **dict.fromkeys(("best", "s2_best"), "s2_best"),
}
_MOST_THRESHOLDS: Final = 4


def compression(on: str, usual: str) -> Reader:
    """Make the reader of `compression` and `compression_rtts`.

    `on`: what `true` and its like mean; `usual`: the mode of a map that names none.
    """

    def read(binder: Binder, entry: Entry) -> dict[str, object] | UnsetType:
        node = entry.node
        if isinstance(node, MapNode):
            return _map(binder, entry, node, on, usual)
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return {"compression": on if node.value else "off"}
        value = text(binder, entry)
        return UNSET if value is UNSET else _known(binder, value, on, entry.node.position)

    return read


def _known(binder: Binder, value: str, on: str, position: Position | None) -> dict[str, object] | UnsetType:
    mode = _MODES.get(value.lower())
    if mode is None:
        return binder.problem(f"unsupported compression mode {shown(value)}", position)
    return {"compression": mode or on}


def _map(binder: Binder, entry: Entry, node: MapNode, on: str, usual: str) -> dict[str, object] | UnsetType:
    bound = binder.bind(node, _COMPRESSION)
    if bound.failed:
        return UNSET
    given = cast("str", bound.values.get("mode", usual))
    found = _known(binder, given, on, bound.positions.get("mode", entry.position))
    if found is UNSET or found["compression"] != "s2_auto" or not bound.values.get("rtt_thresholds"):
        return found
    try:
        rtts = _thresholds(cast("tuple[float, ...]", bound.values["rtt_thresholds"]))
    except ValueError as error:
        return binder.problem(str(error), bound.positions.get("rtt_thresholds", entry.position))
    return {**found, "compression_rtts": rtts}


def _rtts(binder: Binder, entry: Entry) -> tuple[float, ...] | UnsetType:
    values = strings(binder, entry)
    if values is UNSET:
        return values
    try:
        return tuple(parse_duration(value) for value in values)
    except ValueError as error:
        return binder.problem(f"rtt_thresholds: {error}", entry.node.position)


def _thresholds(given: tuple[float, ...]) -> tuple[float, ...]:
    """Check round-trip thresholds: ascending, with 0 anywhere but at the end, where it is removed.

    Raises: ValueError.
    """
    found = [max(value, 0.0) for value in given]
    used = [value for value in found if value]
    if used != sorted(used):
        listed = " ".join(map(format_duration, given))
        raise ValueError(f"RTT threshold values [{listed}] should be in ascending order")
    while found and not found[-1]:
        found.pop()
    if len(found) > _MOST_THRESHOLDS:
        raise ValueError(
            f'compression mode "s2_auto" should have no more than {_MOST_THRESHOLDS} RTT thresholds'
        )
    if not found:
        raise ValueError('compression mode "s2_auto" requires at least one RTT threshold')
    return tuple(found)


_COMPRESSION: Final = KeyTable(
    (
        Field(("mode",), text, text="As above"),
        Field(
            ("rtt_thresholds", "thresholds", "rtts", "rtt"),
            _rtts,
            text=(
                "Of `auto`: the longest round trips with nothing compressed, `fast`, `better` and "
                "`best`; 0 leaves one out"
            ),
            kind="list of durations",
            default="10ms, 50ms, 100ms",
        ),
    )
)
