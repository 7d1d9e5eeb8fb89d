"""Ready-made pipelines: commented specifications that ship with the product.

Each is a file beside this module that runs as it is once its parameters fit; its first comment line says what
it does. Nothing is run here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from headrace.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Starter:
    """One of them: its name, what it does, its text."""

    name: str
    summary: str
    text: str


def starters() -> list[Starter]:
    """Return all starters, by name."""
    folder = files("headrace.pipelines") / "starters"
    found = []
    for file in folder.iterdir():
        if file.name.endswith(".yaml"):
            text = file.read_text("utf-8")
            summary = text.splitlines()[0].removeprefix("#").strip()
            found.append(Starter(file.name.removesuffix(".yaml"), summary, text))
    return sorted(found, key=lambda one: one.name)


def starter(name: str) -> Starter:
    """The one of this name. Raises: HeadraceError with the nearest name."""
    from difflib import get_close_matches

    known = {one.name: one for one in starters()}
    if name in known:
        return known[name]
    close = get_close_matches(name[:40], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
    raise HeadraceError(f"no ready-made pipeline {name!r}: {hint}")
