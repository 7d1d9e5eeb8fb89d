"""What is read at once (`conf.plain`) is what the parser reads by itself: trees, places and mistakes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import pytest
from conf_verdicts import CASES

from headrace.conf import language, parser
from headrace.conf.problems import Problems
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.conf.tree import MapNode

TEXTS: Final = [case.text for case in CASES if "include" not in case.text]
"""All of the language that the tests of options use."""

NESTED: Final = """a { # first
  b: [ 1, 2.5 # two
    'x' "y" // three
  ], "c d" = {e f; g: $2a$11$hash, h: "$v"
  i: [[] {} [ {j: 2001-02-03T04:05:06Z} ] ]
  }
  k:l,m = true n:
     1k
  key.of.>: -7;
}
[ b ] { c { d {} } }
"""
PIECES: Final = (
    *" \t\r\n,;:=#{}[]()\"'\\$/\x0b\x1c\u2028\xa0é\U0001f600",
    *(
        "//",
        "\n\n",
        "include ",
        " include",
        "$a",
        "${",
        "$2a$x",
        "a: ",
        "b ",
        "x=",
        "true",
        "12",
        "-",
        "1.5s",
        "\\n",
    ),
    *('"s"', "'t'", "{a: 1}", "[1, 2]", "{a {b [c {d e}]}}", "# c\n", "key: {", "]}", "a.b.>"),
)
COUNT: Final = 4000


class Nothing:
    """Reads nothing, so that the parser reads everything."""

    def __init__(self, *_: object) -> None:
        pass

    def entries(self, offset: int, *given: Any) -> tuple[int, bool]:
        return offset, given[2]

    items = entries


def outcome(text: str) -> tuple[MapNode | None, list[str]]:
    problems = Problems()
    try:
        source = language.text_source(text)
        root = language.read_tree(source, None, {"v": "7", "a": "[1, {b: c}]"}, problems)
        problems.raise_any()
    except ConfigError as error:
        return None, [f"{problem.position} {problem}" for problem in error.problems]
    return root, [str(warning) for warning in problems.warnings]


def check(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = outcome(text)
    with monkeypatch.context() as patched:
        patched.setattr(parser, "PlainReader", Nothing)
        expected = outcome(text)
    assert at_once == expected, repr(text)


def test_texts_of_options_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in TEXTS:
        for wrapped in (text, f"{{{text}}}", f"a {{\n{text}\n}}", f"a: [{{{text}}}, 1]"):
            check(wrapped, monkeypatch)


def test_changed_texts_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    for _ in range(COUNT):
        text = chance.choice((NESTED, f"x {{ {chance.choice(TEXTS)} }}"))
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(text) + 1)
            end = min(len(text), start + chance.choice((0, 0, 1, 2, 9)))
            text = text[:start] + chance.choice(PIECES) + text[end:]
        check(text, monkeypatch)


@pytest.mark.parametrize("depth", [97, 98, 99, 100, 101])
def test_depth_is_bounded_alike(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(f"a {{ b: {'[' * depth}{']' * depth} }}", monkeypatch)
    check("a " + "{ b " * depth + "{}" + "}" * depth, monkeypatch)


@pytest.mark.parametrize("count", [7, 8, 9, 10])
def test_the_number_of_values_is_bounded_alike(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MAX_VALUES", 10)
    check(f"a {{ b: [{'1, ' * count}] }}", monkeypatch)
    check("a { " + "".join(f"k{number}: 1\n" for number in range(count)) + "}", monkeypatch)


def test_it_stops_in_front_of_what_is_not_plain() -> None:
    text = 'a: {b: 1}, c: [1, "\\n"]'
    source = language.text_source(text)
    found: dict[str, Any] = {}
    reader = parser.PlainReader(text, source.name, 100)
    assert reader.entries(0, source.position(0), found, False, 9) == (text.index("c"), False)
    assert list(found) == ["a"]
