"""Includes: the file that `include` means, and the bounds of inclusion.

Here live paths, cycles and bounds. Never lives here: reading of text; the parser hands that in.

A relative path starts at the directory of the including file. The keys of the included file become keys
of the block that includes it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from headrace.conf.source import read_file
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.problems import Problems
    from headrace.conf.source import SourceText
    from headrace.conf.tree import MapNode, Scalar

MAX_INCLUDE_DEPTH: Final = 20
"""Files that may include one another in a row; one more is an error."""

MAX_INCLUDES: Final = 1000
"""Inclusions in one configuration; more is an error (ten files may include each other a thousandfold)."""


class Includes:
    """Opens included files; one object for a file and all it includes."""

    def __init__(self, main_file: str | None) -> None:
        self._open = [] if main_file is None else [os.path.realpath(main_file)]
        self._count = 0

    def load(
        self, name: Scalar, directory: str, problems: Problems, parse: Callable[[SourceText], MapNode]
    ) -> MapNode | None:
        """The keys of the file; None if it cannot be read, which is reported at the include."""
        path = os.path.normpath(os.path.join(directory, name.text))
        real = os.path.realpath(path) if "\0" not in path else path
        self._count += 1
        if real in self._open:
            problems.syntax(f"include cycle: {path} includes itself", name.position, structural=True)
        elif len(self._open) > MAX_INCLUDE_DEPTH or self._count > MAX_INCLUDES:
            problems.syntax("too many included files", name.position, structural=True)
        else:
            return self._read(name, path, real, problems, parse)
        return None

    def _read(
        self, name: Scalar, path: str, real: str, problems: Problems, parse: Callable[[SourceText], MapNode]
    ) -> MapNode | None:
        try:
            source = read_file(path)
        except ConfigError as error:
            for problem in error.problems:
                message = f"include: {problem.message}"
                # What the file lacks may be what other keys need.
                problems.syntax(message, problem.position or name.position, structural=True)
            return None
        self._open.append(real)
        try:
            return parse(source)
        finally:
            self._open.pop()
