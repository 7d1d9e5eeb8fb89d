"""Lines for people who watch a long run: aligned facts, failures, warnings; rich's colours on a terminal.

Here lives what every such display has; bars and tables live with who shows them. Nothing is measured or
decided. Needs the package rich, which a server does not install.
"""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console
from rich.text import Text


class Terminal:
    """A console; subclasses say how wide names of facts are, and a page where there is no terminal."""

    NAME_WIDTH: ClassVar = 14
    WIDTH_WITHOUT_TERMINAL: ClassVar = 120

    def __init__(self, console: Console | None = None) -> None:
        plain = Console()
        self.console = console or (plain if plain.is_terminal else Console(width=self.WIDTH_WITHOUT_TERMINAL))

    def fact(self, name: str, value: str) -> None:
        """One aligned line."""
        self.line((f"  {name:<{self.NAME_WIDTH}}", "dim"), value)

    def failed(self, text: str) -> None:
        self.line(("failed: ", "bold red"), text)

    def warn(self, text: str) -> None:
        self.line(("warning: ", "yellow"), text)

    def line(self, start: tuple[str, str], rest: str) -> None:
        """A text with its style, and the rest without one; neither is taken for markup or cut."""
        self.console.print(Text.assemble(start, rest), soft_wrap=True, highlight=False)
