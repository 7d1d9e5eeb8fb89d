"""`headrace server check`: levels, thresholds, formats; exit codes of Nagios plugins."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.keyvalue import KeyValueBucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.command_line import CommandLine
    from harness.processes import ServerProcess

OK, WARNING, CRITICAL = 0, 1, 2
SYSTEM = ("--user", "admin", "--password", "secret")


@pytest.fixture(scope="module")
def assets(server: ServerProcess) -> Iterator[JetStreamAssets]:
    """A stream with three messages and a consumer, and a bucket with one key."""
    with connect(server.url) as connection:
        api = JetStreamApi(connection)
        found = JetStreamAssets(api)
        found.create_stream({"name": "CHECKS", "subjects": ["checks.*"]})
        found.create_consumer("CHECKS", {"durable_name": "C", "ack_policy": "explicit"})
        for body in (b"one", b"two", b"%d" % time.time()):
            api.publish("checks.x", body)
        KeyValueBucket.create(api, "CHECKED").put("colour", b"red")
        yield found


def check(cli: CommandLine, *arguments: str) -> tuple[int, dict[str, Any]]:
    ran = cli("server", "check", *arguments, "--json")
    assert ran.json["status"] == ("OK", "WARNING", "CRITICAL", "UNKNOWN")[ran.code]
    return ran.code, ran.json


def test_a_connection_is_checked(cli: CommandLine, alone: CommandLine) -> None:
    code, found = check(cli, "connection", "--connect-critical", "1h", "--rtt-critical", "1h")
    numbers = {each["name"] for each in found["numbers"]}
    assert numbers == {"connect_time", "rtt", "request_time"}
    assert code in (OK, WARNING)  # a busy machine may be slow
    slow = ("--rtt-warn", "1ns", "--rtt-critical", "1h", "--connect-critical", "1h", "--req-critical", "1h")
    assert check(cli, "connection", *slow)[0] == WARNING
    assert check(cli, "connection", "--rtt-critical", "1ns")[0] == CRITICAL
    code, found = check(alone, "connection")
    assert code == CRITICAL
    assert found["criticals"]


@pytest.mark.usefixtures("assets")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("stream", "CHECKS"), OK),
        (("stream", "--stream", "CHECKS", "--msgs-warn", "2"), WARNING),
        (("stream", "CHECKS", "--msgs-warn", "2", "--msgs-critical", "3"), CRITICAL),
        (("stream", "CHECKS", "--msgs-warn", "2", "--msgs-critical", "1"), OK),
        (("stream", "CHECKS", "--msgs-warn", "4", "--msgs-critical", "1"), WARNING),
        (("stream", "CHECKS", "--subjects-critical", "1"), CRITICAL),
        (("stream", "CHECKS", "--min-sources", "1"), CRITICAL),
        (("stream", "CHECKS", "--max-sources", "1"), OK),
        (("stream", "CHECKS", "--peer-expect", "3"), CRITICAL),
        (("stream", "NOT_THERE"), CRITICAL),
        (("consumer", "CHECKS", "C"), OK),
        (("consumer", "--stream", "CHECKS", "--consumer", "C", "--unprocessed-critical", "3"), CRITICAL),
        (("consumer", "CHECKS", "C", "--unprocessed-critical", "4"), OK),
        (("consumer", "CHECKS", "C", "--last-delivery-critical", "1h"), CRITICAL),
        (("consumer", "CHECKS", "C", "--pinned"), CRITICAL),
        (("consumer", "CHECKS", "NOT_THERE"), CRITICAL),
        (("message", "CHECKS", "checks.x", "--age-critical", "1h"), OK),
        (("message", "CHECKS", "checks.x", "--age-warn", "0s"), WARNING),
        (("message", "CHECKS", "checks.x", "--content", "^[0-9]+$"), OK),
        (("message", "CHECKS", "checks.x", "--content", "two"), CRITICAL),
        (("message", "CHECKS", "checks.x", "--body-timestamp", "--age-critical", "1h"), OK),
        (("message", "CHECKS", "checks.none"), CRITICAL),
        (("kv", "CHECKED"), OK),
        (("kv", "--bucket", "CHECKED", "--key", "colour", "--values-critical", "2"), OK),
        (("kv", "CHECKED", "--key", "size"), CRITICAL),
        (("kv", "CHECKED", "--values-warn", "1"), WARNING),
        (("kv", "NOT_THERE"), CRITICAL),
        (("jetstream", "--replicas"), OK),
        (("request", "nobody.there"), CRITICAL),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_levels(arguments: tuple[str, ...], expected: int, cli: CommandLine) -> None:
    code, found = check(cli, *arguments)

    assert code == expected, found


def test_a_service_is_checked(cli: CommandLine) -> None:
    with cli.started("reply", "checked.service", "--body", "fine", "-H", "Mood:good") as running:
        running.wait_for("answering")
        for flags, expected in (
            ((), OK),
            (("--match-payload", "^fine$", "--match-header", "Mood:good"), OK),
            (("--match-payload", "bad"), CRITICAL),
            (("--match-header", "Mood:bad"), CRITICAL),
            (("--response-critical", "1ns"), CRITICAL),
        ):
            assert check(cli, "request", "checked.service", *flags)[0] == expected


def test_a_server_is_checked_by_both_sources(cli: CommandLine, server: ServerProcess) -> None:
    for source in (SYSTEM, ("--monitor", server.monitor_url)):
        assert check(cli, "server", "--auth-required", "--js-required", *source)[0] == OK
        assert check(cli, "server", "--tls-required", *source)[0] == CRITICAL
        assert check(cli, "server", "--mem-warn", "1", *source)[0] == WARNING
        assert check(cli, "server", "--uptime-critical", "1000d", *source)[0] == CRITICAL
        assert check(cli, "server", "--name", "nobody", *source)[0] == CRITICAL
    assert check(cli, "server")[0] == CRITICAL


def credentials(folder: Path, **claims: object) -> str:
    def part(document: dict[str, object]) -> str:
        return urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")

    token = f"{part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{part(claims)}.c2ln"
    seed = "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4"
    path = folder / "user.creds"
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    path.chmod(0o600)
    return str(path)


def test_credentials_are_checked(alone: CommandLine, tmp_path: Path) -> None:
    path = credentials(tmp_path)
    assert check(alone, "credential", path)[0] == OK
    assert check(alone, "credential", "--credential", path, "--require-expiry")[0] == CRITICAL
    path = credentials(tmp_path, exp=int(time.time()) + 86_400)
    assert check(alone, "credential", path)[0] == OK
    assert (
        check(alone, "credential", path, "--validity-warn", "2d", "--validity-critical", "1h")[0] == WARNING
    )
    assert check(alone, "credential", path, "--validity-critical", "2d")[0] == CRITICAL
    path = credentials(tmp_path, exp=int(time.time()) - 1)
    assert check(alone, "credential", path)[0] == CRITICAL
    assert check(alone, "credential", str(tmp_path / "none"))[0] == CRITICAL


@pytest.mark.usefixtures("assets")
def test_formats(cli: CommandLine) -> None:
    words = ("server", "check", "stream", "CHECKS", "--msgs-warn", "2", "--msgs-critical", "9")
    nagios = cli(*words)
    assert nagios.code == WARNING
    assert nagios.lines[0].startswith("CHECKS WARNING Warn:messages 3 is at least 2")
    assert "| messages=3;2;9 subjects=1" in nagios.lines[0]
    assert cli(*words, "--format", "json").json["numbers"][0] == {
        "name": "messages", "value": 3, "unit": "", "warning": 2, "critical": 9,
    }  # fmt: skip
    prometheus = cli(*words, "--format", "prometheus").lines
    assert 'nats_server_check_stream_messages{item="CHECKS"} 3' in prometheus
    assert 'nats_server_check_stream_status_code{item="CHECKS",status="WARNING"} 1' in prometheus
    own = cli(*words, "--format", "prometheus", "--namespace", "mine").out
    assert "mine_stream_messages" in own
    assert "CHECKS: WARNING" in cli(*words, "--format", "text").lines


def test_wrong_use_is_2(alone: CommandLine) -> None:
    for words in (
        ("stream",),
        ("stream", "A", "--stream", "B"),
        ("message", "A", "b", "--content", "("),
        ("request", "a", "--match-payload", "("),
    ):
        ran = alone("server", "check", *words)
        assert (ran.code, ran.out) == (2, "")
