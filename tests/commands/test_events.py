"""`headrace events` and `headrace account report`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.command_line import CommandLine

SYSTEM = ("--user", "admin", "--password", "secret")


def make_stream(cli: CommandLine, name: str, subject: str | None = None) -> None:
    config = json.dumps({"name": name, "subjects": [subject or name.lower()]})
    assert "error" not in cli("request", f"$JS.API.STREAM.CREATE.{name}", config).ok().out


def test_advisories_are_shown(cli: CommandLine) -> None:
    # Of the audit of the request, which has the name, too, either may come first.
    with cli.started("events", "--json", "--filter", '"stream":"ADVISED"', "--count", "1") as running:
        running.wait_for("listening on $JS.EVENT.ADVISORY.>")
        make_stream(cli, "UNHEARD")
        make_stream(cli, "ADVISED")
        ran = running.end()
    assert ran.code == 0
    assert ran.json_lines[0]["type"] == "io.nats.jetstream.advisory.v1.stream_action"
    assert (ran.json_lines[0]["stream"], ran.json_lines[0]["action"]) == ("ADVISED", "create")


def test_events_that_a_stream_has_kept_come_first(cli: CommandLine) -> None:
    refused = cli("events", "--since", "1h", "--for", "10ms", "--subjects", "kept.event")
    assert refused.code == 4
    assert "no stream keeps kept.event" in refused.err

    make_stream(cli, "KEPT", "kept.event")
    cli("pub", "kept.event", '{"type": "a.kept"}').ok()
    flags = ("--since", "1h", "--subjects", "kept.event", "--count", "2")
    with cli.started("events", "--json", *flags) as running:
        running.wait_for("listening")
        cli("pub", "kept.event", '{"type": "a.new"}').ok()
        found = [line["type"] for line in running.end().json_lines]
    assert found == ["a.kept", "a.new"]


def test_connections_are_told_to_the_system_account(cli: CommandLine) -> None:
    flags = ("--account-events", "--filter", "told-of", "--count", "2")
    with cli.started("events", "--json", *flags, *SYSTEM) as running:
        running.wait_for("listening on $SYS.ACCOUNT.*.CONNECT, $SYS.ACCOUNT.*.DISCONNECT")
        cli("rtt", "1", "--name", "told-of").ok()
        found = [line["type"].rpartition(".")[2] for line in running.end().json_lines]
    assert found == ["client_connect", "client_disconnect"]


def test_an_event_is_a_line_where_another_program_reads(cli: CommandLine) -> None:
    with cli.started(
        "events", "--account-events", "--filter", "in-a-line", "--count", "1", *SYSTEM
    ) as running:
        running.wait_for("listening")
        cli("rtt", "1", "--name", "in-a-line").ok()
        line = running.end().lines[0]
    assert " client_connect " in line
    assert "name=in-a-line" in line


def test_an_event_that_is_no_document_is_shown(cli: CommandLine) -> None:
    with cli.started("events", "--json", "--subjects", "plain.event", "--count", "1") as running:
        running.wait_for("listening on plain.event")
        cli("pub", "plain.event", "\x1b[2Jhello").ok()
        found = running.end().json_lines[0]
    assert found == {"subject": "plain.event", "data": "\x1b[2Jhello"}


def test_events_end_after_a_time_or_when_interrupted(cli: CommandLine) -> None:
    assert cli("events", "--for", "10ms", "--subjects", "no.event").ok().out == ""
    with cli.started("events") as running:
        running.wait_for("listening")
        running.interrupt()
        assert running.end().code == 130


def test_all_excludes_the_others(alone: CommandLine) -> None:
    assert alone("events", "--all", "--js-metric").code == 2


def test_an_account_sees_its_connections_and_statistics(cli: CommandLine) -> None:
    with cli.started("sub", "reported", "--name", "mine") as running:
        running.wait_for("listening")
        found = cli("account", "report", "connections", "--filter", "mine", "--json").ok().json
        assert (found["scope"], found["items"][0]["name"]) == ("account", "mine")
        statistics = cli("account", "report", "statistics", "--json").ok().json
    assert statistics["items"][0]["acc"] == "A"
    assert statistics["items"][0]["conns"] >= 2
    ran = cli("account", "report", "statistics").ok()
    assert ran.lines[0].split("\t")[:3] == ["server", "account", "conns"]
    assert "this account only" in ran.err
    assert cli("account", "report", "connections", "--filter", "nobody", "--fail-empty").code == 4


def test_who_may_not_ask_is_9(cli: CommandLine) -> None:
    for name in ("connections", "statistics"):
        ran = cli("account", "report", name, "--user", "reader", "--password", "secret", "--json")
        assert (ran.code, ran.error["kind"], ran.out) == (9, "not_permitted", "")
