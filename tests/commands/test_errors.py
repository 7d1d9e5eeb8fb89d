"""`headrace errors`: numbers of JetStream's errors, as a server says them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.command_line import CommandLine


def test_an_error_of_a_server_is_explained(cli: CommandLine) -> None:
    said = cli("sub", "--stream", "NO_SUCH_STREAM", "--json").error

    found = cli("errors", "lookup", str(said["err_code"]), "--json").ok().json

    assert (found["code"], found["description"]) == (said["code"], said["text"].partition(" (")[0])


def test_errors_are_listed_and_found(alone: CommandLine) -> None:
    every = alone("errors", "ls", "--json").ok().json
    some = alone("errors", "find", "Consumer NOT found", "-q").ok().lines

    assert every["total"] > 150
    assert some == ["10014"]
    assert "10014\t404\tconsumer not found" in alone("errors", "ls").ok().lines
    assert alone("errors", "lookup", "1").code == 4
    assert alone("errors", "find", "no such text", "--fail-empty").code == 4
