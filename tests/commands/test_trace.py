"""`headrace trace`: the way of a message, the same with both servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.command_line import CommandLine


def test_a_trace_shows_who_would_get_a_message(cli: CommandLine) -> None:
    with cli.started("sub", "traced.*", "--count", "1", "--format", "{data}") as listener:
        listener.wait_for("listening")
        (found,) = cli("trace", "traced.a", "first", "--json").ok().json_lines
        text = cli("trace", "traced.a").ok().out
        (delivered,) = cli("trace", "traced.a", "second", "-H", "A:b", "--deliver", "--json").ok().json_lines
        assert listener.end().lines == ["second"]

    events = [event["type"] for event in found["events"]]
    assert events == ["in", "eg"]
    assert (found["events"][0]["subj"], found["events"][1]["sub"]) == ("traced.a", "traced.*")
    assert delivered["request"]["header"]["A"] == ["b"]
    assert "from client" in text
    assert "to client" in text
    assert "sub traced.*" in text


def test_a_trace_of_a_message_for_nobody_says_so(cli: CommandLine) -> None:
    (found,) = cli("trace", "traced.by.nobody", "--json").ok().json_lines

    assert [event["type"] for event in found["events"]] == ["in"]


def test_what_is_not_permitted_is_9(cli: CommandLine) -> None:
    (cli.folder / "password").write_text("secret\n")
    reader = ("--user", "reader", "--password-file", str(cli.folder / "password"))

    assert cli("trace", "forbidden", *reader).code == 9
