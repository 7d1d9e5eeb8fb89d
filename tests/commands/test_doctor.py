"""`headrace doctor`: the same findings of Headrace and of nats-server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cli.diagnosis.symptoms import HarmLevel
from headrace.cli.diagnosis.table import CHECKS

if TYPE_CHECKING:
    from pathlib import Path

    from harness.command_line import CommandLine
    from harness.processes import ServerProcess

ADMIN = ("--user", "admin", "--password", "secret")
SAFE = """
listen: "127.0.0.1:4222"
server_name: a
max_connections: 100
"""
"""A configuration that nothing is wrong with."""


def findings(document: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    """The places of each finding, by its id."""
    return {each["id"]: each["places"] for each in document["findings"]}


def places_of(document: dict[str, Any], name: str, part: str) -> list[str]:
    """The texts of a finding at places with this in their names."""
    return [each["text"] for each in findings(document).get(name, ()) if part in each["place"]]


@pytest.fixture(scope="module")
def stream(server: ServerProcess) -> str:
    """A stream without limits, with a consumer that has messages delivered twice and not acknowledged."""
    from headrace.client.api import JetStreamAssets
    from headrace.client.blocking import connect
    from headrace.client.consuming import PullConsumer
    from headrace.client.jetstream_api import JetStreamApi

    with connect(server.url) as connection:
        api = JetStreamApi(connection, "$JS.API", timeout=20)
        assets = JetStreamAssets(api)
        assets.create_stream({"name": "DOCTOR", "subjects": ["doctor.>"]})
        assets.create_consumer(
            "DOCTOR", {"durable_name": "SICK", "ack_policy": "explicit", "max_ack_pending": 1}
        )
        for _ in range(2):
            api.publish("doctor.x", b"")
        consumer = PullConsumer(api, "DOCTOR", "SICK")
        for _ in range(2):
            for message in consumer.fetch(1, wait=10):
                message.nak()
        assert list(consumer.fetch(1, wait=10))
    return "DOCTOR"


@pytest.mark.parametrize("way", ["system", "monitor", "account"])
def test_streams_and_consumers_are_looked_at(
    cli: CommandLine, server: ServerProcess, stream: str, way: str
) -> None:
    flags = {"system": ADMIN, "monitor": ("--monitor", server.monitor_url), "account": ()}[way]
    ran = cli("doctor", "--json", *flags)

    assert ran.code == 3, ran.err
    assert ran.json["scope"] == way
    assert len(ran.json["servers"]) == 1
    assert places_of(ran.json, "stream-without-limits", stream) == [
        text for text in places_of(ran.json, "stream-without-limits", stream) if "2 messages" in text
    ]
    assert places_of(ran.json, "redelivered-for-ever", "SICK") != []
    assert places_of(ran.json, "consumer-blocked", "SICK") == [
        "1 of 1 are not acknowledged, 1 wait behind them"
    ]
    assert places_of(ran.json, "consumer-unread", "SICK") == []
    is_server_seen = way != "account"
    assert ("temporary-store" in findings(ran.json)) is is_server_seen


def test_both_servers_are_told_of_by_both_ways_alike(
    cli: CommandLine, server: ServerProcess, stream: str
) -> None:
    by_system = cli("doctor", "--json", *ADMIN).json
    by_monitor = cli("doctor", "--json", "--monitor", server.monitor_url).json

    assert findings(by_system).keys() == findings(by_monitor).keys()
    assert by_system["servers"] == by_monitor["servers"]
    syncs = "sync-interval" in findings(by_system)
    assert syncs is (cli.url != "" and "nats-server" in server.program.command[0])


def test_a_safe_configuration_has_nothing_wrong(alone: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "safe.conf"
    file.write_text(SAFE)
    ran = alone("doctor", str(file), "--json").ok()

    assert ran.json == {"file": str(file), "servers": [], "scope": "file", "findings": []}
    shown = alone("doctor", str(file)).ok()
    assert shown.lines == ["severity\tid\tplace\tfound\ttitle\tadvice\tlink"]
    assert "nothing is wrong" in shown.err


def test_hints_alone_are_no_failure(alone: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "hint.conf"
    file.write_text(SAFE + "max_payload: 16MB\n")

    assert alone("doctor", str(file), "--quiet").ok().out == "large-payloads\n"


def test_the_worst_comes_first_with_advice(alone: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "bad.conf"
    file.write_text("trace: true\nmax_payload: 16MB\n")
    ran = alone("doctor", str(file), "--json")

    assert ran.code == 3
    severities = [HarmLevel[each["severity"].upper()] for each in ran.json["findings"]]
    assert severities == sorted(severities, reverse=True)
    assert all(each["advice"] and each["link"].startswith("docs/") for each in ran.json["findings"])
    ignored = [argument for each in ran.json["findings"] for argument in ("--ignore", each["id"])]
    assert alone("doctor", str(file), "--json", *ignored).ok().json["findings"] == []


def test_rows_of_a_pipe_have_a_line_for_each_place(alone: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "bad.conf"
    file.write_text(SAFE + "trace: true\n")
    ran = alone("doctor", str(file))

    assert ran.code == 3
    heading, row = (line.split("\t") for line in ran.lines)
    assert len(heading) == len(row) == 7
    assert row[:4] == ["warning", "trace-on", str(file), "trace is on"]


def test_on_a_terminal_it_is_read(alone: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "bad.conf"
    file.write_text(SAFE + "trace: true\n")
    with alone.terminal("doctor", str(file)) as shown:
        assert shown.end() == 3

    assert "\x1b[33mwarning: Every message is in the log, and the server is slow (trace-on)" in shown.seen
    assert "docs/server.md#log" in shown.seen


def test_the_configuration_of_a_server_is_the_one_it_has_read(
    cli: CommandLine, server: ServerProcess
) -> None:
    changed = cli.folder / "changed.conf"
    changed.write_text(server.config_file.read_text() + "\ndebug: true\n")
    flags = ("--monitor", server.monitor_url, "--json")

    same = cli("doctor", str(server.config_file), *flags)
    other = cli("doctor", str(changed), *flags)

    assert "configuration-not-read" not in findings(same.json)
    assert "configuration-not-read" in findings(other.json)
    assert "plain-passwords" in findings(same.json)
    assert "secret" not in same.out.replace("secrets", "")


def test_open_files_of_a_process_are_counted(cli: CommandLine, server: ServerProcess) -> None:
    few = cli.folder / "few.conf"
    few.write_text(SAFE.replace("100", "2000000000"))
    ran = cli("doctor", str(few), "--json", "--pid", str(server.pid))

    assert "max_connections is 2,000,000,000" in findings(ran.json)["file-descriptors"][0]["text"]
    assert cli("doctor", "--pid", "1").code == 2
    gone = _pid_of_nobody()
    assert cli("doctor", str(few), "--pid", str(gone)).code == 4


def _pid_of_nobody() -> int:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    return child


def test_wrong_use_is_2_and_what_is_not_there_is_4(alone: CommandLine, tmp_path: Path) -> None:
    assert alone("doctor", "--ignore", "no-such-check").code == 2
    assert alone("doctor", str(tmp_path / "none.conf")).code == 4
    assert alone("doctor", "--monitor", "ftp://127.0.0.1").code == 2
    assert alone("doctor", "--monitor", "http://127.0.0.1:1").code == 7
    assert alone("doctor", "--monitor-user", "ops").code == 2


def test_a_configuration_that_cannot_be_used_is_a_finding(alone: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "wrong.conf"
    file.write_text("prot: 4222\n")
    ran = alone("doctor", str(file), "--json")

    assert ran.code == 3
    assert "prot" in findings(ran.json)["configuration-refused"][0]["text"]


def test_every_check_has_an_id_that_is_ignored(alone: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "bad.conf"
    file.write_text("trace: true\n")
    ignored = [argument for check in CHECKS for argument in ("--ignore", check.id)]

    assert alone("doctor", str(file), *ignored, "--quiet").ok().out == "\n"


@pytest.mark.parametrize("word", ["doctor", "top"])
def test_a_user_who_may_not_ask_is_not_permitted(cli: CommandLine, word: str) -> None:
    ran = cli(word, "--json", "--user", "reader", "--password", "secret", "--timeout", "2s")

    assert (ran.code, ran.out) == (9, "")
    assert ran.error["kind"] == "not_permitted"
