"""The configuration language: what is read, where it stands, what is refused and how."""

from __future__ import annotations

import pytest

from headrace.conf.language import parse_file, parse_text
from headrace.conf.parser import MAX_DEPTH
from headrace.conf.problems import MAX_PROBLEMS
from headrace.conf.tree import BadValue, ListNode, MapNode, Scalar, plain
from headrace.errors import ConfigError, Position


def read(text: str | bytes) -> object:
    return plain(parse_text(text, {}))


def complaints(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_text(text, {})
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("{}", {}),
        ("a: 1\nb = 2\nc 3", {"a": 1, "b": 2, "c": 3}),
        ("a: 1; b: 2, c: 3", {"a": 1, "b": 2, "c": 3}),
        ("a {b {c: 1}}", {"a": {"b": {"c": 1}}}),
        ("a: {b: 1, c: 2,}\n", {"a": {"b": 1, "c": 2}}),
        ("a [1\n2]", {"a": [1, 2]}),
        ("a: [x, [y], {z: 1}]", {"a": ["x", ["y"], {"z": 1}]}),
        ("a: [{b: 1}\n{b: 2}]", {"a": [{"b": 1}, {"b": 2}]}),
        ("a: 'it \"s'", {"a": 'it "s'}),
        ('a: "x\\t\\"\\\\ \\x41\\xc3\\xa9"', {"a": 'x\t"\\ Aé'}),
        ('a: "\\ud83d\\ude00\\/"', {"a": "😀/"}),
        ("a: 'no \\n escape'", {"a": "no \\n escape"}),
        ("a: x\\ny", {"a": "x\ny"}),
        ("a: 'two\nlines'", {"a": "two\nlines"}),
        ("a: (\none (x)\n two\n)\nb: 1", {"a": "\none (x)\n two\n", "b": 1}),
        ("a: nats://h:1/#x,", {"a": "nats://h:1/#x"}),
        ("a: #b", {"a": "#b"}),
        ("'k 1': 1, \"k:2\": 2, foo.*.>: 3", {"k 1": 1, "k:2": 2, "foo.*.>": 3}),
        ('"a\\u0041\\n": 1, "b\\d": 2', {"aA\n": 1, "b\\d": 2}),
        ("a: 1\na: 2", {"a": 2}),
        ("A: 1\na: 2", {"A": 1, "a": 2}),
        ("include: x", {"include": "x"}),
        ('{"a": [1, -2.5, true, "x", {}, []]}', {"a": [1, -2.5, True, "x", {}, []]}),
        ('{"a"\n:\n1\n,\n"b": 2}', {"a": 1, "b": 2}),
        ("{a: 1\n{b: 2}\n}\nc: 3", {"a": 1, "b": 2, "c": 3}),
        ("\ufeffa: 1", {"a": 1}),
        (b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
    ],
)
def test_parse_of_valid_text_gives_values(text: str | bytes, expected: object) -> None:
    assert read(text) == expected


def test_parse_gives_position_of_keys_and_values() -> None:
    root = parse_text("a: 1\n  b {\n\tc: [x, $a]\n}", {})
    b = root.entries["b"]
    assert b.position == Position("<text>", 2, 3)
    assert isinstance(b.node, MapNode)
    assert b.node.position == Position("<text>", 2, 5)
    c = b.node.entries["c"]
    assert c.position == Position("<text>", 3, 2)
    assert isinstance(c.node, ListNode)
    assert [item.position.column for item in c.node.items] == [6, 9]
    # A variable's value stands where the variable does.
    assert isinstance(c.node.items[1], Scalar)
    assert c.node.items[1].value == 1


def test_parse_columns_count_characters_not_bytes() -> None:
    assert complaints("'äöü': .5")[0].startswith("<text>:1:8: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c", "1:5: expected a new line or ',' after the value, not 'c'"),
        ('a: "b"c', "1:7: expected a new line"),
        ("a: {b: 1}}\nc: 1", "1:10: this '}' closes nothing"),
        ("a: 1\n]", "2:1: this ']' closes nothing"),
        ("a: [1\nb: {c: 1}", "1:4: '[' is never closed"),
        ("a {\n b: [1, 2\n}\n", "3:1: '[' of line 2 is not closed before this '}'"),
        ("a: [{b: 1]", "1:10: '{' of line 1 is not closed before this ']'"),
        ('a: "b\nc: "d"\n', "1:4: is this string's closing \" missing?"),
        ("a: 'b", "1:4: the string that starts here with ' is never closed"),
        ('"a: 1', '1:1: the string that starts here with " is never closed'),
        ("a: (b)\n", "1:4: '(' is never closed"),
        ("debug\nport: 1", '1:1: key "debug" has no value'),
        ("{a, b: 1}", '1:2: key "a" has no value'),
        ("a {b}", '1:4: key "b" has no value'),
        ("a {b: }", '1:4: key "b" has no value'),
        ("tls{\n a: 1\n}", "1:4: a space is missing before '{'"),
        ("a: {{b: 1}}", "1:5: a key is missing before '{'"),
        ("[1, 2]", "1:1: a key is missing before '['"),
        ("= 1", "1:1: a key is missing before '='"),
        ("a: [,]", "1:5: ',' with no value before it"),
        ("a: '\\d', b: \"\\d\"", "1:14: unknown escape"),
        ('a: "\\ud83d"', "1:5: the escapes do not make a Unicode character"),
        ('a: "\\xff"', "1:5: the escapes do not make a Unicode character"),
        ("include {}", "1:9: a file name must follow 'include'"),
        ("include 'x", "1:9: the string that starts here"),
        ("a: 1\x00", "1:5: a NUL character"),
        (b"a: 1\nb: \xff", "2:4: not UTF-8 text: byte 0xff"),
        (b"\xef\xbb\xbfa: \xe9", "1:4: not UTF-8 text"),
        ("a: \ud800", "1:4: not a Unicode character"),
    ],
)
def test_parse_of_broken_text_says_where_and_what(text: str | bytes, expected: str) -> None:
    assert complaints(text)[0].startswith(f"<text>:{expected}")


