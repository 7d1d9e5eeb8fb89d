"""The syntax of arguments: that of Go's flag package."""

from __future__ import annotations

import pytest

from headrace.cli.arguments import ArgumentFlag, FlagKind, UsageError, read_arguments

FLAGS = (
    ArgumentFlag(("p", "port"), "port", FlagKind.INTEGER, ""),
    ArgumentFlag(("a", "addr"), "host", FlagKind.TEXT, ""),
    ArgumentFlag(("V",), "trace", FlagKind.SWITCH, ""),
    ArgumentFlag(("D", "debug"), "debug", FlagKind.SWITCH, ""),
    ArgumentFlag(("DV",), "both", FlagKind.SWITCH, ""),
)


def read(*arguments: str) -> tuple[list[tuple[str, object]], list[str]]:
    given, rest = read_arguments(arguments, FLAGS)
    return [(one.flag.target, one.value) for one in given], rest


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("-p 1", [("port", 1)]),
        ("--p 1", [("port", 1)]),
        ("-port 1", [("port", 1)]),
        ("--port=1", [("port", 1)]),
        ("-p=1", [("port", 1)]),
        ("-p -1", [("port", -1)]),
        ("-p=+1", [("port", 1)]),
        ("-p 0x10", [("port", 16)]),
        ("-p 010", [("port", 8)]),
        ("-p 0o10", [("port", 8)]),
        ("-p 0b11", [("port", 3)]),
        ("-p 0", [("port", 0)]),
        ("-a -p", [("host", "-p")]),
        ("-a=", [("host", "")]),
        ("-a=b=c", [("host", "b=c")]),
        ("-V", [("trace", True)]),
        ("--V", [("trace", True)]),
        ("-V=true", [("trace", True)]),
        ("-V=T", [("trace", True)]),
        ("-V=1", [("trace", True)]),
        ("-V=FALSE", [("trace", False)]),
        ("-V=f", [("trace", False)]),
        ("-V=0", [("trace", False)]),
        ("-DV", [("both", True)]),
        ("-D -V", [("debug", True), ("trace", True)]),
        ("-p 1 -p 2", [("port", 1), ("port", 2)]),
    ],
)
def test_arguments_are_read_as_go_reads_them(arguments: str, expected: list[tuple[str, object]]) -> None:
    assert read(*arguments.split()) == (expected, [])


@pytest.mark.parametrize(
    ("arguments", "rest"),
    [
        (["x", "-V"], ["x", "-V"]),
        (["-V", "x", "-D"], ["x", "-D"]),
        (["-V", "true"], ["true"]),
        (["--", "-V"], ["-V"]),
        (["-"], ["-"]),
        ([""], [""]),
    ],
)
def test_first_other_argument_ends_the_flags(arguments: list[str], rest: list[str]) -> None:
    assert read(*arguments)[1] == rest


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("-x", "flag provided but not defined: -x"),
        ("--prot 5", "flag provided but not defined: -prot (did you mean --port?)"),
        ("-p4222", "flag provided but not defined: -p4222"),
        ("-VD", "flag provided but not defined: -VD"),
        ("--por 5", "flag provided but not defined: -por (did you mean --port?)"),
        ("-p", "flag needs an argument: -p"),
        ("--addr", "flag needs an argument: -addr"),
        ("-p x", 'invalid value "x" for flag -p'),
        ("-p 1.0", 'invalid value "1.0" for flag -p'),
        ("-p 08", 'invalid value "08" for flag -p'),
        ("-p=", 'invalid value "" for flag -p'),
        ("-p " + "9" * 5000, "invalid value"),
        ("-p ٣", "invalid value"),
        ("-V=yes", 'invalid boolean value "yes" for -V'),
        ("-V=", 'invalid boolean value "" for -V'),
        ("---p", "bad flag syntax: ---p"),
        ("-=x", "bad flag syntax: -=x"),
        ("--=x", "bad flag syntax: --=x"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line_that_names_the_flag(arguments: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(*arguments.split(" "))
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)


def test_other_flags_are_asked_for_only_as_far_as_a_name_needs_them() -> None:
    others = (ArgumentFlag((name,), name, FlagKind.SWITCH, "") for name in ("first", "second", "third"))

    given, _ = read_arguments(["--second", "-V", "--first"], FLAGS, others)

    assert [one.name for one in given] == ["second", "V", "first"]
    assert next(others).target == "third"


def test_name_that_other_flags_have_not_either_is_refused() -> None:
    others = [ArgumentFlag(("routes",), "routes", FlagKind.TEXT, "")]
    with pytest.raises(UsageError, match=r"not defined: -route \(did you mean --routes\?\)"):
        read_arguments(["-route"], FLAGS, others)
