"""The NATS configuration language: a text or file in, a tree with positions out.

Here lives the way in; the parts are `lexer`, `parser`, `variables`, `includes`. Never lives here: any
option's name. Turning a tree into options is `binding`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from headrace.conf.includes import Includes
from headrace.conf.parser import Parser, Reading
from headrace.conf.problems import Problems
from headrace.conf.source import SourceText, checked, decode, read_file
from headrace.conf.variables import Variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.tree import MapNode

TEXT_NAME: Final = "<text>"
"""Stands for the file name in messages about a configuration that came as text."""


__all__ = ["TEXT_NAME", "parse_file", "parse_text", "read_file", "read_tree", "text_source"]


def parse_file(path: str, environ: Mapping[str, str] = os.environ) -> MapNode:
    """The tree of a configuration file and all it includes.

    Raises: ConfigError with everything that is wrong.
    """
    problems = Problems()
    root = read_tree(read_file(path), path, environ, problems)
    problems.raise_any()
    return root


def parse_text(text: str | bytes, environ: Mapping[str, str] = os.environ) -> MapNode:
    """The tree of a configuration text; relative includes start at the working directory.

    Raises: ConfigError with everything that is wrong.
    """
    problems = Problems()
    root = read_tree(text_source(text), None, environ, problems)
    problems.raise_any()
    return root


def text_source(text: str | bytes) -> SourceText:
    """A text as the source of a configuration.

    Raises: ConfigError if it is not text.
    """
    if isinstance(text, bytes):
        return decode(TEXT_NAME, text)
    return checked(SourceText(TEXT_NAME, text.removeprefix("\ufeff")))


def read_tree(
    source: SourceText, path: str | None, environ: Mapping[str, str], problems: Problems
) -> MapNode:
    """The tree of a source; what is wrong goes to `problems`, and the tree then lacks what could not be read.

    `path` is the source's file, if it has one, so that it is not included again.
    """
    reading = Reading(problems, Variables(environ), Includes(path))
    return Parser(source, reading).parse()
