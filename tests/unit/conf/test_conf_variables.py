"""Variables: scopes, the environment, cycles."""

from __future__ import annotations

import pytest

from headrace.conf.language import parse_text
from headrace.conf.tree import plain
from headrace.errors import ConfigError


def read(text: str, **environ: str) -> object:
    return plain(parse_text(text, environ))


def complaint(text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_text(text, environ)
    (problem,) = caught.value.problems
    return str(problem)


def test_variable_takes_the_key_above() -> None:
    assert read("n: 5\na: $n") == {"n": 5, "a": 5}


def test_variable_takes_the_innermost_block() -> None:
    assert read("n: 1\na { n: 2, b { c: $n } }\nd: $n") == {"n": 1, "a": {"n": 2, "b": {"c": 2}}, "d": 1}


def test_variable_sees_through_lists() -> None:
    assert read("n: 1\na: [[$n]]") == {"n": 1, "a": [[1]]}


def test_variable_may_be_a_container() -> None:
    assert read("m {x: [1, 2]}\na: $m") == {"m": {"x": [1, 2]}, "a": {"x": [1, 2]}}


def test_variable_key_wins_over_the_environment() -> None:
    assert read("N: 1\na: $N", N="2") == {"N": 1, "a": 1}


def test_variable_names_are_case_sensitive() -> None:
    assert 'variable "n" is not defined' in complaint("N: 1\na: $n")


def test_variable_is_marked_as_used() -> None:
    root = parse_text("n: 1\nm: 2\na: $n", {})
    assert [root.entries[key].used for key in "nma"] == [True, False, False]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5", 5),
        ("4kb", 4096),
        ("true", True),
        ("text", "text"),
        ("'12-3'", "12-3"),
        ("[1, 2]", [1, 2]),
        ("{a: 1\nb: {c: [2]}}", {"a": 1, "b": {"c": [2]}}),
        ("$OTHER", "seen"),
        ("[$OTHER, x]", ["seen", "x"]),
        ("", ""),
        (" \t", ""),
        ("x # comment", "x"),
        ("#x", "#x"),
        ("$2a$11$abc", "$2a$11$abc"),
        ("x\n", "x"),
    ],
)
def test_variable_from_environment_is_read_like_a_value(value: str, expected: object) -> None:
    assert read("a: $V", V=value, OTHER="seen") == {"a": expected}


@pytest.mark.parametrize(
    "value", ["two words", "a,b", "]", "[1", "{a", "'x", "12-3", "a: 1\nb: 2", "\x00", "\n", "[" * 500, "x}"]
)
def test_variable_from_environment_that_is_no_value_is_refused_without_showing_it(value: str) -> None:
    text = complaint("a: 1\nb: $V", V=value)
    assert text.startswith('<text>:2:4: variable "V" could not be read')
    assert value not in text or len(value) < 3


def test_variable_that_nobody_defines_is_an_error() -> None:
    assert complaint("a: $V").startswith('<text>:1:4: variable "V" is not defined')


def test_variable_that_environment_leaves_open_is_an_error() -> None:
    text = complaint("a: $V", V="$W")
    assert 'variable "W" is not defined ("V" in the environment refers to it)' in text


def test_variable_cycle_is_an_error() -> None:
    assert "variable reference cycle: V -> W -> V" in complaint("a: $V", V="$W", W="[1, $V]")


def test_variable_that_refers_to_itself_is_an_error() -> None:
    assert "variable reference cycle: V -> V" in complaint("a: $V", V="$V")


def test_variable_chain_in_environment_has_a_limit() -> None:
    chain = {f"V{n}": f"$V{n + 1}" for n in range(1000)}
    assert "too many others" in complaint("a: $V0", **chain)


@pytest.mark.parametrize("value", ["$2a$11$x", "$2a$", "$2b$10$x", "$2y$10$x", "$2x$10$x"])
def test_bcrypt_hash_is_text(value: str) -> None:
    assert read(f"a: {value}") == {"a": value}


def test_dollar_alone_is_no_variable_name() -> None:
    assert 'variable "" is not defined' in complaint("a: $")
