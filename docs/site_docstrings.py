"""Docstrings as paragraphs: an extension of griffe, which reads them for the reference of the site."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import griffe

if TYPE_CHECKING:
    from griffe import Object

_ENTRY: Final = re.compile(r"(?<=[.:])\n(?=Raises: |Cost: |`\w+`: |`\w+` [-\d])")
"""The end of a line after which something is explained by its name."""


def paragraphs(docstring: str) -> str:
    """Return a docstring in which errors, costs and arguments that begin a line begin a paragraph."""
    return re.sub(r"^Raises: ", "**Raises:** ", _ENTRY.sub("\n\n", docstring), flags=re.MULTILINE)


class Paragraphs(griffe.Extension):  # type: ignore[misc]
    """Put the docstrings of all objects into paragraphs."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = paragraphs(obj.docstring.value)
