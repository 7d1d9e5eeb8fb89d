"""`headrace counter`: sums that anybody adds to, the same with both servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.counters import CounterStream, add_to_counter
from headrace.client.errors import JetStreamMissingError
from headrace.client.jetstream_api import JetStreamApi
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine

READER = ("--user", "reader", "--password", "secret")
LARGE = "9" * 40


@pytest.fixture
def assets(cli: CommandLine) -> Iterator[JetStreamAssets]:
    with connect(cli.url) as connection:
        yield JetStreamAssets(JetStreamApi(connection))


@pytest.fixture
def stream(assets: JetStreamAssets) -> Iterator[str]:
    """A stream with counters on `count.>`, and one with the name behind it that has none, on `plain.>`."""
    name = f"COUNT-{os.urandom(4).hex()}"
    config = {"name": name, "subjects": ["count.>"], "allow_msg_counter": True, "allow_direct": True}
    assets.create_stream(config)
    assets.create_stream({"name": f"{name}-PLAIN", "subjects": ["plain.>"]})
    yield name
    assets.delete_stream(f"{name}-PLAIN")
    assets.delete_stream(name)


def test_a_counter_is_added_to(cli: CommandLine, stream: str) -> None:
    assert cli("counter", "incr", "count.a").ok().out == "1\n"
    assert cli("counter", "incr", "count.a", "5", "--json").ok().json == {
        "stream": stream, "subject": "count.a", "value": "6", "sequence": 2
    }  # fmt: skip
    assert cli("counter", "decr", "count.a", "10", "-q").ok().out == "-4\n"
    assert cli("counter", "decr", "count.a").ok().out == "-5\n"
    found = cli("counter", "get", "count.a", "--json").ok().json
    assert found.pop("time").endswith("Z")
    assert found == {
        "stream": stream, "subject": "count.a", "value": "-5", "sequence": 4, "increment": "-1"
    }  # fmt: skip
    assert cli("counter", "get", "count.a").ok().out == "-5\n"
    assert cli("counter", "get", "count.a", "--stream", stream, "--format", "{value}").ok().out == "-5\n"


def test_a_value_may_be_large(cli: CommandLine, stream: str) -> None:
    cli("counter", "incr", "count.large", LARGE).ok()

    assert cli("counter", "incr", "count.large").ok().out == f"1{'0' * 40}\n"
    assert cli("counter", "get", "count.large", "--json").ok().json["value"] == f"1{'0' * 40}"


def test_a_dry_run_adds_nothing(cli: CommandLine, stream: str) -> None:
    would = cli("counter", "incr", "count.a", "3", "--dry-run", "--json")
    assert (would.code, would.json["changes"]) == (3, {"value": {"before": None, "after": "3"}})
    assert cli("counter", "get", "count.a").code == 4
    cli("counter", "incr", "count.a", "3").ok()
    assert cli("counter", "decr", "count.a", "--dry-run", "--format", "{changes.value.after}").out == "2\n"
    assert cli("counter", "incr", "count.a", "0", "--dry-run").ok().out == "count.a: 3, would be 3\n"


def test_counters_are_listed(cli: CommandLine, stream: str) -> None:
    assert cli("counter", "ls", "count.>", "--json").ok().json == {
        "items": [], "total": 0, "truncated": False
    }  # fmt: skip
    assert cli("counter", "ls", "count.>", "--fail-empty").code == 4
    for subject in ("count.b.x", "count.a", "count.b.y"):
        cli("counter", "incr", subject, "1000").ok()

    listed = cli("counter", "ls", "--stream", stream, "--json").ok().json
    assert [item["subject"] for item in listed["items"]] == ["count.a", "count.b.x", "count.b.y"]
    lines = cli("counter", "ls", "count.b.*").ok().lines
    assert lines[0] == "stream\tsubject\tvalue\tchanged"
    assert [line.split("\t")[:3] for line in lines[1:]] == [
        [stream, "count.b.x", "1000"], [stream, "count.b.y", "1000"]
    ]  # fmt: skip
    cut = cli("counter", "ls", "count.>", "--limit", "2", "--json").ok().json
    assert (len(cut["items"]), cut["total"], cut["truncated"]) == (2, 3, True)
    assert "1 more" in cli("counter", "ls", "count.>", "--limit", "2").ok().err
    with cli.terminal("counter", "ls", "count.a") as terminal:
        assert terminal.end() == 0
    assert "1,000" in terminal.seen


def test_a_stream_that_counts_others_says_of_whom(
    cli: CommandLine, assets: JetStreamAssets, stream: str
) -> None:
    cli("counter", "incr", "count.a", "7").ok()
    total = f"{stream}-TOTAL"
    config = {"name": total, "allow_msg_counter": True, "allow_direct": True, "sources": [{"name": stream}]}
    assets.create_stream(config)
    try:
        waiting = assets.create_consumer(total, {"ack_policy": "none", "inactive_threshold": 60_000_000_000})
        cli("consumer", "next", total, waiting["name"], "--wait", "30s").ok()
        found = cli("counter", "get", "count.a", "--stream", total, "--json").ok().json
    finally:
        assets.delete_stream(total)
    assert (found["value"], found["sources"]) == ("7", {stream: {"count.a": "7"}})


def test_what_is_not_there(cli: CommandLine, stream: str) -> None:
    assert cli("counter", "get", "count.missing").code == 4
    assert cli("counter", "get", "plain.a").code == 4
    assert cli("counter", "get", "count.a", "--stream", "NO").code == 4
    assert cli("counter", "ls", "--stream", f"{stream}-PLAIN").code == 4
    assert cli("counter", "incr", "no.stream").code == 5
    refused = cli("counter", "incr", "plain.a", "--json")
    assert (refused.code, refused.error["err_code"]) == (6, 10168)
    assert cli("counter", "incr", "plain.a", "--dry-run").code == 4
    assert cli("counter", "incr", "count.a", "many").code == 2
    assert cli("counter", "incr", "count.a", *READER).code == 9


def test_programs_count_too(assets: JetStreamAssets, stream: str) -> None:
    counters = CounterStream(assets, stream, direct=True)

    assert add_to_counter(assets.api, "count.a", 2) == (stream, 1, 2)
    assert add_to_counter(assets.api, "count.b", -3) == (stream, 2, -3)
    assert {each.subject: each.value for each in counters.values("count.*")} == {"count.a": 2, "count.b": -3}
    assert counters.value("count.b").increment == -3
    with pytest.raises(JetStreamMissingError):
        counters.value("count.c")
    assets.api.publish("plain.a", b"no counter")
    with pytest.raises(ProtocolError, match="no counter"):
        CounterStream(assets, f"{stream}-PLAIN").value("plain.a")
