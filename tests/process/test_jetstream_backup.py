"""Backups of a running server by the command line: a directory, an object store, and what is restored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.jetstream import JetStreamWire
from harness.jetstream_stores import contents, fill, make, publish
from harness.processes import HEADRACES, ServerProcess
from harness.s3 import aws_environment, s3_endpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADRACE = str(Path(sys.executable).parent / "headrace")


def jetstream(
    folder: Path, *arguments: str, code: int = 0, environment: Mapping[str, str] | None = None
) -> str:
    command = [HEADRACE, "jetstream", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def stored(wire: JetStreamWire) -> dict[str, Any]:
    """What a server has of streams on disk."""
    return {name: one for name, one in contents(wire).items() if one["config"]["storage"] == "file"}


def test_a_running_server_is_backed_up_and_restored(tmp_path: Path) -> None:
    """Streams of every kind with their consumers: a restored store is served as the killed server's own."""
    store = str(tmp_path / "store")
    with ServerProcess(HEADRACES[0], tmp_path, "-js", "-sd", store) as server:
        with JetStreamWire(server) as wire:
            fill(wire)
            first = jetstream(tmp_path, "backup", "kept", "--dir", "store")
            assert first.startswith("backup ")
            make(wire, "LATER", subjects=["later.>"])
            publish(wire, 5, "later.{}")
            second = jetstream(tmp_path, "backup", "kept", "--dir", "store")
            assert ", 2 " in second or "; 2 new ones" in second  # the state, and the new stream's segment
        server.kill()
    with ServerProcess(HEADRACES[0], tmp_path, "-js", "-sd", store) as server, JetStreamWire(server) as wire:
        expected = stored(wire)
    assert jetstream(tmp_path, "verify", "kept").endswith(" 0 wrong\n")
    assert "restored backup" in jetstream(tmp_path, "restore", "kept", "--dir", "new")
    with ServerProcess(HEADRACES[0], tmp_path, "-js", "-sd", str(tmp_path / "new")) as server:
        with JetStreamWire(server) as wire:
            found = stored(wire)
            for name, stream in expected.items():
                assert found.pop(name) == stream, name
            assert not found
            publish(wire, 1, "later.{}")
        assert "[ERR]" not in server.log

    newest = max((tmp_path / "kept").glob("*.segment"), key=lambda path: path.stat().st_size)
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    said = jetstream(tmp_path, "verify", "kept", code=3)
    assert "$G/streams/" in said
    assert "is damaged" in said
    assert "is damaged" in jetstream(tmp_path, "restore", "kept", "--dir", "other", code=1)
    assert "is not empty" in jetstream(tmp_path, "restore", "kept", "--dir", "new", code=1)
    assert "no store_dir" in jetstream(tmp_path, "backup", "kept", "--dir", "nowhere", code=1)
    assert "no whole backup" in jetstream(tmp_path, "verify", "nowhere", code=1)


@pytest.mark.filterwarnings("default")
def test_into_an_object_store(tmp_path: Path) -> None:
    with s3_endpoint("backups") as endpoint:
        environment = {"PATH": "/usr/bin:/bin", **aws_environment(endpoint)}
        with ServerProcess(HEADRACES[0], tmp_path, "-js", "-sd", str(tmp_path / "store")) as server:
            with JetStreamWire(server) as wire:
                make(wire, "S", subjects=["s.>"])
                publish(wire, 50)
            target = "s3://backups/nats"
            jetstream(tmp_path, "backup", target, "--dir", "store", environment=environment)
            again = jetstream(tmp_path, "backup", target, "--dir", "store", environment=environment)
            assert "; 0 new ones copied" in again
        jetstream(tmp_path, "verify", target, environment=environment)
        jetstream(tmp_path, "restore", target, "--dir", "new", environment=environment)
    new = ServerProcess(HEADRACES[0], tmp_path, "-js", "-sd", str(tmp_path / "new"))
    with new as server, JetStreamWire(server) as wire:
        assert wire.api("STREAM.INFO.S", {})["state"]["messages"] == 50
