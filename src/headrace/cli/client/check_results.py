"""The result of a check, by the rules of Nagios plugins: its items, numbers, and exit code.

0 is fine, 1 a warning, 2 critical, 3 unknown. Here lives how thresholds are judged and results printed. Never
lives here: what is checked (`server_check`, `jetstream_check`).
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.errors import HeadraceError, on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call


class CheckLevel(IntEnum):
    """The levels of a result, which are exit codes of Nagios plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


_WORST_FIRST: Final = (CheckLevel.CRITICAL, CheckLevel.UNKNOWN, CheckLevel.WARNING, CheckLevel.OK)
_UNIT_NAMES: Final = {"s": "seconds", "B": "bytes", "%": "percent"}


class CheckResult:
    """The result of one check: sentences by their level, and numbers with their thresholds.

    `kind` is the name of the check, `name` that of what was checked, such as a stream.
    """

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.said: dict[CheckLevel, list[str]] = {level: [] for level in CheckLevel}
        self.numbers: list[dict[str, Any]] = []

    @property
    def level(self) -> CheckLevel:
        return next((level for level in _WORST_FIRST if self.said[level]), CheckLevel.OK)

    def ok(self, text: str) -> None:
        self.said[CheckLevel.OK].append(text)

    def warning(self, text: str) -> None:
        self.said[CheckLevel.WARNING].append(text)

    def critical(self, text: str) -> None:
        self.said[CheckLevel.CRITICAL].append(text)

    def require(self, holds: bool, good: str, bad: str) -> None:
        """Note that something holds, or that it does not, which is critical."""
        (self.ok if holds else self.critical)(good if holds else bad)

    def number(
        self,
        name: str,
        value: float,
        unit: str = "",
        *,
        warning: float | None = None,
        critical: float | None = None,
        is_least: bool = False,
        is_either: bool = False,
    ) -> None:
        """Note a number and judge it.

        More than a threshold is bad; with `is_least` less is, and with `is_either` less is where `critical`
        is less than `warning`.

        `unit`: "" for a count, s, B or %.
        """
        numbers = {"warning": warning, "critical": critical}
        thresholds = {key: limit for key, limit in numbers.items() if limit is not None}
        self.numbers.append({"name": name, "value": value, "unit": unit, **thresholds})
        if is_either and warning is not None and critical is not None:
            is_least = critical < warning
        bound = "at most" if is_least else "at least"
        for limit, note in ((critical, self.critical), (warning, self.warning)):
            if limit is not None and (value <= limit if is_least else value >= limit):
                note(f"{name} {_shown(value)}{unit} is {bound} {_shown(limit)}{unit}")
                return
        if thresholds:
            self.ok(f"{name} {_shown(value)}{unit}")

    def document(self) -> dict[str, Any]:
        """The result as a document."""
        return {
            "check": self.kind,
            "name": self.name,
            "status": self.level.name,
            "ok": self.said[CheckLevel.OK],
            "warnings": self.said[CheckLevel.WARNING],
            "criticals": self.said[CheckLevel.CRITICAL],
            "unknowns": self.said[CheckLevel.UNKNOWN],
            "numbers": self.numbers,
        }


@contextmanager
def checked(result: CheckResult) -> Iterator[CheckResult]:
    """A check, for a block: what it cannot find out, or whom it cannot reach, is critical.

    Raises: CommandError for wrong use, which is `UNKNOWN`.
    """
    try:
        yield result
    except CommandError as error:
        if error.exit_code is ExitCode.WRONG_USE:
            raise
        result.critical(str(error))
    except (HeadraceError, OSError) as error:
        result.critical(str(error) or type(error).__name__)


def finished(call: Call, result: CheckResult) -> int:
    """Print a result as `--format` says; return its exit code."""
    form = "json" if call.shared.json else call.options.format
    if form == "json":
        call.out.is_json = True
        call.out.document(result.document(), lambda: None)
    elif form == "prometheus":
        _show_lines(call, _prometheus(call, result))
    elif form == "text":
        call.out.document(result.document(), lambda: _show_text(call, result), quiet=result.level.name)
    else:
        _show_lines(call, [_nagios(result)])
    return int(result.level)


