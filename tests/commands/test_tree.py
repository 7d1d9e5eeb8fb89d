"""The program around the commands: near misses, names, help, output for people and pipes."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from headrace.cli.output import Output, to_json
from headrace.cli.text_table import ColumnKind, TextColumn, cell_width, fitted, tab_separated
from headrace.cli.values import (
    read_duration,
    read_number,
    read_size,
    read_time,
    shown_duration,
    shown_size,
)
from headrace.client.blocking import connect
from headrace.client.system import gather

if TYPE_CHECKING:
    from harness.command_line import CommandLine

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("config", "ls"), "unknown command 'config ls'; did you mean 'context ls'?"),
        (("context", "check"), "did you mean 'headrace config check'?"),
        (("context", "inf"), "did you mean 'context info'?"),
        (("contxt",), "did you mean 'context'?"),
        (("context",), "a command is missing"),
        (("--no-such", "rtt"), "unknown flag '--no-such'"),
    ],
)
def test_a_near_miss_is_answered_in_one_line(
    alone: CommandLine, arguments: tuple[str, ...], text: str
) -> None:
    ran = alone(*arguments)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert text in ran.err


def test_help_has_groups(alone: CommandLine) -> None:
    lines = alone("--help").ok().lines

    places = [lines.index(f"{group}:") for group in ("Run", "Talk", "Look after")]
    assert places == sorted(places)
    assert lines.index("  pub         Publish messages") > places[1]


def test_the_link_nats_has_the_commands_of_the_client(alone: CommandLine) -> None:
    alone.program = "nats"

    assert "  serve " not in alone("--help").ok().out
    assert alone("serve").code == 2
    assert alone("context", "save", "x", "-s", "nats://x").code == 0
    assert alone("context", "save", "x", "-s", "nats://y", "-q").ok().out == "x\n"
    alone.program = "headrace"
    assert alone("context", "save", "x").code == 2


def test_a_command_is_found_by_its_alias(alone: CommandLine) -> None:
    assert alone("ctx", "list").ok().err == ""
    assert alone("req", "subject").code == 7


def test_secrets_do_not_stand_in_a_trace(cli: CommandLine) -> None:
    ran = cli("account", "info", "--trace", "--user", "alice", "--password", "secret")

    assert ran.code == 0
    assert "> $SYS.REQ.USER.INFO" in ran.err
    assert "secret" not in ran.err


def test_no_command_loads_what_it_does_not_need(cli: CommandLine) -> None:
    """Modules are counted, since their number is what a start costs, whatever the machine does besides."""
    code = (
        "import sys; from headrace.cli.main import main; main(['headrace', 'rtt', '1']);"
        "print(len(sys.modules), *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=cli.environment, capture_output=True, text=True, check=True
    )
    count, *modules = done.stdout.splitlines()[-1].split()

    heavy = {"ssl", "hmac", "inspect", "asyncio", "rich", "difflib", "cryptography", "typing_extensions"}
    heavy |= {"msgspec", "uuid", "datetime", "decimal", "urllib", "pathlib", "shutil", "encodings.idna"}
    assert not heavy & set(modules)
    assert {name for name in modules if name.startswith("headrace.cli.client.")} == {
        "headrace.cli.client.rows", "headrace.cli.client.rows.rtt", "headrace.cli.client.rtt"
    }  # fmt: skip
    assert int(count) <= 120


@pytest.mark.parametrize(
    ("text", "ns"), [("1h30m", 5400), ("2d", 172_800), ("1w2d1s", 777_601), ("0", 0), ("1.5s", 1.5)]
)
def test_durations_are_read(text: str, ns: float) -> None:
    assert read_duration(text) == ns * SECOND


@pytest.mark.parametrize(
    ("text", "size"), [("1GB", 1 << 30), ("512KiB", 512 << 10), ("1k", 1000), ("1.5M", 1_500_000), ("7", 7)]
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert read_size(text) == size


def test_times_are_read() -> None:
    assert read_time("-15m", NOW) == NOW - 900 * SECOND
    assert read_time("+15m", NOW) == NOW + 900 * SECOND
    assert read_time("15m", NOW, back=True) == NOW - 900 * SECOND
    assert read_time("today", NOW) == 1_699_920_000 * SECOND
    assert read_time("2023-11-14", NOW) == 1_699_920_000 * SECOND
    for wrong in ("15m", "tomorrow", "2023-13-01", ""):
        with pytest.raises(ValueError, match=r"."):
            read_time(wrong, NOW)


@pytest.mark.parametrize(
    ("read", "text"), [(read_duration, "5"), (read_size, "5XB"), (read_size, "9999E"), (read_number, "-1")]
)
def test_wrong_values_are_refused(read: object, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)  # type: ignore[operator]


def test_people_get_units() -> None:
    assert [shown_size(size) for size in (0, 1023, 1536, 5 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
    shown = [shown_duration(ns) for ns in (0, 1500, 2_345_678, SECOND, 192 * SECOND, 187_200 * SECOND)]
    assert shown == ["0s", "1.5µs", "2.35ms", "1s", "3m12s", "2d4h"]


COLUMNS = (TextColumn("Name"), TextColumn("Messages", ColumnKind.NUMBER), TextColumn("Size", ColumnKind.SIZE))


def test_tables_are_fitted_to_a_terminal() -> None:
    rows = [("a" * 30 + "z" * 30, 1_204_331, 1536), ("注文", None, 0)]

    lines, left_out = fitted(COLUMNS, rows, 40)

    assert left_out == []
    assert [cell_width(line) <= 40 for line in lines] == [True] * 3
    assert lines[1].startswith("aaaaaaaa")
    assert "…zzz" in lines[1]
    assert lines[1].endswith("1,204,331  1.5 KiB")
    assert lines[2].startswith("注文 ")
    assert lines[2].endswith("0 B")


def test_times_are_never_cut_and_optional_columns_go_first() -> None:
    columns = (
        TextColumn("Name"),
        TextColumn("When", ColumnKind.TIME),
        TextColumn("Leader", is_optional=True),
        TextColumn("Size", ColumnKind.SIZE),
        TextColumn("Subjects", ColumnKind.NUMBER, is_optional=True),
    )
    rows = [("a" * 30, time.time_ns(), "server-1", 1536, 1), ("b", NOW, "server-2", 1536, 10)]

    wide, less, least = (fitted(columns, rows, width) for width in (90, 55, 40))

    assert wide.left_out == []
    assert "2023-11-14 22:13:20" in wide.lines[2]
    assert less.left_out == ["Subjects"]
    assert re.search(r" {2}\d\d-\d\d \d\d:\d\d {2}server-1", less.lines[1])
    assert "  2023-11-14 " in less.lines[2]
    assert least.left_out == ["Leader", "Subjects"]
    assert max(map(cell_width, least.lines)) <= 40


def test_tables_in_pipes_are_exact() -> None:
    assert tab_separated(COLUMNS, [("a\tb\x1b", 1_204_331, 1536)]) == [
        "name\tmessages\tsize", "a\\tb\\x1b\t1204331\t1536"
    ]  # fmt: skip


def test_json_is_safe_on_a_terminal() -> None:
    text = "é\x1b\x7f\x9b\u202e漢\U0001f600"

    shown = to_json({"t": text})

    assert json.loads(shown) == {"t": text}
    assert shown.isprintable()
    assert "é" in shown


def test_a_template_prints_keys() -> None:
    out = io.StringIO()
    output = Output("x", template=r"{{{a.b}}}\t{list.1}{none}\n.", out=out)

    output.document({"a": {"b": "\x1b"}, "list": [1, 2]}, lambda: None)

    assert out.getvalue() == "{\\x1b}\t2\n.\n"


@pytest.mark.parametrize("template", ["{", "}", "{}", "a {b"])
def test_a_template_with_a_mistake_is_wrong_use(cli: CommandLine, template: str) -> None:
    assert cli("rtt", "--format", template).code == 2


def test_colours_are_for_terminals_that_want_them(cli: CommandLine) -> None:
    for variables, expected in (({}, True), ({"NO_COLOR": "1"}, False)):
        with cli.terminal("rtt", "1", **variables) as terminal:
            assert terminal.end() == 0
        assert ("\x1b[" in terminal.seen) == expected
    assert "\x1b" not in cli("rtt", "1").ok().out


def test_one_request_has_the_answers_of_many(cli: CommandLine) -> None:
    with connect(cli.url) as asker, connect(cli.url) as one:
        sid = one.subscribe("who")
        one.subscribe("who")
        one.flush()
        asker.publish("before", b"")
        answers = gather(asker, "who", b"", count=2, timeout=10)
        asked: list[bytes] = []

        def reply() -> None:
            while len(asked) < 2:
                batch = one.receive(10)
                for head in batch.heads:
                    asked.append(head[1])
                    one.publish(head[2] or b"", head[1])
            one.flush()

        thread = threading.Thread(target=reply)
        thread.start()
        found = sorted(answer.data for answer in answers)
        thread.join(10)

    assert found == sorted(asked)
    assert sid in found
