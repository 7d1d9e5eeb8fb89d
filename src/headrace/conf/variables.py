"""Variables: `$NAME` stands for a key written above in an enclosing block, or for the environment.

Here lives the look-up and its bounds. Never lives here: reading of text; the parser hands that in, since a
value from the environment is read as if it stood in the file (`4222` is a number, `[a, b]` a list).

A name is looked up where it is written, so a key defined further down, or in the file that includes this
one, is not seen. Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.conf.problems import Problems, shown
from headrace.conf.source import SourceText, checked
from headrace.conf.tree import BadValue, Scalar
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.conf.lexer import VariableName
    from headrace.conf.tree import Entry, Node

    ReadValue = Callable[[SourceText, Problems], Node | None]

MAX_ENVIRONMENT_DEPTH: Final = 20
"""Variables in the environment that may refer to one another in a row; one more is an error."""


class _UnresolvedError(Exception):
    """Why a variable has no value; never shows a value, which may be a secret."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Variables:
    """Looks variables up; one object for a file and all it includes."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._in_progress: list[str] = []

    def resolve(
        self,
        variable: VariableName,
        scopes: Iterable[dict[str, Entry]],
        problems: Problems,
        read_value: ReadValue,
    ) -> Node:
        """Resolve a variable: return its value, placed where the variable is; innermost of `scopes` first.

        An unknown or unreadable variable is reported and gives a `BadValue`.
        """
        for scope in scopes:
            entry = scope.get(variable.name)
            if entry is not None:
                entry.used = True
                return replace(entry.node, position=variable.position)
        try:
            return replace(self._from_environment(variable, read_value), position=variable.position)
        except _UnresolvedError as error:
            if self._in_progress:
                # Within the environment there is no place to point at; the reference in the file is one.
                raise
            problems.syntax(str(error), variable.position, error.hint)
            return BadValue(variable.position)

    def _from_environment(self, variable: VariableName, read_value: ReadValue) -> Node:
        name = variable.name
        if name in self._in_progress:
            cycle = [*self._in_progress[self._in_progress.index(name) :], name]
            raise _UnresolvedError(f"variable reference cycle: {' -> '.join(cycle)}")
        if len(self._in_progress) >= MAX_ENVIRONMENT_DEPTH:
            raise _UnresolvedError("variables in the environment refer to too many others in a row")
        text = self._environ.get(name)
        if text is None:
            hint = "neither by a key above nor in the environment"
            if self._in_progress:
                hint = f"{shown(self._in_progress[-1])} in the environment refers to it"
            raise _UnresolvedError(f"variable {shown(name)} is not defined", hint)
        if not text.strip(" \t"):
            return Scalar("", variable.position, "")
        problems = Problems()
        self._in_progress.append(name)
        try:
            node = read_value(checked(SourceText(f"${name}", text)), problems)
        except ConfigError:
            node = None
        finally:
            self._in_progress.pop()
        if node is None or len(problems):
            raise _UnresolvedError(
                f'variable "{name}" could not be read: its value in the environment is malformed',
                "put quotes into the value if a string is meant",
            )
        return node
