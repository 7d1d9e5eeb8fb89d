"""Tables of text: columns fitted to a terminal, or separated by tabs where another program reads.

Here lives how wide a text is and how it is cut. Never lives here: what is in a table, where it is printed.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.cli import values
from headrace.errors import on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP: Final = 2
_LEAST: Final = 8
"""The width below which no column is cut."""
_READABLE: Final = 16
"""The width below which no column is cut as long as there are optional ones."""
_CUT: Final = "…"


class ColumnKind(Enum):
    """The kind of the values of a column, which decides how they are shown."""

    TEXT = "text"
    NUMBER = "number"
    SIZE = "size"
    """Bytes."""
    DURATION = "duration"
    """Durations in ns."""
    TIME = "time"
    """Times in ns since 1970 UTC."""


class TextColumn(NamedTuple):
    """A column: its heading, the kind of its values, and whether they may be cut where there is no room.

    Only texts are cut: a part of a number or of a time says something else. `is_optional`: the whole column
    may be left out where there is no room, the last such first.
    """

    heading: str
    kind: ColumnKind = ColumnKind.TEXT
    can_be_cut: bool = True
    is_optional: bool = False

    @property
    def is_right(self) -> bool:
        return self.kind in (ColumnKind.NUMBER, ColumnKind.SIZE, ColumnKind.DURATION)

    @property
    def shrinks(self) -> bool:
        """True if values may be cut."""
        return self.can_be_cut and self.kind is ColumnKind.TEXT


class FittedTable(NamedTuple):
    """The lines of a table, the heading first, and the headings of columns that had no room."""

    lines: list[str]
    left_out: list[str]


def shown_value(value: Any, kind: ColumnKind) -> str:
    """Return a value for people; "" for None."""
    if value is None:
        return ""
    match kind:
        case ColumnKind.NUMBER:
            return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
        case ColumnKind.SIZE:
            return values.shown_size(value)
        case ColumnKind.DURATION:
            return values.shown_duration(value)
        case ColumnKind.TIME:
            return values.shown_time(value)
    return on_one_line(_yes_or_no(value))


def exact_value(value: Any, kind: ColumnKind) -> str:
    """Return a value for programs: without units but for durations, which are as Go writes them."""
    if value is None:
        return ""
    if kind is ColumnKind.TIME:
        return values.exact_time(value)
    if kind is ColumnKind.DURATION:
        from headrace.protocol.durations import format_ns

        return format_ns(value)
    return on_one_line(_yes_or_no(value))


def _yes_or_no(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def tab_separated(columns: Sequence[TextColumn], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return a heading line and a line for each row, with tabs between columns; nothing is cut."""
    lines = ["\t".join(column.heading.lower().replace(" ", "_") for column in columns)]
    lines += [
        "\t".join(exact_value(value, column.kind) for value, column in zip(row, columns, strict=True))
        for row in rows
    ]
    return lines


def fitted(columns: Sequence[TextColumn], rows: Sequence[Sequence[Any]], width: int) -> FittedTable:
    """Return a table at most `width` cells wide, as far as that can be done.

    Where there is no room times lose their seconds first, then optional columns go, then long texts are cut
    in the middle, the longest first: both ends of a name tell most.
    """
    cells = _cells(columns, rows)
    widths = _widths(cells)
    if _over(widths, width) > 0:
        cells = _cells(columns, rows, short_times=True)
        widths = _widths(cells)
    places = _places(columns, widths, width)
    kept = [columns[place] for place in places]
    widths = [widths[place] for place in places]
    _narrow(widths, kept, width)
    lines = [
        (" " * _GAP)
        .join(
            padded(cut_in_the_middle(line[place], size), size, right=columns[place].is_right)
            for place, size in zip(places, widths, strict=True)
        )
        .rstrip()
        for line in cells
    ]
    left_out = [column.heading for place, column in enumerate(columns) if place not in places]
    return FittedTable(lines, left_out)


def _cells(
    columns: Sequence[TextColumn], rows: Sequence[Sequence[Any]], *, short_times: bool = False
) -> list[list[str]]:
    def cell(value: Any, kind: ColumnKind) -> str:
        if short_times and kind is ColumnKind.TIME and value is not None:
            return values.short_shown_time(value)
        return shown_value(value, kind)

    headings = [column.heading for column in columns]
    return [
        headings, *([cell(v, column.kind) for v, column in zip(row, columns, strict=True)] for row in rows)
    ]  # fmt: skip


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_width, column)) for column in zip(*cells, strict=True)]


def _over(widths: Sequence[int], width: int) -> int:
    """The cells by which a table is too wide."""
    return sum(widths) + _GAP * (len(widths) - 1) - width


def _places(columns: Sequence[TextColumn], widths: Sequence[int], width: int) -> list[int]:
    """The columns that are shown: optional ones go, the last first, until the others are readable."""
    least = [
        min(size, _READABLE) if column.shrinks else size for size, column in zip(widths, columns, strict=True)
    ]
    places = list(range(len(columns)))
    for place in reversed(range(len(columns))):
        if _over([least[each] for each in places], width) <= 0:
            break
        if columns[place].is_optional:
            places.remove(place)
    return places


def _narrow(widths: list[int], columns: Sequence[TextColumn], width: int) -> None:
    for _ in range(_over(widths, width)):
        candidates = [
            place for place, column in enumerate(columns) if column.shrinks and widths[place] > _LEAST
        ]
        if not candidates:
            return
        widths[max(candidates, key=lambda place: widths[place])] -= 1


def cell_width(text: str) -> int:
    """Return how many cells of a terminal a text takes: two for East Asian wide ones, none for accents."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def cut_in_the_middle(text: str, width: int) -> str:
    """Return a text that takes at most `width` cells, an ellipsis in the place of what is left out."""
    if cell_width(text) <= width:
        return text
    if width <= 1:
        return _CUT[:width]
    left = _ends_within(text, width // 2)
    right = _ends_within(text[::-1], width - 1 - cell_width(left))[::-1]
    return f"{left}{_CUT}{right}"


def _ends_within(text: str, width: int) -> str:
    taken, end = 0, 0
    for end, char in enumerate(text):
        taken += cell_width(char)
        if taken > width:
            return text[:end]
    return text


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text filled with spaces to `width` cells."""
    spaces = " " * (width - cell_width(text))
    return spaces + text if right else text + spaces
