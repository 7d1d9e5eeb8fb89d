"""Completion of live names, as shells ask for them, and the link `nats`."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from harness.command_line import PROGRAM, CommandLine
from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BASH: Final = """
source ./script
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
function_of() { while [ "$1" != -F ]; do shift; done; echo "$2"; }
"$(function_of $(complete -p headrace))"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def assets(cli: CommandLine) -> Iterator[JetStreamAssets]:
    """A stream DONE with a consumer `reader`."""
    with connect(cli.url) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))
        assets.create_stream({"name": "DONE", "subjects": ["done.>"]})
        assets.create_consumer("DONE", {"durable_name": "reader", "ack_policy": "explicit"})
        yield assets
        assets.delete_stream("DONE")


def test_names_are_asked_for(cli: CommandLine, assets: JetStreamAssets) -> None:
    cli("context", "add", "mine", "-s", cli.url).ok()
    admin = ("--user", "admin", "--password", "secret")

    assert "DONE" in cli("--complete", "stream", "headrace", "sub", "--stream", "").ok().lines
    found = cli("--complete", "consumer", "headrace", "sub", "--stream", "DONE", "--durable", "").ok().lines
    assert found == ["reader"]
    assert cli("--complete", "context", "headrace", "--context", "").ok().lines == ["mine"]
    assert len(cli("--complete", "server", "headrace", "server", "info", *admin).ok().lines) == 1


def test_names_are_kept_for_a_while(cli: CommandLine, assets: JetStreamAssets) -> None:
    ask = ("--complete", "stream", "headrace", "sub", "--stream", "")
    first = cli(*ask).ok().lines
    assets.create_stream({"name": "LATER", "subjects": ["later"]})
    second = cli(*ask).ok().lines
    (kept,) = cli.folder.glob("headrace-names-*.json")
    os.utime(kept, (0, 0))
    third = cli(*ask).ok().lines
    assets.delete_stream("LATER")

    assert second == first
    assert set(third) - set(first) == {"LATER"}
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("words", [("stream",), ("stream", "headrace", "--user"), ("consumer", "x", "y")])
def test_nothing_is_said_where_names_cannot_be_had(alone: CommandLine, words: tuple[str, ...]) -> None:
    ran = alone("--complete", *words)

    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_bash_offers_streams(cli: CommandLine, assets: JetStreamAssets) -> None:
    (cli.folder / "script").write_text(cli.process("completion", "bash").ok().out)
    (cli.folder / "driver").write_text(BASH)
    environment = cli.environment
    environment["PATH"] = f"{os.path.dirname(PROGRAM)}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "driver", "headrace", "sub", "--stream", "DO"],
        cwd=cli.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "DONE\n"


def test_a_link_takes_the_commands_of_the_client(alone: CommandLine, tmp_path: Path) -> None:
    link = tmp_path / "nats"

    made = alone.process("completion", "--link", str(link))
    again = alone.process("completion", "--link", str(link))

    assert (made.ok().out, again.ok().out) == (
        f"{link} leads to {link.resolve()}\n", f"{link} is there already\n"
    )  # fmt: skip
    shown = subprocess.run([link, "--help"], capture_output=True, text=True, check=True).stdout
    assert "Usage: nats" in shown
    assert "\n  serve " not in shown


def test_a_link_replaces_nothing(alone: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "nats").write_text("theirs")

    there = alone.process("completion", "--link", str(tmp_path / "nats"))
    other = alone.process("completion", "--link", str(tmp_path / "natscli"))

    assert (there.code, (tmp_path / "nats").read_text()) == (10, "theirs")
    assert (other.code, list(tmp_path.glob("natscli"))) == (2, [])
    assert alone.process("completion").code == 2
