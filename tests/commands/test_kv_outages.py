"""`headrace kv watch` and `object watch` while their server goes and comes back."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from harness.command_line import CommandLine
from harness.ports import free_port
from harness.processes import SIDES, ServerProcess
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.keyvalue import KeyValueBucket
from headrace.client.objects import ObjectBucket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("side", "end"),
    [
        ("headrace", ServerProcess.stop),
        ("nats-server", ServerProcess.stop),
        ("nats-server", ServerProcess.kill),
    ],
)
def test_a_watch_misses_nothing_over_an_outage(
    side: str, end: Callable[[ServerProcess], object], tmp_path: Path
) -> None:
    listen = ("-a", "127.0.0.1", "-p", str(free_port()))

    def started() -> ServerProcess:
        return ServerProcess(SIDES[side], tmp_path, "-js", "-sd", str(tmp_path / "store"), listen=listen)

    with started() as server, connect(server.url) as connection:
        KeyValueBucket.create(JetStreamApi(connection), "settings").put("before", b"1")
        ObjectBucket.create(JetStreamApi(connection), "files").put("before", io.BytesIO(b"1"))
        cli = CommandLine(tmp_path, server.url)
        with (
            cli.started("kv", "watch", "settings", "--json") as keys,
            cli.started("kv", "watch", "settings", "--updates", "--json") as changes,
            cli.started("object", "watch", "files", "--json") as objects,
        ):
            first = json.loads(keys.line()), json.loads(objects.line())
            changes.wait_for("watching")
            end(server)
            for watching in (keys, changes, objects):
                watching.wait_for("connecting again")
            with started() as again, connect(again.url) as other:
                KeyValueBucket(JetStreamApi(other), "settings").put("after", b"2")
                ObjectBucket(JetStreamApi(other), "files").put("after", io.BytesIO(b"2"))
                later = [json.loads(watching.line()) for watching in (keys, changes, objects)]
                for watching in (keys, changes, objects):
                    watching.interrupt()
                    assert watching.end().code == 130

    assert [found["key" if "key" in found else "name"] for found in (*first, *later)] == [
        "before", "before", "after", "after", "after"
    ]  # fmt: skip
