"""One bench's stored result and its section of a page: written, shown and rendered.

Never here: what is measured, or the words for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.render import RESULTS, replace_section

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Section(NamedTuple):
    """`name` is that of the result file and of the markers in `page`; `words` gives a result as Markdown."""

    name: str
    page: Path
    words: Callable[[dict[str, Any]], str]
    results: Path = RESULTS

    @property
    def result(self) -> Path:
        return self.results / f"{self.name}.json"

    def publish(self, result: dict[str, Any], own_name: str | None) -> None:
        """Write a result and show it. Under a name of its own it goes to `local`, and the page stays."""
        path = self.results / "local" / f"{own_name}.json" if own_name else self.result
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(self.words(json.loads(path.read_text(encoding="utf-8"))))
        if not own_name:
            self.render()

    def render(self) -> None:
        """Fill the page from the stored result. Raises: BenchError for a page without the markers."""
        text = "Not measured yet.\n"
        if self.result.exists():
            text = self.words(json.loads(self.result.read_text(encoding="utf-8")))
        page = self.page.read_text(encoding="utf-8")
        self.page.write_text(replace_section(page, self.name, text), encoding="utf-8")
