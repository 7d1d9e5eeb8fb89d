"""`headrace rtt`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.command_line import CommandLine


def test_the_round_trip_is_measured(cli: CommandLine) -> None:
    found = cli("rtt", "3", "--json").ok().json

    assert found["count"] == 3
    assert found["server"] == cli.url
    assert 0 < found["min_ns"] <= found["average_ns"] <= found["max_ns"]
    assert found["connect_ns"] > 0


def test_pipes_get_names_and_exact_values(cli: CommandLine) -> None:
    found = dict(line.split("\t") for line in cli("rtt").ok().lines)

    assert list(found) == ["server", "round_trips", "shortest", "average", "longest", "connecting"]
    assert found["round_trips"] == "5"


def test_flags_of_the_connection_stand_before_or_behind(alone: CommandLine, cli: CommandLine) -> None:
    url = cli.url

    assert alone("--server", url, "rtt").ok().out
    assert alone("rtt", "1", f"--server={url}").ok().out
    assert alone("rtt").code == 7


def test_no_round_trip_is_wrong_use(cli: CommandLine) -> None:
    ran = cli("rtt", "0", "--json")

    assert ran.code == 2
    assert ran.error["kind"] == "wrong_use"
    assert ran.out == ""


def test_without_a_server_it_is_7(alone: CommandLine) -> None:
    ran = alone("rtt", "--json")

    assert (ran.code, ran.error["kind"], ran.out) == (7, "no_connection", "")


def test_a_wrong_password_is_7(cli: CommandLine) -> None:
    ran = cli("rtt", "--user", "alice", "--password", "wrong")

    assert ran.code == 7
    assert "wrong" not in ran.err.replace("wrong use", "")


def test_a_server_that_says_nothing_is_8(alone: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ran = alone("rtt", "-s", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "50ms", "--json")

    assert (ran.code, ran.error["kind"]) == (8, "timed_out")
