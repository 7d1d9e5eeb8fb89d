"""Commands on a terminal and in pipes that end: windows that change, Ctrl-C, readers that have enough."""

from __future__ import annotations

import shlex
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from harness.waiting import PATIENCE
from headrace.client.blocking import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine

SYSTEM = ("--user", "admin", "--password", "secret")
CLEARED = "\x1b[H\x1b[2J"

pytestmark = pytest.mark.parametrize("server", ["headrace"], indirect=True)
"""What is shown where is the client's doing, so one server is enough."""


@contextmanager
def messages(url: str, subject: str) -> Iterator[None]:
    """Messages, one after the other, for a block."""
    over = threading.Event()

    def publish() -> None:
        with connect(url) as connection:
            while not over.wait(0.01):
                connection.publish(subject, b"x" * 100)
                connection.flush()

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_watched_report_follows_the_window_until_ctrl_c(cli: CommandLine) -> None:
    words = ("server", "report", "connections", "--watch", "100ms", "--expect", "1", *SYSTEM)
    with cli.terminal(*words, width=80) as shown:
        shown.wait_for("no room for:")
        shown.resize(200)
        shown.wait_for("In bytes  Out bytes")
        end = len(shown.seen)
        shown.wait_for(CLEARED, after=end)
        shown.type("\x03")
        assert shown.end() == 130

    assert "interrupted" in shown.seen
    assert shown.seen.count(CLEARED) > 1


def test_ctrl_c_at_a_question_changes_nothing(cli: CommandLine) -> None:
    cli("stream", "add", "ASKED", "--subjects", "asked.>").ok()
    with cli.terminal("stream", "rm", "ASKED") as shown:
        shown.wait_for("type ASKED to go on")
        shown.type("\x03")
        assert shown.end() == 130

    cli("stream", "rm", "ASKED", "--force").ok()


def test_ctrl_c_ends_what_goes_on(cli: CommandLine) -> None:
    with cli.terminal("sub", "ended.>") as shown:
        shown.wait_for("listening")
        cli("pub", "ended.a", "the last words").ok()
        shown.wait_for("the last words")
        shown.type("\x03")
        assert shown.end() == 130


@pytest.mark.parametrize(
    "line",
    [
        "top --json -d 0.1",
        "sub flowing.>",
        "sub flowing.> --json",
        "server report cpu --watch 100ms --expect 1",
        "server ping --count 100000 --interval 10ms --expect 1 --json",
        "events --subjects flowing.> --short",
    ],
)
def test_a_reader_that_has_enough_ends_it_quietly(cli: CommandLine, line: str) -> None:
    """As `| head -1` does: the command learns of it with what it prints next."""
    user = SYSTEM if line.startswith("server") else ()
    with messages(cli.url, "flowing.a"), cli.started(*shlex.split(line), *user) as running:
        assert running.line()
        assert running.process.stdout is not None
        running.process.stdout.close()
        assert running.process.wait(PATIENCE) == 0
        assert running.process.stderr is not None
        said = running.process.stderr.read().decode()

    assert "Traceback" not in said
    assert "Broken pipe" not in said


def test_head_has_the_first_line(cli: CommandLine) -> None:
    """In a shell, with what is short enough for a pipe that nobody reads."""
    pipe = ("/bin/sh", "-c", '"$@" | head -1; echo ended', "sh")
    with cli.terminal("errors", "ls", before=pipe) as shown:
        assert shown.end() == 0

    lines = shown.seen.splitlines()
    assert lines[0].startswith("number\t")
    assert lines[1:] == ["ended"]


def test_nothing_that_others_wrote_reaches_the_terminal(cli: CommandLine) -> None:
    hostile = "\x1b]0;pwned\x07\x1b[31m\x9b31m"
    cli("stream", "add", "HOSTILE", "--subjects", "hostile.>", "--description", hostile).ok()
    cli("pub", "hostile.a", hostile, "-J", "-H", f"Name:{hostile}").ok()
    try:
        for line in (
            "stream view HOSTILE",
            "stream info HOSTILE",
            "stream ls",
            "sub --stream HOSTILE --count 1",
        ):
            with cli.terminal(*shlex.split(line), "--color", "never", width=200) as shown:
                assert shown.end() == 0
            assert not {"\x1b", "\x07", "\x9b"} & set(shown.seen), line
    finally:
        cli("stream", "rm", "HOSTILE", "--force").ok()
