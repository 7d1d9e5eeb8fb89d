"""A collector of everything wrong with one configuration.

Here lives the list and its bound. Never lives here: what counts as wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import ConfigError, ConfigProblem, on_one_line

if TYPE_CHECKING:
    from headrace.errors import Position

MAX_PROBLEMS: Final = 50
"""Problems reported at most; one more ends the reading, for a binary file has a million of them."""

_MAX_SHOWN: Final = 64
_MAX_MISTAKES: Final = 1000  # with those dropped because their line has one already


class Problems:
    """Problems in the order found, warnings: of what works but should be changed, and remarks: of keys
    that change nothing."""

    __slots__ = ("_found", "_lines", "_mistakes", "_unsupported", "is_structural", "remarks", "warnings")

    def __init__(self, unsupported: list[ConfigProblem] | None = None) -> None:
        """Take a list for what only the Go server has; None: that is wrong like anything else."""
        self._unsupported = unsupported
        self._found: list[ConfigProblem] = []
        self._lines: set[tuple[str, int]] = set()
        self._mistakes = 0
        self.warnings: list[ConfigProblem] = []
        self.remarks: list[ConfigProblem] = []
        self.is_structural = False
        """True if brackets or quotes do not match, so that keys may stand in the wrong place."""

    def __len__(self) -> int:
        return len(self._found)

    @property
    def full(self) -> bool:
        return len(self._found) >= MAX_PROBLEMS or self._mistakes >= _MAX_MISTAKES

    def add(self, message: str, position: Position | None, hint: str | None = None) -> None:
        if len(self._found) < MAX_PROBLEMS:
            self._found.append(ConfigProblem(message, position, hint))

    def unsupported(self, message: str, position: Position | None, hint: str | None = None) -> None:
        """Add something that the Go server has and this version does not."""
        if self._unsupported is None:
            self.add(message, position, hint)
        elif len(self._unsupported) < MAX_PROBLEMS:
            self._unsupported.append(ConfigProblem(message, position, hint))

    def syntax(
        self, message: str, position: Position, hint: str | None = None, *, structural: bool = False
    ) -> None:
        """Add a mistake in the text itself; a second one on the same line is a consequence and is dropped."""
        self.is_structural = self.is_structural or structural
        self._mistakes += 1
        line = (position.file, position.line)
        if line not in self._lines:
            self._lines.add(line)
            if len(self._found) < MAX_PROBLEMS:
                self._found.append(ConfigProblem(message, position, hint, is_syntax=True))

    def warn(self, message: str, position: Position | None, hint: str | None = None) -> None:
        self.warnings.append(ConfigProblem(message, position, hint))

    def remark(self, message: str, position: Position | None) -> None:
        if len(self.remarks) < MAX_PROBLEMS:
            self.remarks.append(ConfigProblem(message, position))

    def raise_any(self) -> None:
        """Raise ConfigError with all problems, in the order of the text, if there are any."""
        if not self._found:
            return
        files = list(dict.fromkeys(found.position.file for found in self._found if found.position))
        order = {file: number for number, file in enumerate(files)}
        in_order = sorted(self._found, key=lambda found: _place(found, order))
        if self.full:
            in_order.append(ConfigProblem("there may be more problems; reading ended here"))
        raise ConfigError(in_order)


def shown(name: str) -> str:
    """A name from the configuration as a message shows it: quoted, on one line and of bearable length."""
    if len(name) > _MAX_SHOWN:
        name = f"{name[:_MAX_SHOWN]}…"
    return f'"{on_one_line(name)}"'


def _place(problem: ConfigProblem, order: dict[str, int]) -> tuple[int, int, int]:
    at = problem.position
    # What concerns no single place comes last.
    return (len(order), 0, 0) if at is None else (order[at.file], at.line, at.column)