def _show_lines(call: Call, lines: list[str]) -> None:
    for line in lines:
        call.out.line(line)


def _nagios(result: CheckResult) -> str:
    """One line: name, status, sentences, and numbers behind a bar. A bar in a sentence would end it."""
    words = {
        CheckLevel.OK: "OK",
        CheckLevel.WARNING: "Warn",
        CheckLevel.CRITICAL: "Crit",
        CheckLevel.UNKNOWN: "Unknown",
    }
    level = result.level
    said = [f"{words[each]}:{', '.join(result.said[each])}" for each in _WORST_FIRST if result.said[each]]
    if level is CheckLevel.OK:
        said = [", ".join(result.said[level])] if result.said[level] else []
    text = " ".join([f"{result.name} {level.name}", *said]).replace("|", "/")
    numbers = " ".join(
        f"{each['name']}={_shown(each['value'])}{each['unit']};"
        f"{_shown(each.get('warning'))};{_shown(each.get('critical'))}".rstrip(";")
        for each in result.numbers
    )
    return f"{text} | {numbers}" if numbers else text


def _show_text(call: Call, result: CheckResult) -> None:
    from headrace.cli.text_table import ColumnKind, TextColumn

    styles = {CheckLevel.OK: "green", CheckLevel.WARNING: "yellow"}
    level = result.level
    call.out.line(f"{result.name}: {level.name}", styles.get(level, "red"))
    for each in _WORST_FIRST:
        for text in result.said[each]:
            call.out.line(f"{each.name}: {text}", styles.get(each, "red"))
    if result.numbers:
        number = ColumnKind.NUMBER
        columns = (
            TextColumn("Number"),
            TextColumn("Value", number),
            TextColumn("Unit"),
            TextColumn("Warning", number),
            TextColumn("Critical", number),
        )
        call.out.table(
            columns,
            [
                (each["name"], each["value"], each["unit"], each.get("warning"), each.get("critical"))
                for each in result.numbers
            ],
        )


def _prometheus(call: Call, result: CheckResult) -> list[str]:
    """Lines for the folder that node_exporter reads: each number, and the level of the result."""
    space = call.options.namespace
    item = _label(result.name)
    lines = []
    for each in result.numbers:
        unit = _UNIT_NAMES.get(each["unit"], "")
        name = re.sub(r"[^a-zA-Z0-9_]", "_", f"{space}_{result.kind}_{each['name']}")
        name += f"_{unit}" if unit and not name.endswith(unit) else ""
        lines += [f"# TYPE {name} gauge", f'{name}{{item="{item}"}} {_shown(each["value"])}']
    name = f"{space}_{result.kind}_status_code"
    lines += [
        f"# HELP {name} 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN",
        f"# TYPE {name} gauge",
        f'{name}{{item="{item}",status="{result.level.name}"}} {int(result.level)}',
    ]
    return lines


def _label(text: str) -> str:
    return on_one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def _shown(value: float | None) -> str:
    """A number without an exponent, and without zeros behind it."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")


def seconds(options: object, name: str) -> float | None:
    """A flag's duration in seconds; None if it was not given."""
    value = getattr(options, name)
    return None if value is None else value / 1e9


def chosen(call: Call, name: str) -> str:
    """Return the name of a checked thing: an argument, or as with `nats` a flag.

    Raises: CommandError without one.
    """
    options = vars(call.options)
    by_place, by_flag = options[f"{name}_name"], options[name]
    if by_place is not None and by_flag is not None:
        raise CommandError(f"the {name} stands there twice", ExitCode.WRONG_USE)
    found = by_flag if by_place is None else by_place
    if found is None:
        raise CommandError(f"the {name} is missing: an argument, or --{name}", ExitCode.WRONG_USE)
    return str(found)
