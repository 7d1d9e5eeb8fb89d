"""Options with offsets and timestamps: the places where reading begins and ends.

Text in, places out, named as in Spark's Kafka source. What is stored where is asked elsewhere.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.protocol.rfc3339 import parse_time
from headrace.spark.errors import OptionError
from headrace.spark.option_entry import STORED, Option


class Edge(enum.Enum):
    """An end of a stream: the first message that is there, or the first that is not there yet."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Moment:
    """The first message stored at that time or later, ns since 1970 UTC."""

    ns: int


Start = Edge | Moment | int
"""The place where reading a stream begins or ends: one of its ends, a time, or a sequence."""

Starts = Mapping[str, Start] | Edge | Moment
"""The same for several: one for all, or one for each."""

STARTING: Final = (
    Option(
        "startingOffsets",
        "text or JSON",
        "latest; batch: earliest",
        'Where a new query begins: `earliest`, `latest` or sequences such as `{"orders": 17}`',
        STORED,
    ),
    Option(
        "startingTimestamp",
        "time",
        "none",
        "Instead: begin with the first message of that time or later; ms since 1970 or "
        "`2026-11-21T08:00:00Z`",
        STORED,
    ),
    Option("startingOffsetsByTimestamp", "JSON", "none", "The same for each", STORED),
)
"""The options that say where reading begins."""

ENDING: Final = (
    Option(
        "endingOffsets",
        "text or JSON",
        "latest",
        "Where a batch read ends: `latest` or the first sequences not read",
        STORED,
    ),
    Option(
        "endingTimestamp",
        "time",
        "none",
        "Instead: end before the first message of that time or later",
        STORED,
    ),
    Option("endingOffsetsByTimestamp", "JSON", "none", "The same for each", STORED),
)
"""The options that say where reading ends."""

_EDGE_NUMBERS: Final = {-2: Edge.EARLIEST, -1: Edge.LATEST}
"""The edges by the numbers that Spark's Kafka source has for them."""

_LARGEST: Final = (1 << 63) - 1


def points_to_time(starts: Starts | None) -> bool:
    """True if a place is given as a time."""
    return isinstance(starts, Moment) or (
        isinstance(starts, Mapping) and any(isinstance(one, Moment) for one in starts.values())
    )


def read_places(side: str, values: Mapping[str, str], names: tuple[str, ...]) -> Starts | None:
    """Read the places that the options of one side ("starting" or "ending") give; None if they give none.

    Raises: OptionError.
    """
    options = (f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp")
    given = [option for option in options if option.lower() in values]
    if not given:
        return None
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)} exclude each other")
    [option] = given
    text = values[option.lower()]
    if option == f"{side}Timestamp":
        return _moment(option, text)
    if option == f"{side}Offsets" and text.lower() in ("earliest", "latest"):
        edge = Edge(text.lower())
        if edge is Edge.EARLIEST and side == "ending":
            raise OptionError(f"option {option}: earliest would read nothing; say latest or sequences")
        return edge
    fields = _fields(option, text, names)
    if option == f"{side}Offsets":
        return {name: _start(option, name, fields[name]) for name in names}
    return {name: _moment(option, str(fields[name])) for name in names}


def _fields(option: str, text: str, names: tuple[str, ...]) -> dict[str, object]:
    by_time = option.endswith("ByTimestamp")
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        what = 'JSON such as {"orders": 1795251196253}' if by_time else "earliest, latest or JSON such as "
        raise OptionError(f"option {option}: {text!r} is not {what}" + ("" if by_time else '{"orders": 17}'))
    if any(not {"*", ">"}.isdisjoint(name) for name in names):
        raise OptionError(f"option {option}: JSON needs names, not wildcards, of what is read")
    if set(given) != set(names):
        raise OptionError(
            f"option {option} must name what is read ({', '.join(names) or 'none'}), it names "
            f"{', '.join(given) or 'none'}"
        )
    return given


def _start(option: str, name: str, value: object) -> Start:
    if isinstance(value, int) and not isinstance(value, bool):
        if value in _EDGE_NUMBERS:
            return _EDGE_NUMBERS[value]
        if 1 <= value <= _LARGEST:
            return value
    raise OptionError(
        f"option {option}: {value!r} for {name} is not a sequence from 1 on, -1 (latest) or -2 (earliest)"
    )


def _moment(option: str, text: str) -> Moment:
    """ms since 1970 as in Spark's Kafka source, or a time with its zone."""
    if re.fullmatch(r"[0-9]{1,13}", text):
        return Moment(int(text) * 1_000_000)
    try:
        return Moment(parse_time(text))
    except ValueError as error:
        raise OptionError(
            f"option {option}: {text!r} is neither a number of ms since 1970 nor a time such as "
            "2026-11-21T08:00:00Z"
        ) from error
