"""`headrace stream copy` and `cluster`: a stream made of another one; leaders and servers of streams."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine
    from harness.processes import ServerProcess


@pytest.fixture
def assets(server: ServerProcess) -> Iterator[JetStreamAssets]:
    """The streams of the account, which are removed afterwards."""
    with connect(server.url) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))
        yield assets
        for name in list(assets.stream_names()):
            assets.delete_stream(name)


def filled(assets: JetStreamAssets, name: str, count: int = 20, **config: object) -> None:
    assets.create_stream({"name": name, "subjects": [f"{name.lower()}.>"], **config})
    for number in range(1, count + 1):
        assets.api.publish(f"{name.lower()}.{'odd' if number % 2 else 'even'}", b"%d" % number)


def test_a_configuration_is_copied(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "FROM", 3, max_msgs=50, description="old")

    copied = cli("stream", "copy", "FROM", "TO", "--subjects", "to.>", "--description", "new", "--json")
    config = copied.ok().json["config"]

    assert (config["name"], config["subjects"]) == ("TO", ["to.>"])
    assert (config["max_msgs"], config["description"]) == (50, "new")
    assert copied.json["state"]["messages"] == 0
    assert cli("stream", "copy", "FROM", "TO").code == 10
    assert cli("stream", "copy", "NONE", "OTHER").code == 4
    assert cli("stream", "copy", "FROM", "NAMED", "--json").ok().json["config"]["subjects"] == ["NAMED"]


def test_messages_keep_their_sequences_and_times(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "DATA")
    for sequence in (3, 20):
        assets.delete_message("DATA", sequence)

    info = cli("stream", "copy", "DATA", "ALL", "--data", "--subjects", "all.>", "--json").ok().json

    assert info["state"]["messages"] == 18
    assert "mirror" not in info["config"]
    for sequence in (1, 2, 19):
        assert assets.message("ALL", sequence) == assets.message("DATA", sequence)
    assert assets.api.publish("all.new", b"x")["stream"] == "ALL"
    assets.api.publish("data.odd", b"not in the copy")
    assert assets.stream_info("ALL")["state"]["messages"] == 19


def test_some_messages_are_copied(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "SOME", 6)
    moment = assets.message("SOME", 4).time_ns

    even = cli("stream", "copy", "SOME", "EVEN", "--data", "--subject", "some.even", "--json").ok().json
    assert even["state"]["messages"] == 3
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment // 10**9)) + f".{moment % 10**9:09}Z"
    late = cli("stream", "copy", "SOME", "LATE", "--data", "--since", text, "--json").ok().json
    assert (late["state"]["messages"], late["state"]["first_seq"]) == (3, 4)
    none = cli("stream", "copy", "SOME", "NONE", "--data", "--subject", "some.none", "--json").ok().json
    assert none["state"]["messages"] == 0


def test_a_work_queue_keeps_its_messages(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "WORK", 3, retention="workqueue")

    ran = cli("stream", "copy", "WORK", "STOLEN", "--data")

    assert ran.code == 1
    assert "stream backup" in ran.err
    assert list(assets.stream_names()) == ["WORK"]
    assert assets.stream_info("WORK")["state"]["messages"] == 3


def test_a_copy_that_fails_is_removed(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "TAKEN", 3)

    ran = cli("stream", "copy", "TAKEN", "FAILS", "--data", "--subjects", "taken.odd")

    assert ran.code == 6
    assert list(assets.stream_names()) == ["TAKEN"]


def test_a_dry_run_copies_nothing(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "DRY", 3)

    ran = cli("stream", "copy", "DRY", "WET", "--data", "--max-age", "1h", "--dry-run", "--json")

    assert ran.code == 3
    assert ran.json["changes"]["max_age"]["after"] == 3_600_000_000_000
    assert list(assets.stream_names()) == ["DRY"]


@pytest.mark.parametrize(
    "flags", [["--data", "--config-only"], ["--since", "1h"], ["--subject", "x"]], ids=str
)
def test_flags_that_do_not_fit_are_wrong_use(flags: list[str], alone: CommandLine) -> None:
    ran = alone("stream", "copy", "A", "B", *flags, "--json")

    assert (ran.code, ran.error["kind"]) == (2, "wrong_use")


def test_a_server_alone_refuses_what_a_cluster_does(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "SINGLE", 1)

    assert cli("stream", "cluster", "step-down", "NONE").code == 4
    ran = cli("stream", "cluster", "step-down", "SINGLE", "--json")
    assert (ran.code, ran.out, ran.error["kind"]) == (6, "", "refused")
    assert cli("stream", "cluster", "peer-remove", "SINGLE", "n1").code == 2
    assert cli("stream", "cluster", "peer-remove", "SINGLE", "n1", "--dry-run").code == 4
    ran = cli("stream", "cluster", "peer-remove", "SINGLE", "n1", "--force", "--json")
    assert (ran.code, ran.out, ran.error["kind"]) == (6, "", "refused")
    assert json.loads(ran.err.splitlines()[-1])["error"]["text"]
