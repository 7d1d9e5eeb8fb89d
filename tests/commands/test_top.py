"""`headrace top`: live on a terminal, once in a pipe, as JSON Lines; the same of both servers."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes import SIDES, ServerProcess
from headrace.client.blocking import connect
from headrace.client.options import ConnectOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.command_line import CommandLine
    from headrace.client.blocking import Connection

ADMIN = ("--user", "admin", "--password", "secret")
HOSTILE = "evil\x1b]0;pwned\x07\x1b[31m"
ENTERS, LEAVES = "\x1b[?1049h", "\x1b[?25h\x1b[?1049l"


@pytest.fixture
def client(cli: CommandLine) -> Iterator[Connection]:
    """A client with a name that would command a terminal, two subscriptions, and ten messages."""
    with connect(cli.url, ConnectOptions(name=HOSTILE)) as connection:
        connection.subscribe("top.a.>")
        connection.subscribe("top.b")
        for _ in range(10):
            connection.publish("top.b", b"12345")
        connection.flush()
        yield connection


def of_client(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = (each for each in document["connections"] if each.get("name") == HOSTILE)
    return found


@pytest.mark.parametrize("way", ["system", "monitor", "account"])
def test_looks_are_json_lines(cli: CommandLine, server: ServerProcess, client: Connection, way: str) -> None:
    flags = {"system": ADMIN, "monitor": ("--monitor", server.monitor_url), "account": ()}[way]
    first, second = cli("top", "--json", "--count", "2", "-d", "0.1", "--subs", *flags).ok().json_lines

    assert first["scope"] == second["scope"] == way
    assert len(first["servers"]) == 1
    assert first["servers"][0]["connections"] >= 1
    shown = of_client(first)
    assert shown["in_msgs"] == shown["out_msgs"] == 10
    assert sorted(shown["subscriptions_list"]) == ["top.a.>", "top.b"]
    assert "in_msgs_rate" not in shown
    assert of_client(second)["in_msgs_rate"] == 0
    assert second["servers"][0]["in_msgs_rate"] >= 0
    assert "errors" not in first


def test_a_pipe_gets_one_snapshot(cli: CommandLine, server: ServerProcess, client: Connection) -> None:
    ran = cli("top", "-d", "0.1", "--monitor", server.monitor_url, "--subs").ok()

    assert "slow consumers" in ran.out
    assert "msgs/s" in ran.out
    (line,) = (line for line in ran.lines if "pwned" in line)
    assert "top.a.>" in line
    assert "python-headrace" in line
    assert ran.out.count("Cid") == 1
    assert "\x1b" not in ran.out
    assert "\x07" not in ran.out


def test_the_order_and_number_of_connections(cli: CommandLine, client: Connection) -> None:
    with connect(cli.url, ConnectOptions(name="few")) as other:
        other.flush()
        found = {}
        for sort in ("msgs_from", "cid", "subs", "name"):
            (look,) = cli("top", "--json", "--count", "1", "--sort", sort, *ADMIN).ok().json_lines
            found[sort] = [each["name"] for each in look["connections"]]
        (one,) = cli("top", "--json", "--count", "1", "-n", "1", "--sort", "subs", *ADMIN).ok().json_lines

    assert found["msgs_from"].index(HOSTILE) < found["msgs_from"].index("few")
    assert found["cid"].index(HOSTILE) < found["cid"].index("few")
    assert found["name"] == sorted(found["name"])
    assert len(one["connections"]) == 1


def test_a_snapshot_is_written_and_replaces_nothing(cli: CommandLine, client: Connection) -> None:
    file = cli.folder / "top.txt"
    arguments = ("top", "-d", "0.1", "-o", str(file), *ADMIN)

    assert cli(*arguments).ok().out == ""
    assert "pwned" in file.read_text()
    assert "\x1b" not in file.read_text()
    assert cli(*arguments).code == 10
    assert "pwned" in cli("top", "-d", "0.1", "-o", "-", *ADMIN).ok().out


def test_one_server_by_its_name(cli: CommandLine, server: ServerProcess) -> None:
    (look,) = cli("top", "--json", "--count", "1", *ADMIN).ok().json_lines
    name = look["servers"][0]["server"]

    (again,) = cli("top", name, "--json", "--count", "1", *ADMIN).ok().json_lines
    assert again["servers"][0]["server"] == name
    assert cli("top", "no-such-server", "--json", "--count", "1", *ADMIN).code == 4
    assert cli("top", "no-such", "--json", "--count", "1", "--monitor", server.monitor_url).code == 4


def test_wrong_use_is_2(alone: CommandLine) -> None:
    assert alone("top", "-d", "0.01").code == 2
    assert alone("top", "--count", "0").code == 2
    assert alone("top", "--sort", "colour").code == 2
    assert alone("top", "--monitor", "ftp://127.0.0.1").code == 2
    assert alone("top", "--monitor", "http://127.0.0.1:1").code == 7


# -- on a terminal


UNDER_SHELL = ("/bin/sh", "-c", """trap : INT TERM; "$@"; echo "ended with $?"; read line""", "sh")
"""As a person has it: a shell that is there when the command has ended. The system resets a terminal, and
drops what is unread, when the process that it belongs to ends.
"""


@pytest.mark.parametrize(("end", "code"), [("q", 0), ("\x03", 130), ("", 143)])
def test_the_terminal_is_as_it_was(cli: CommandLine, client: Connection, end: str, code: int) -> None:
    with cli.terminal("top", *ADMIN, "-d", "30", width=160, before=UNDER_SHELL) as shown:
        before = shown.settings()
        shown.wait_for("Cid")
        during = shown.settings()
        if end:
            shown.type(end)
        else:
            os.killpg(shown.process.pid, signal.SIGTERM)
        shown.wait_for(f"ended with {code}")
        after = shown.settings()
        shown.type("\n")
        assert shown.end() == 0

    assert shown.seen.index(ENTERS) < shown.seen.index("Cid")
    assert shown.seen.rindex(LEAVES) > shown.seen.rindex("Cid")
    assert before == after != during


def test_stopped_it_gives_the_terminal_back_and_takes_it_again(cli: CommandLine) -> None:
    """The system stops no process that nobody could let go on, as here: it goes on at once."""
    with cli.terminal("top", *ADMIN, "-d", "30") as shown:
        before = shown.settings()
        shown.wait_for("Cid")
        shown.type("\x1a")
        shown.wait_for(LEAVES)
        end = shown.seen.index(LEAVES)
        shown.wait_for(ENTERS, after=end)
        shown.wait_for("Cid", after=end)
        assert shown.settings() != before
        shown.type("q")
        assert shown.end() == 0


def test_names_of_clients_do_not_command_the_terminal(cli: CommandLine, client: Connection) -> None:
    with cli.terminal("top", *ADMIN, "-d", "30", width=200) as shown:
        shown.wait_for("pwned")
        shown.type("q")
        assert shown.end() == 0

    assert "\x1b]" not in shown.seen
    assert "\x07" not in shown.seen
    assert "\x1b[31m" not in shown.seen


def test_keys_change_what_is_shown(cli: CommandLine, client: Connection) -> None:
    with cli.terminal("top", *ADMIN, "-d", "30", width=220) as shown:
        shown.wait_for("by cid")
        shown.type("s")
        shown.wait_for("top.a.>")
        shown.type("o")
        shown.wait_for("order by: _")
        shown.type("bytes_tx\x7f")
        shown.wait_for("order by: bytes_t_")
        shown.type("o\n")
        shown.wait_for("by bytes_to")
        shown.type("onothing\n")
        shown.wait_for("no such key: 'nothing'")
        shown.type("n1\n")
        shown.wait_for("\x1b[H", after=len(shown.seen))
        shown.type("nx\n")
        shown.wait_for("'x' is no number")
        shown.type("b")
        shown.wait_for(" B/s")
        shown.type("?")
        shown.wait_for("o   order of connections")
        shown.type("x")
        shown.wait_for("Cid", after=shown.seen.rindex("o   order of"))
        shown.type("o")
        shown.wait_for("order by: _", after=shown.seen.rindex("o   order of"))
        shown.wait_for("\x1b[J", after=shown.seen.rindex("order by: _"))
        end = len(shown.seen)
        shown.type("\x1b")
        shown.wait_for("Cid", after=end)
        shown.type("\x1b[A")  # an arrow is no key
        shown.type("q")
        assert shown.end() == 0


def test_the_screen_follows_the_window(cli: CommandLine, client: Connection) -> None:
    with cli.terminal("top", *ADMIN, "-d", "30", width=200) as shown:
        shown.wait_for("python-headrace")
        shown.wait_for("\x1b[J", after=shown.seen.index("\x1b[H"))
        end = len(shown.seen)
        shown.resize(40, 6)
        shown.wait_for("\x1b[J", after=end)
        drawn = shown.seen[end:].rpartition("\x1b[H")[2]
        shown.type("q")
        assert shown.end() == 0

    lines = drawn.partition("\x1b[J")[0].replace("\x1b[K", "").split("\n")
    assert len(lines) <= 6
    cells = [line.replace("\x1b[1m", "").replace("\x1b[0m", "").strip("\r") for line in lines]
    assert max(map(len, cells)) == 40


def test_a_server_that_goes_is_told_and_found_again(alone: CommandLine, tmp_path: Path) -> None:
    options = ("-m", "-1")
    with ServerProcess(SIDES["headrace"], tmp_path, *options) as server:
        alone.url = server.url
        monitor = ("--monitor", server.monitor_url)
        with alone.terminal("top", *monitor, "-d", "0.1", width=120) as shown:
            shown.wait_for("Cid")
            server.stop()
            shown.wait_for("trying again")
            shown.type("q")
            assert shown.end() == 0


def test_without_a_server_the_terminal_is_not_taken(alone: CommandLine) -> None:
    with alone.terminal("top") as shown:
        assert shown.end() == 7

    assert ENTERS not in shown.seen


def test_looks_end_with_an_interrupt(cli: CommandLine) -> None:
    with cli.started("top", "--json", "-d", "0.1", *ADMIN) as running:
        running.line()
        running.line()
        running.interrupt()
        assert running.end().code == 130
