"""`headrace consumer`: consumers made, looked at, read and removed, the same with both servers."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine

READER = ("--user", "reader", "--password", "secret")
PYTHON = sys.executable


@pytest.fixture
def stream() -> str:
    """A name of its own for each test: nats-server may find files of one that was just removed."""
    return f"WORK-{os.urandom(4).hex()}"


@pytest.fixture
def assets(cli: CommandLine, stream: str) -> Iterator[JetStreamAssets]:
    """A stream with three messages, on `work.a`, `work.b` and `work.c`."""
    with connect(cli.url) as connection:
        found = JetStreamAssets(JetStreamApi(connection))
        found.create_stream({"name": stream, "subjects": ["work.>"], "allow_direct": True})
        for subject in ("work.a", "work.b", "work.c"):
            found.api.publish(subject, f"body of {subject}".encode(), headers={"Kind": "test"})
        yield found
        found.delete_stream(stream)


def config_of(assets: JetStreamAssets, stream: str, name: str) -> dict[str, Any]:
    config: dict[str, Any] = assets.consumer_info(stream, name)["config"]
    return config


# -- add


def test_a_consumer_is_pulled_from_and_explicit_unless_it_is_said(
    cli: CommandLine, assets: JetStreamAssets, stream: str
) -> None:
    made = cli("consumer", "add", stream, "plain", "--json").ok().json

    assert made["name"] == "plain"
    assert made["config"]["durable_name"] == "plain"
    assert made["config"]["ack_policy"] == "explicit"
    assert made["config"]["ack_wait"] == 30_000_000_000
    assert made["num_pending"] == 3
    assert "type" not in made
    assert made["config"] == config_of(assets, stream, "plain")


def test_every_flag_is_a_field(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli(
        "con", "add", stream, "full", "--pull", "--deliver", "2", "--filter", "work.a", "--filter", "work.b",
        "--wait", "1m", "--max-deliver", "5", "--backoff", "1s,10s,1m", "--max-pending", "7",
        "--max-waiting", "8", "--max-batch", "9", "--max-expires", "10s", "--max-bytes", "1KiB",
        "--replay", "original", "--sample", "30%", "--headers-only", "--inactive", "1h",
        "--description", "all of them", "--metadata", "a=1", "--metadata", "b=2", "--replicas", "1",
        "--memory", "--dead-letter", "dead.work",
    ).ok()  # fmt: skip

    found = config_of(assets, stream, "full")
    expected = {
        "deliver_policy": "by_start_sequence", "opt_start_seq": 2, "filter_subjects": ["work.a", "work.b"],
        "ack_wait": 1_000_000_000, "max_deliver": 5, "max_ack_pending": 7, "max_waiting": 8, "max_batch": 9,
        "backoff": [1_000_000_000, 10_000_000_000, 60_000_000_000], "max_expires": 10_000_000_000,
        "max_bytes": 1024, "replay_policy": "original", "headers_only": True, "sample_freq": "30",
        "inactive_threshold": 3_600_000_000_000, "description": "all of them", "num_replicas": 1,
        "mem_storage": True,
    }  # fmt: skip
    assert {name: found.get(name) for name in expected} == expected
    metadata = {key: value for key, value in found["metadata"].items() if not key.startswith("_nats.")}
    assert metadata == {"a": "1", "b": "2", "headrace.dead_letter_subject": "dead.work"}


def test_a_push_consumer(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli(
        "consumer", "add", stream, "push", "--target", "pushed.to", "--deliver-group", "group",
        "--heartbeat", "5s", "--flow-control", "--deliver", "last-per-subject", "--bps", "1M",
    ).ok()  # fmt: skip

    found = config_of(assets, stream, "push")
    assert (found["deliver_subject"], found["deliver_group"]) == ("pushed.to", "group")
    assert (found["ack_policy"], found["deliver_policy"]) == ("none", "last_per_subject")
    assert (found["idle_heartbeat"], found["flow_control"]) == (5_000_000_000, True)
    assert found["rate_limit_bps"] == 1_000_000


@pytest.mark.parametrize(
    ("where", "policy"),
    [
        ("new", "new"), ("last", "last"), ("-1h", "by_start_time"), ("1h", "by_start_time"),
        ("2026-01-01T00:00:00Z", "by_start_time"), ("subject", "last_per_subject"),
    ],
)  # fmt: skip
def test_where_it_begins(
    cli: CommandLine, assets: JetStreamAssets, stream: str, where: str, policy: str
) -> None:
    made = cli("consumer", "add", stream, "begin", "--deliver", where, "--json").ok().json

    assert made["config"]["deliver_policy"] == policy
    if where.startswith("2026"):
        assert made["config"]["opt_start_time"] == "2026-01-01T00:00:00Z"


def test_groups_and_a_pause(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli(
        "consumer", "add", stream, "groups", "--groups", "blue,red", "--group-policy", "pinned",
        "--pinned-ttl", "1m", "--pause-until", "1h",
    ).ok()  # fmt: skip

    found = config_of(assets, stream, "groups")
    assert (found["priority_policy"], found["priority_timeout"]) == ("pinned_client", 60_000_000_000)
    assert found["priority_groups"] == ["blue", "red"]
    assert assets.consumer_info(stream, "groups")["paused"]


def test_an_ephemeral_consumer_needs_no_name(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    name = cli("consumer", "add", stream, "--ephemeral", "--inactive", "1m", "-q").ok().out.strip()
    named = cli("consumer", "add", stream, "short", "--ephemeral", "--json").ok().json

    assert "durable_name" not in config_of(assets, stream, name)
    assert (named["name"], "durable_name" in named["config"]) == ("short", False)


def test_a_file_has_a_configuration_and_flags_go_before_it(
    cli: CommandLine, assets: JetStreamAssets, stream: str
) -> None:
    cli("consumer", "add", stream, "first", "--filter", "work.a", "--wait", "1m").ok()
    info = cli("consumer", "info", stream, "first", "--json").ok().raw
    (cli.folder / "c.json").write_bytes(info)
    file = str(cli.folder / "c.json")

    cli("consumer", "add", stream, "second", "--config", file, "--wait", "2m", "--filter", "work.b").ok()
    third = cli("consumer", "add", stream, "third", "--config", "-", "--json", stdin=info).ok().json

    second = config_of(assets, stream, "second")
    assert (second["ack_wait"], second["filter_subject"]) == (120_000_000_000, "work.b")
    assert (third["name"], third["config"]["filter_subject"]) == ("third", "work.a")
    assert cli("consumer", "add", stream, "--config", file, "--json").ok().json["name"] == "first"


def test_one_that_is_there(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    add = ("consumer", "add", stream, "there", "--wait", "1m", "--filter", "work.a")
    assert "unchanged" not in cli(*add).ok().err

    assert "there: unchanged" in cli(*add).ok().err
    other = cli(*add[:-3], "2m", "--json")
    assert (other.code, other.out, other.error["kind"]) == (10, "", "exists")
    assert "ack_wait is 1m" in other.error["text"]
    assert "filter_subjects is work.a" in other.error["text"]
    kept = cli(*add[:-3], "2m", "--if-not-exists", "--json").ok()
    assert kept.json["config"]["ack_wait"] == 60_000_000_000
    assert "nothing was changed" in kept.err


def test_a_dry_run_of_add_makes_nothing(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    add = ("consumer", "add", stream, "dry", "--wait", "1m")
    would = cli(*add, "--dry-run", "--json")

    assert would.code == 3
    assert (would.json["stream"], would.json["name"]) == (stream, "dry")
    assert would.json["changes"]["ack_wait"] == {"before": None, "after": 60_000_000_000}
    assert list(assets.consumer_names(stream)) == []
    cli(*add).ok()
    assert cli(*add, "--dry-run", "--json").ok().json["changes"] == {}
    assert cli("consumer", "add", stream, "dry", "--wait", "2m", "--dry-run").code == 10
    assert cli("consumer", "add", "NO", "dry", "--dry-run").code == 4


@pytest.mark.parametrize(
    "flags",
    [
        ("--backoff", "1x"), ("--backoff", "linear:1s"), ("--backoff", "linear:1m:1s:3"),
        ("--deliver", "soon"), ("--filter", "a..b"), ("--sample", "101"), ("--max-deliver", "many"),
        ("--groups", "a"),
        ("--group-policy", "pinned"), ("--pull", "--target", "x"), ("--headers-only", "--no-headers-only"),
        ("--pause-until", "2020-01-01"), ("--config", "-"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_wrong_use(alone: CommandLine, flags: tuple[str, ...]) -> None:
    ran = alone("consumer", "add", "WORK", "x", *flags, "--json", stdin=b"[1]")

    assert (ran.code, ran.error["kind"]) == (2, "wrong_use")


def test_a_name_is_needed(alone: CommandLine) -> None:
    assert "--ephemeral" in alone("consumer", "add", "WORK").err
    assert alone("consumer", "add", "WORK").code == 2


def test_waits_that_grow(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "grow", "--backoff", "linear:1s:4s:4", "--max-deliver", "6").ok()
    cli.program = "nats"
    cli(
        "consumer", "add", stream, "as-nats", "--defaults", "--max-deliver", "6", "--backoff", "linear",
        "--backoff-steps", "2", "--backoff-min", "1s", "--backoff-max", "3s", "--pinned-groups", "a",
    ).ok()  # fmt: skip

    assert [wait // 10**9 for wait in config_of(assets, stream, "grow")["backoff"]] == [1, 2, 3, 4]
    assert [wait // 10**9 for wait in config_of(assets, stream, "as-nats")["backoff"]] == [1, 3]
    assert config_of(assets, stream, "as-nats")["priority_policy"] == "pinned_client"


def test_dead_letters_need_headrace(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    is_ours = str(assets.api.connection.server_info.fields["git_commit"]).startswith("headrace")
    ran = cli("consumer", "add", stream, "dead", "--dead-letter", "dead.x", "--max-deliver", "2").ok()

    assert ("moves no dead letters" in ran.err) is not is_ours


@pytest.mark.parametrize(
    "words",
    [
        "PULL --filter ORDERS.processed --ack explicit --pull --deliver all --sample 100 --max-deliver=20",
        "PUSH --ack none --target monitor.ORDERS --deliver last --replay instant --filter ''",
        "NEW --filter ORDERS.received --ack explicit --pull --deliver all --max-deliver=-1 --max-pending 100",
        "D --pull --deliver 1h --ack all --replay original --no-headers-only --backoff none --defaults",
        "S --pull --deliver subject --no-flow-control --max-pull-batch 10 --max-pull-expire 1m",
        "I --ephemeral --inactive-threshold 1h --max-outstanding=-1 --max-pull-bytes 1MB --wait 30s",
    ],
)
def test_lines_of_the_tool_nats(cli: CommandLine, assets: JetStreamAssets, words: str) -> None:
    cli.program = "nats"
    name = f"ORDERS-{os.urandom(4).hex()}"
    assets.create_stream({"name": name, "subjects": ["ORDERS.*"]})
    try:
        made = cli("con", "add", name, *shlex.split(words), "--json").ok().json
        again = cli("consumer", "info", name, made["name"], "-j").ok().json
        assert again["config"] == made["config"]
        cli("consumer", "rm", name, made["name"], "-f").ok()
    finally:
        assets.delete_stream(name)


# -- edit


def test_edit_shows_the_difference_and_changes(
    cli: CommandLine, assets: JetStreamAssets, stream: str
) -> None:
    cli("consumer", "add", stream, "ed", "--wait", "1m", "--metadata", "a=1", "--filter", "work.a").ok()
    edit = ("consumer", "edit", stream, "ed", "--wait", "2m", "--metadata", "b=2", "--filter", "work.b",
            "--filter", "work.c")  # fmt: skip

    would = cli(*edit, "--dry-run", "--json")
    assert would.code == 3
    assert would.json["changes"]["ack_wait"] == {"before": 60_000_000_000, "after": 120_000_000_000}
    assert config_of(assets, stream, "ed")["ack_wait"] == 60_000_000_000
    ran = cli(*edit).ok()
    assert ran.lines[0].split("\t") == ["field", "before", "after"]
    assert "ack_wait\t60000000000\t120000000000" in ran.lines
    assert 'filter_subjects\t["work.a"]\t["work.b", "work.c"]' in ran.lines
    assert "ed: changed" in ran.err
    found = config_of(assets, stream, "ed")
    assert found["filter_subjects"] == ["work.b", "work.c"]
    metadata = {key: value for key, value in found["metadata"].items() if not key.startswith("_nats.")}
    assert metadata == {"a": "1", "b": "2"}
    assert "ed: unchanged" in cli(*edit).ok().err
    cli("consumer", "edit", stream, "ed", "--filter", "").ok()
    assert not config_of(assets, stream, "ed").get("filter_subjects")
    cli(*edit).ok()
    assert cli(*edit, "--dry-run").code == 0


def test_what_cannot_be_changed_is_refused(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "ed").ok()

    ran = cli("consumer", "edit", stream, "ed", "--deliver", "new", "--json")
    assert (ran.code, ran.error["kind"], ran.out) == (6, "refused", "")
    assert cli("consumer", "edit", stream, "missing", "--wait", "1m").code == 4


# -- ls, info, state, report


def test_consumers_are_listed(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    assert cli("consumer", "ls", stream, "--json").ok().json == {"items": [], "total": 0, "truncated": False}
    assert cli("consumer", "ls", stream, "--fail-empty").code == 4
    cli("consumer", "add", stream, "two", "--filter", "work.a").ok()
    cli("consumer", "add", stream, "one").ok()

    listed = cli("consumer", "ls", stream, "--json").ok().json
    assert [item["name"] for item in listed["items"]] == ["one", "two"]
    assert listed["items"][1]["config"]["filter_subject"] == "work.a"
    lines = cli("c", "ls", stream).ok().lines
    assert lines[0] == "name\tmode\tfilter\tack\tpending\tunacked\tlast_delivery"
    assert lines[2] == "two\tpull\twork.a\texplicit\t1\t0\t"
    assert cli("consumer", "ls", stream, "--names").ok().lines == ["one", "two"]
    assert cli("consumer", "ls", stream, "-q").ok().lines == ["one", "two"]
    assert cli("consumer", "ls", "NO").code == 4
    with cli.terminal("consumer", "ls", stream, width=60) as shown:
        assert shown.end() == 0
    assert "Name" in shown.seen
    assert "\t" not in shown.seen


def test_info_and_state(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one", "--filter", "work.b", "--max-deliver", "4").ok()

    said = assets.consumer_info(stream, "one")
    shown = cli("consumer", "info", stream, "one", "--json").ok().json
    state = cli("consumer", "state", stream, "one", "--json").ok().json
    for document in (said, shown, state):
        document.pop("ts")
    said.pop("type")
    assert shown == said
    assert state == {name: value for name, value in said.items() if name != "config"}
    lines = dict(line.split("\t") for line in cli("consumer", "info", stream, "one").ok().lines)
    assert (lines["filter"], lines["max_deliver"], lines["pending"]) == ("work.b", "4", "1")
    assert "filter" not in cli("consumer", "state", stream, "one").ok().out
    assert cli("consumer", "info", stream, "one", "--format", "{num_pending}").ok().out == "1\n"
    for name in ("info", "state"):
        ran = cli("consumer", name, stream, "missing", "--json")
        assert (ran.code, ran.error["err_code"]) == (4, 10014)


def test_a_report_says_how_far_behind(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    for name in ("idle", "busy", "done"):
        cli("consumer", "add", stream, name, *(("--filter", "work.c") if name == "done" else ())).ok()
    cli("consumer", "next", stream, "busy", "--count", "2", "--no-ack").ok()
    cli("consumer", "next", stream, "done", "--ack").ok()
    cli("consumer", "pause", stream, "idle", "1h").ok()

    report = cli("consumer", "report", stream, "--json", "--sort", "unacked").ok().json["items"]
    found = {item["name"]: item for item in report}
    assert report[0]["name"] == "busy"
    assert {key: found["busy"][key] for key in ("pending", "unacked", "redelivered", "lag", "mode")} == {
        "pending": 1, "unacked": 2, "redelivered": 0, "lag": 3, "mode": "pull"
    }  # fmt: skip
    assert found["busy"]["lag_ns"] > 0
    assert found["busy"]["last_delivery"].endswith("Z")
    assert "last_ack" not in found["busy"]
    assert found["idle"]["paused_until"].endswith("Z")
    assert (found["done"]["lag"], "lag_ns" in found["done"]) == (0, False)
    assert found["done"]["last_ack"].endswith("Z")
    lines = cli("consumer", "report", stream).ok().lines
    assert lines[0].startswith("name\tmode\tpending\tunacked\tredelivered\tlag\tlag_time")
    assert lines[0].endswith("last_delivery\tlast_ack\tpaused_until")
    assert [line.split("\t")[0] for line in lines[1:]] == ["busy", "done", "idle"]
    cli("consumer", "resume", stream, "idle").ok()
    with cli.terminal("consumer", "report", stream, "--color", "never", width=80) as terminal:
        assert terminal.end() == 0
    heading, *rows = terminal.seen.splitlines()
    assert heading.split()[:4] == ["Name", "Mode", "Pending", "Unacked"]
    assert heading.endswith("Delivered  Acked")
    assert len(rows) == 3
    assert all(len(line) <= 80 for line in (heading, *rows))


def test_who_may_not_ask_is_9(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    ran = cli("consumer", "info", stream, "x", *READER, "--json")

    assert (ran.code, ran.error["kind"]) == (9, "not_permitted")


# -- rm, pause, resume, unpin, reset


def test_consumers_are_removed(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    for name in ("one", "two", "three"):
        cli("consumer", "add", stream, name).ok()

    would = cli("consumer", "rm", stream, "one", "--dry-run", "--json")
    assert (would.code, would.json["items"][0]["removed"]) == (3, False)
    asked = cli("consumer", "rm", stream, "one")
    assert asked.code == 2
    assert "3 messages to deliver" in asked.err
    assert cli("consumer", "rm", stream, "one", "missing", "-f").code == 4
    assert sorted(assets.consumer_names(stream)) == ["one", "three", "two"]
    gone = cli("consumer", "rm", stream, "one", "missing", "two", "-f", "--if-exists", "--json").ok().json
    assert [(item["name"], item["removed"]) for item in gone["items"]] == [
        ("one", True), ("missing", False), ("two", True)
    ]  # fmt: skip
    with cli.terminal("consumer", "rm", stream, "three") as terminal:
        terminal.wait_for("go on? [y/N]")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert list(assets.consumer_names(stream)) == []


def test_a_consumer_is_paused_and_goes_on(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one").ok()

    would = cli("consumer", "pause", stream, "one", "1h", "--dry-run", "--json")
    assert (would.code, would.json["changes"]["pause_until"]["before"]) == (3, None)
    assert cli("consumer", "resume", stream, "one", "--dry-run").code == 0
    paused = cli("consumer", "pause", stream, "one", "2099-01-01", "--json").ok().json
    assert (paused["paused"], paused["pause_until"]) == (True, "2099-01-01T00:00:00Z")
    assert assets.consumer_info(stream, "one")["paused"]
    assert cli("consumer", "resume", stream, "one", "--dry-run").code == 3
    assert cli("consumer", "resume", stream, "one", "--json").ok().json["paused"] is False
    assert not assets.consumer_info(stream, "one").get("paused")
    assert cli("consumer", "pause", stream, "one", "2020-01-01").code == 2
    assert cli("consumer", "pause", stream, "missing", "1h").code == 4


def test_a_group_is_unpinned(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one", "--groups", "blue", "--group-policy", "pinned").ok()
    cli("consumer", "next", stream, "one", "--group", "blue", "--ack").ok()
    assert assets.consumer_info(stream, "one")["priority_groups"][0]["pinned_client_id"]

    assert cli("consumer", "unpin", stream, "one", "blue", "--dry-run").code == 3
    assert cli("consumer", "unpin", stream, "one", "blue", "--json").ok().json == {
        "stream": stream, "name": "one", "group": "blue", "unpinned": True
    }  # fmt: skip
    assert not assets.consumer_info(stream, "one")["priority_groups"][0].get("pinned_client_id")
    assert cli("consumer", "unpin", stream, "one", "red", "--dry-run").code == 4
    assert cli("consumer", "unpin", stream, "one", "red").code == 6


def test_a_consumer_begins_again(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one").ok()
    cli("consumer", "next", stream, "one", "--count", "3", "--ack").ok()

    would = cli("consumer", "reset", stream, "one", "--sequence", "2", "--dry-run", "--json")
    assert (would.code, would.json) == (3, {"stream": stream, "name": "one", "sequence": 2})
    assert cli("consumer", "reset", stream, "one", "--sequence", "2", "--json").ok().json["reset_seq"] == 2
    assert cli("consumer", "next", stream, "one", "--ack", "--json").ok().json["sequence"] == 2
    since = cli("consumer", "reset", stream, "one", "--since", "1h", "--json").ok().json
    assert since["reset_seq"] == 1
    assert cli("consumer", "next", stream, "one", "--ack", "--json").ok().json["sequence"] == 1
    cli("consumer", "next", stream, "one", "--no-ack").ok()
    cli("consumer", "reset", stream, "one").ok()
    assert cli("consumer", "next", stream, "one", "--ack", "--json").ok().json["sequence"] == 2
    assert cli("consumer", "reset", stream, "missing").code == 4
    assert cli("consumer", "reset", stream, "one", "--sequence", "1", "--since", "1h").code == 2


# -- next


def test_next_acknowledges_and_says_so(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one").ok()

    ran = cli("consumer", "next", stream, "one").ok()
    assert ran.lines[0] == f"[#1] work.a ({stream} 1, 2 follow)"
    assert ran.lines[1:] == ["Kind: test", "", "body of work.a", ""]
    assert ran.err == "acknowledged 1 message\n"
    assert assets.consumer_info(stream, "one")["ack_floor"]["stream_seq"] == 1
    assert cli("consumer", "next", stream, "one", "--json").code == 2
    message = cli("consumer", "next", stream, "one", "--ack", "--json").ok().json
    assert message.pop("received").endswith("Z")
    assert message.pop("time").endswith("Z")
    assert message == {
        "subject": "work.b", "headers": {"Kind": ["test"]}, "data": "body of work.b",
        "size_bytes": len("body of work.b") + len("NATS/1.0\r\nKind: test\r\n\r\n"), "stream": stream,
        "sequence": 2, "deliveries": 1, "pending": 1,
    }  # fmt: skip
    assert cli("consumer", "next", stream, "one", "--raw").ok().raw == b"body of work.c\n"
    assert assets.consumer_info(stream, "one")["num_ack_pending"] == 0
    empty = cli("consumer", "next", stream, "one", "--wait", "50ms", "--ack", "--json")
    assert (empty.code, empty.error["kind"], empty.out) == (8, "timed_out", "")
    assert cli("consumer", "next", stream, "one", "--wait", "0s").code == 4


def test_each_way_of_settling(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one", "--wait", "1h").ok()

    def next_sequence(*flags: str) -> tuple[int, int]:
        found = cli("consumer", "next", stream, "one", *flags, "--json").ok().json
        return found["sequence"], found["deliveries"]

    assert next_sequence("--nak") == (1, 1)
    assert next_sequence("--term") == (1, 2)
    assert next_sequence("--nak-delay", "1h") == (2, 1)
    assert next_sequence("--progress") == (3, 1)
    info = assets.consumer_info(stream, "one")
    assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (2, 1)
    assert cli("consumer", "next", stream, "one", "--ack", "--nak").code == 2


def test_next_stays_within_what_is_asked_for(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "none", "--ack", "none").ok()
    cli("consumer", "add", stream, "push", "--target", "pushed.x").ok()

    ran = cli("consumer", "next", stream, "none", "--count", "5", "--wait", "100ms").ok()
    assert sum(line.startswith("[#") for line in ran.lines) == 3
    assert ran.err == ""
    pushes = cli("consumer", "next", stream, "push")
    assert (pushes.code, "consumer sub" in pushes.err) == (2, True)
    assert cli("consumer", "next", stream, "missing").code == 4


def test_a_hostile_message_does_not_reach_the_terminal(
    cli: CommandLine, assets: JetStreamAssets, stream: str
) -> None:
    cli("consumer", "add", stream, "one", "--deliver", "new").ok()
    assets.api.publish("work.x", b"\x1b]0;title\x07", headers={"N": "\x1b[31m"})

    with cli.terminal("consumer", "next", stream, "one", "--color", "never") as terminal:
        assert terminal.end() == 0
    assert "\x1b" not in terminal.seen
    assert "\\x1b]0;title" in terminal.seen


# -- sub


def test_sub_acknowledges_each(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one").ok()

    ran = cli("consumer", "sub", stream, "one", "--count", "2", "--json").ok()
    assert [message["sequence"] for message in ran.json_lines] == [1, 2]
    info = assets.consumer_info(stream, "one")
    assert (info["ack_floor"]["stream_seq"], info["num_ack_pending"], info["num_pending"]) == (2, 0, 1)
    rest = cli("consumer", "sub", stream, "one", "--idle", "300ms", "--subjects-only").ok()
    assert rest.out == "work.c\n"
    assert cli("consumer", "sub", stream, "one", "--for", "50ms").ok().out == ""
    assert cli("consumer", "sub", stream, "missing").code == 4


def test_sub_leaves_messages_as_they_are(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one").ok()

    cli("consumer", "sub", stream, "one", "--count", "2", "--no-ack", "--raw").ok()
    assert assets.consumer_info(stream, "one")["num_ack_pending"] == 2


def test_sub_of_a_consumer_that_pushes(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli(
        "consumer", "add", stream, "push", "--target", "pushed.one", "--deliver-group", "g",
        "--ack", "explicit", "--heartbeat", "100ms",
    ).ok()  # fmt: skip

    ran = cli("consumer", "sub", stream, "push", "--count", "3", "--json").ok()
    assert [message["subject"] for message in ran.json_lines] == ["work.a", "work.b", "work.c"]
    assert assets.consumer_info(stream, "push")["ack_floor"]["stream_seq"] == 3
    assert cli("consumer", "sub", stream, "push", "--idle", "300ms").ok().out == ""
    assert cli("consumer", "sub", stream, "push", "--group", "x", "--idle", "1ms").code == 2


def test_a_command_decides(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one", "--wait", "1h").ok()
    (cli.folder / "work.py").write_text(
        "import os, sys\n"
        "body = sys.stdin.read()\n"
        "print(body.upper(), sys.argv[1], os.environ['NATS_REQUEST_HEADER_KIND'], end='')\n"
        "print('no b please', file=sys.stderr) if sys.argv[1] == 'b' else None\n"
        "sys.exit(3 if sys.argv[1] == 'b' else 0)\n"
    )

    command = f"{PYTHON} {cli.folder / 'work.py'} {{1}}"
    ran = cli.process(
        "consumer", "sub", stream, "one", "--count", "3", "--exec", command, "--nak-delay", "1h", "--json"
    ).ok()  # fmt: skip
    assert [(each["data"], each["exit_code"]) for each in ran.json_lines] == [
        ("BODY OF WORK.A a test", 0), ("BODY OF WORK.B b test", 3), ("BODY OF WORK.C c test", 0)
    ]  # fmt: skip
    assert "the command failed with 3: no b please" in ran.err
    info = assets.consumer_info(stream, "one")
    assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (1, 1)


def test_no_shell_reads_a_message(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one", "--deliver", "new").ok()
    assets.api.publish("work.$(id);`id`|x", b"$(id)", headers={"Kind": "$(id)"})

    command = f"{PYTHON} -c 'import os, sys; print(*sys.argv[1:], os.environ[sys.argv[2]])' {{1}}"
    command += " NATS_REQUEST_HEADER_KIND"
    ran = cli.process("consumer", "sub", stream, "one", "--count", "1", "--exec", command, "--json").ok()
    assert ran.json["data"] == "$(id);`id`|x NATS_REQUEST_HEADER_KIND $(id)\n"


def test_a_command_that_takes_long_gets_its_time(
    cli: CommandLine, assets: JetStreamAssets, stream: str
) -> None:
    cli("consumer", "add", stream, "one", "--wait", "400ms").ok()
    command = f"{PYTHON} -c 'import time; time.sleep(1.5)'"

    ran = cli.process("consumer", "sub", stream, "one", "--count", "1", "--exec", command, "--json").ok()
    assert ran.json["deliveries"] == 1
    info = assets.consumer_info(stream, "one")
    assert (info["ack_floor"]["stream_seq"], info["num_redelivered"]) == (1, 0)


def test_a_command_that_is_not_there_refuses_its_message(
    cli: CommandLine, assets: JetStreamAssets, stream: str
) -> None:
    cli("consumer", "add", stream, "one").ok()

    ran = cli.process(
        "consumer", "sub", stream, "one", "--count", "1", "--exec", "/no/such", "--nak-delay", "1h", "--json"
    ).ok()
    assert ran.json["exit_code"] == 127
    assert assets.consumer_info(stream, "one")["num_ack_pending"] == 1
    assert cli("consumer", "sub", stream, "one", "--nak-delay", "1s").code == 2


def test_a_group_that_pins_is_read_on(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli(
        "consumer", "add", stream, "one", "--groups", "blue", "--group-policy", "pinned", "--max-batch", "1"
    ).ok()

    ran = cli("consumer", "sub", stream, "one", "--group", "blue", "--count", "3", "--json").ok()
    assert [json.loads(line)["sequence"] for line in ran.lines] == [1, 2, 3]


def test_sub_is_interrupted(cli: CommandLine, assets: JetStreamAssets, stream: str) -> None:
    cli("consumer", "add", stream, "one", "--deliver", "new").ok()
    with cli.started("consumer", "sub", stream, "one", "--json") as running:
        running.wait_for("listening")
        assets.api.publish("work.later", b"x")
        assert json.loads(running.line())["subject"] == "work.later"
        running.interrupt()
        assert running.end().code == 130
