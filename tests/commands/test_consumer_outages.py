"""`headrace consumer sub` while its server goes and comes back."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from harness.command_line import CommandLine
from harness.ports import free_port
from harness.processes import SIDES, ServerProcess
from harness.waiting import PATIENCE
from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STREAM = "WORK"


def wait_until_acknowledged(assets: JetStreamAssets, sequence: int) -> None:
    """Ask until both consumers have acknowledged all up to a sequence."""
    deadline = time.monotonic() + PATIENCE
    while any(
        assets.consumer_info(STREAM, name)["ack_floor"]["stream_seq"] < sequence
        for name in ("pulled", "pushed")
    ):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("side", list(SIDES))
@pytest.mark.parametrize("end", [ServerProcess.stop, ServerProcess.kill])
def test_a_consumer_is_read_on_after_an_outage(
    side: str, end: Callable[[ServerProcess], object], tmp_path: Path
) -> None:
    listen = ("-a", "127.0.0.1", "-p", str(free_port()))

    def started() -> ServerProcess:
        return ServerProcess(SIDES[side], tmp_path, "-js", "-sd", str(tmp_path / "store"), listen=listen)

    with started() as server, connect(server.url) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))
        assets.create_stream({"name": STREAM, "subjects": ["work.>"]})
        cli = CommandLine(tmp_path, server.url)
        wait = ("--wait", "2s")  # after a kill a server may not know of the last acknowledgements
        cli("consumer", "add", STREAM, "pulled", *wait).ok()
        cli("consumer", "add", STREAM, "pushed", "--target", "to.us", "--ack", "explicit", *wait).ok()
        assets.api.publish("work.before", b"1")
        with (
            cli.started("consumer", "sub", STREAM, "pulled", "--json") as pulled,
            cli.started("consumer", "sub", STREAM, "pushed", "--json") as pushed,
        ):
            for each in (pulled, pushed):
                assert json.loads(each.line())["subject"] == "work.before"
            wait_until_acknowledged(assets, 1)
            end(server)
            for each in (pulled, pushed):
                each.wait_for("connecting again")
            with started() as again, connect(again.url) as other:
                JetStreamApi(other).publish("work.after", b"2")
                for each in (pulled, pushed):
                    each.wait_for("work.after", "out")
                wait_until_acknowledged(JetStreamAssets(JetStreamApi(other)), 2)
                for each in (pulled, pushed):
                    each.interrupt()
                    assert each.end().code == 130


@pytest.mark.parametrize("side", list(SIDES))
def test_a_consumer_that_is_removed_ends_it(side: str, tmp_path: Path) -> None:
    with (
        ServerProcess(SIDES[side], tmp_path, "-js", "-sd", str(tmp_path / "store")) as server,
        connect(server.url) as connection,
    ):
        assets = JetStreamAssets(JetStreamApi(connection))
        assets.create_stream({"name": STREAM, "subjects": ["work.>"]})
        cli = CommandLine(tmp_path, server.url)
        cli("consumer", "add", STREAM, "gone").ok()
        with cli.started("consumer", "sub", STREAM, "gone") as running:
            running.wait_for("listening")
            deadline = time.monotonic() + PATIENCE
            while not assets.consumer_info(STREAM, "gone")["num_waiting"]:
                assert time.monotonic() < deadline
            assets.delete_consumer(STREAM, "gone")
            assert running.end().code == 4