def test_parse_reports_all_mistakes_at_once_in_order() -> None:
    found = complaints("a: .5\nb {\n c: 12-3\n d: 1\n e: $NOPE\n}\nf: 1 2\ng: 1kx\nh: 1kbb")
    assert [problem.split(": ")[0] for problem in found] == [
        "<text>:1:4",
        "<text>:3:5",
        "<text>:5:5",
        "<text>:7:6",
        "<text>:9:4",
    ]


@pytest.mark.parametrize("text", ["a:\nb: $a", "a: .5\nb: $a", "{a, b: $a}", "{a }\nb: $a"])
def test_parse_takes_no_mistake_for_two(text: str) -> None:
    assert len(complaints(text)) == 1


def test_parse_reports_one_mistake_for_one_line() -> None:
    assert len(complaints("a: [.5, .6, .7]")) == 1


def test_parse_messages_are_single_lines_of_bearable_length() -> None:
    found = complaints(f"'{'k' * 500}\n' \n")
    assert len(found) == 1
    assert "\n" not in found[0]
    assert len(found[0]) < 150


def test_parse_of_stray_brace_at_the_end_warns_and_goes_on() -> None:
    assert read("a: 1\n}\n# end\n") == {"a": 1}


@pytest.mark.parametrize("opener", ["a: " + "[" * 5000, "a " + "{a " * 5000, "{" * 5000])
def test_parse_of_deep_nesting_is_refused(opener: str) -> None:
    assert f"nested deeper than {MAX_DEPTH} levels" in complaints(opener)[0]


def test_parse_of_nesting_built_by_variables_is_refused() -> None:
    text = "a0: [1]\n" + "".join(f"a{n}: [$a{n - 1}]\n" for n in range(1, 300))
    assert "nested deeper" in complaints(text)[0]


def test_parse_of_values_multiplied_by_variables_is_refused() -> None:
    row = f"[{'1,' * 50}]"
    text = f"a0: {row}\n" + "".join(f"a{n}: [{f'$a{n - 1},' * 50}]\n" for n in range(1, 10))
    assert "more than 1000000 values" in complaints(text)[0]


def test_parse_of_values_multiplied_at_the_top_is_refused() -> None:
    text = f"a: [{'1,' * 2000}]\n" + "".join(f"b{n}: $a\n" for n in range(600))
    assert "more than 1000000 values" in complaints(text)[0]


def test_parse_of_hopeless_text_ends_early() -> None:
    found = complaints("a b c\n" * 10_000)
    assert len(found) == MAX_PROBLEMS + 1
    assert "there may be more problems" in found[-1]


@pytest.mark.parametrize(
    "text",
    [
        "a (\n" * 20_000,
        "{" + "a (, " * 20_000,
        'a: "x\n' * 20_000,
        'a: "' + "\\n" * 50_000,
        "a: " + "\\" * 50_000,
        "a: [" + "," * 50_000,
        "]" * 50_000,
        "a: " + "1" * 100_000,
        "a: -" + "0" * 100_000 + "x",
        "# " * 100_000 + "\n" + "/" * 100_000,
        "a: 1 " + "b" * 100_000,
        "k" * 200_000,
    ],
    ids=range(12),
)
def test_parse_of_adversarial_text_ends_soon(text: str) -> None:
    # Quadratic work on any of these takes minutes; the run of the suite is the clock.
    with pytest.raises(ConfigError):
        parse_text(text + "\n$", {})


def test_parse_file_that_does_not_exist_is_an_error(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"open .*none\.conf: no such file or directory"):
        parse_file(str(tmp_path / "none.conf"))


def test_parse_file_that_is_a_directory_is_an_error(tmp_path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        parse_file(str(tmp_path))


def test_parse_file_with_nul_in_its_name_is_an_error() -> None:
    with pytest.raises(ConfigError, match="null byte"):
        parse_file("a\0b")


def test_parse_file_names_the_file_in_positions(tmp_path) -> None:
    file = tmp_path / "x.conf"
    file.write_text("a: .5")
    with pytest.raises(ConfigError) as caught:
        parse_file(str(file))
    assert caught.value.problems[0].position == Position(str(file), 1, 4)


def test_parse_file_longer_than_a_configuration_is_refused(tmp_path, monkeypatch) -> None:
    file = tmp_path / "x.conf"
    file.write_text("a: 1\n" * 10)
    monkeypatch.setattr("headrace.conf.source.MAX_FILE_BYTES", 20)
    with pytest.raises(ConfigError, match="not a configuration"):
        parse_file(str(file))


def test_plain_of_unreadable_value_is_none() -> None:
    assert plain(BadValue(Position("x", 1, 1))) is None
