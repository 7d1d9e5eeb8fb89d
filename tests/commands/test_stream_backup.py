"""Backups by `headrace stream` and `headrace account`: made on one server, restored on another."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from harness.command_line import CommandLine
from harness.processes import SIDES, ServerProcess
from headrace.client import backup_directory
from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.errors import JetStreamError
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.client.snapshots import StreamSnapshot

CONFIG = """
accounts {
    HERE { users: [ {user: here, password: secret} ], jetstream: enabled }
    THERE { users: [ {user: there, password: secret} ], jetstream: enabled }
}
"""


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    """A server of each kind."""
    folder = tmp_path_factory.mktemp("backups")
    first, second = SIDES
    arguments = ("-js", "-sd")
    with (
        ServerProcess(SIDES[first], folder, *arguments, str(folder / first), config=CONFIG) as one,
        ServerProcess(SIDES[second], folder, *arguments, str(folder / second), config=CONFIG) as other,
    ):
        yield {first: one, second: other}


@contextmanager
def account(server: ServerProcess, user: str) -> Iterator[JetStreamAssets]:
    """The streams of an account, which are removed afterwards."""
    with connect(url_of(server, user)) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))
        yield assets
        for name in list(assets.stream_names()):
            assets.delete_stream(name)


def url_of(server: ServerProcess, user: str) -> str:
    return server.url.replace("nats://", f"nats://{user}:secret@")


class Pair:
    """The command line at a server, `here`, and at another one, `there`."""

    def __init__(self, folder: Path, here: str, there: str) -> None:
        self.folder = folder / "backups"
        self.here = CommandLine(folder, here)
        self.there = CommandLine(folder, there)


@pytest.fixture(params=[(here, there) for here in SIDES for there in SIDES], ids="-".join)
def pair(
    request: pytest.FixtureRequest, both: dict[str, ServerProcess], tmp_path: Path
) -> Iterator[tuple[Pair, JetStreamAssets, JetStreamAssets]]:
    """Every pair of servers, one with itself, too; with the streams of both."""
    here, there = (both[name] for name in request.param)
    with account(here, "here") as ours, account(there, "there") as theirs:
        yield Pair(tmp_path, url_of(here, "here"), url_of(there, "there")), ours, theirs


def filled(assets: JetStreamAssets, name: str, count: int = 20) -> None:
    assets.create_stream({"name": name, "subjects": [f"{name.lower()}.>"], "allow_direct": True})
    for number in range(count):
        assets.api.publish(f"{name.lower()}.{number % 3}", b"%d" % number * 50, headers={"N": str(number)})


def messages(assets: JetStreamAssets, name: str) -> list[tuple[int, str, int, bytes, object]]:
    state = assets.stream_info(name)["state"]
    deleted = set(assets.stream_info(name, with_deleted=True)["state"].get("deleted") or ())
    there = [n for n in range(state["first_seq"], state["last_seq"] + 1) if n not in deleted]
    read = [assets.message(name, sequence) for sequence in there]
    return [(each.sequence, each.subject, each.time_ns, each.data, each.headers) for each in read]


Both = tuple[Pair, JetStreamAssets, JetStreamAssets]


def test_a_stream_moves_to_another_server(pair: Both) -> None:
    tool, ours, theirs = pair
    filled(ours, "MOVED")
    ours.delete_message("MOVED", 7)
    ours.create_consumer("MOVED", {"durable_name": "worker", "ack_policy": "explicit"})
    target = tool.folder / "MOVED"

    backup = tool.here("stream", "backup", "MOVED", str(target), "--json").ok().json
    assert (backup["messages"], backup["consumers"], backup["last_sequence"]) == (19, 1, 20)
    assert backup["size_bytes"] == (target / "stream.tar.s2").stat().st_size
    assert sorted(path.name for path in target.iterdir()) == ["backup.json", "stream.tar.s2"]
    facts = json.loads((target / "backup.json").read_bytes())
    assert (facts["config"]["name"], facts["state"]["messages"]) == ("MOVED", 19)

    dry = tool.there("stream", "restore", str(target), "--dry-run", "--json")
    assert (dry.code, dry.json["done"], dry.json["messages"]) == (3, False, 19)
    assert list(theirs.stream_names()) == []
    restored = tool.there("stream", "restore", str(target), "--json").ok().json
    assert (restored["messages"], restored["consumers"], restored["first_sequence"]) == (19, 1, 1)
    assert messages(theirs, "MOVED") == messages(ours, "MOVED")
    assert list(theirs.consumer_names("MOVED")) == ["worker"]
    again = tool.there("stream", "restore", str(target), "--json")
    assert (again.code, again.error["kind"]) == (10, "exists")
    assert tool.there("stream", "restore", str(target), "--dry-run").code == 10


def test_a_stream_is_restored_under_another_name(pair: Both) -> None:
    tool, ours, theirs = pair
    filled(ours, "OLD", 5)
    tool.here("stream", "backup", "OLD", str(tool.folder), "--no-consumers", "-q").ok()
    config = tool.folder / "other.json"
    config.write_text(json.dumps({"description": "restored", "max_msgs": 100}))

    tool.there("stream", "restore", str(tool.folder), "--name", "NEW", "--config", str(config)).ok()

    assert list(theirs.stream_names()) == ["NEW"]
    found = theirs.stream_info("NEW")
    assert (found["config"]["description"], found["config"]["subjects"]) == ("restored", ["old.>"])
    assert messages(theirs, "NEW") == messages(ours, "OLD")


@pytest.fixture(params=list(SIDES))
def single(
    request: pytest.FixtureRequest, both: dict[str, ServerProcess], tmp_path: Path
) -> Iterator[tuple[CommandLine, JetStreamAssets, Path]]:
    """The command line at a server of each kind, with its streams and a folder for backups."""
    server = both[request.param]
    with account(server, "here") as assets:
        yield CommandLine(tmp_path, url_of(server, "here")), assets, tmp_path / "backups"


Single = tuple[CommandLine, JetStreamAssets, "Path"]


def test_a_backup_is_not_written_over_by_mistake(single: Single) -> None:
    cli, assets, folder = single
    filled(assets, "TWICE", 3)
    cli("stream", "backup", "TWICE", str(folder)).ok()
    before = (folder / "stream.tar.s2").read_bytes()
    assets.api.publish("twice.x", b"more")

    assert cli("stream", "backup", "TWICE", str(folder)).code == 10
    assert (folder / "stream.tar.s2").read_bytes() == before
    found = cli("stream", "backup", "TWICE", str(folder), "--force", "--check", "--json").ok().json
    assert found["messages"] == 4


def test_what_is_missing_is_4(single: Single) -> None:
    cli, _, folder = single

    assert cli("stream", "backup", "NONE", str(folder)).code == 4
    assert not (folder / "backup.json").exists()
    assert cli("stream", "restore", str(folder)).code == 4
    assert cli("account", "restore", str(folder)).code == 4


def test_a_damaged_backup_is_3(single: Single) -> None:
    cli, assets, folder = single
    filled(assets, "HURT", 50)
    cli("stream", "backup", "HURT", str(folder)).ok()
    assets.delete_stream("HURT")
    data = folder / "stream.tar.s2"
    whole = data.read_bytes()

    data.write_bytes(whole[: len(whole) // 2] + b"\xff" + whole[len(whole) // 2 + 1 :])
    assert cli("stream", "restore", str(folder), "--dry-run").code == 3
    assert "damaged" in cli("stream", "restore", str(folder), "--dry-run").err
    data.write_bytes(whole[:-20])
    assert "cut off" in cli("stream", "restore", str(folder), "--dry-run").err
    assert cli("stream", "restore", str(folder)).code == 6
    assert list(assets.stream_names()) == []
    (folder / "backup.json").write_text("{}")
    assert cli("stream", "restore", str(folder)).code == 3


def test_many_chunks_are_on_their_way_at_once(single: Single) -> None:
    cli, assets, folder = single
    assets.create_stream({"name": "LARGE", "subjects": ["large"], "storage": "memory"})
    for number in range(48):
        assets.api.publish("large", bytes(random_bytes(number, 100_000)))

    found = cli("stream", "backup", "LARGE", str(folder), "--json").ok().json
    assert found["size_bytes"] > 4_000_000
    before = messages(assets, "LARGE")
    assets.delete_stream("LARGE")
    cli("stream", "restore", str(folder)).ok()

    assert messages(assets, "LARGE") == before


def random_bytes(seed: int, count: int) -> bytes:
    """Return bytes that cannot be compressed, the same for the same seed."""
    from random import Random

    return Random(seed).randbytes(count)


def test_all_streams_move_and_a_run_goes_on(pair: Both) -> None:
    tool, ours, theirs = pair
    for name in ("ONE", "TWO", "KV_three"):
        filled(ours, name, 4)
    folder = str(tool.folder)

    part = tool.here("account", "backup", folder, "--streams", "T*", "--json").ok().json
    assert [(item["stream"], item["done"]) for item in part["items"]] == [("TWO", True)]
    rest = tool.here("account", "backup", folder, "--json").ok().json
    done = {item["stream"]: item["done"] for item in rest["items"]}
    assert done == {"KV_three": True, "ONE": True, "TWO": False}

    dry = tool.there("account", "restore", folder, "--dry-run", "--json")
    assert (dry.code, len(dry.json["items"])) == (3, 3)
    tool.there("account", "restore", folder, "--only", "ONE").ok()
    restored = tool.there("account", "restore", folder, "--json").ok().json
    done = {item["stream"]: item["done"] for item in restored["items"]}
    assert done == {"KV_three": True, "ONE": False, "TWO": True}
    assert messages(theirs, "KV_three") == messages(ours, "KV_three")

    theirs.api.publish("one.x", b"more")
    theirs.delete_stream("TWO")
    ran = tool.there("account", "restore", folder, "--json")
    assert ran.code == 10
    [wrong] = [item for item in ran.json["items"] if "error" in item]
    assert wrong["stream"] == "ONE"
    assert sorted(theirs.stream_names()) == ["KV_three", "ONE", "TWO"]


def test_an_interrupted_backup_says_how_to_go_on(single: Single, monkeypatch: pytest.MonkeyPatch) -> None:
    cli, assets, folder = single
    for name in ("ALPHA", "BETA"):
        filled(assets, name, 3)
    take = backup_directory.take_snapshot

    def interrupted(api: JetStreamApi, stream: str, write: Any, **options: Any) -> StreamSnapshot:
        if stream == "BETA":
            write(b"some bytes")
            raise KeyboardInterrupt
        return take(api, stream, write, **options)

    with monkeypatch.context() as patch:
        patch.setattr(backup_directory, "take_snapshot", interrupted)
        ran = cli("account", "backup", str(folder))
    assert ran.code == 130
    assert "1 of 2 streams are done; the same command goes on" in ran.err
    assert list((folder / "BETA").iterdir()) == []

    found = cli("account", "backup", str(folder), "--json").ok().json["items"]
    assert [(item["stream"], item["done"]) for item in found] == [("ALPHA", False), ("BETA", True)]


def test_a_backup_that_fails_leaves_the_one_before(single: Single, monkeypatch: pytest.MonkeyPatch) -> None:
    cli, assets, folder = single
    filled(assets, "KEPT", 3)
    cli("stream", "backup", "KEPT", str(folder)).ok()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def broken(api: JetStreamApi, stream: str, write: Any, **options: Any) -> StreamSnapshot:
        write(b"some bytes")
        raise JetStreamError(408, 0, "No Flow Response")

    monkeypatch.setattr(backup_directory, "take_snapshot", broken)
    assert cli("stream", "backup", "KEPT", str(folder), "--force").code == 6
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_one_stream_that_fails_does_not_stop_the_others(single: Single) -> None:
    cli, assets, folder = single
    for name in ("FIRST", "SECOND"):
        filled(assets, name, 3)
    folder.mkdir()
    (folder / "FIRST").write_text("not a directory")

    ran = cli("account", "backup", str(folder), "--json")

    assert ran.code == 1
    first, second = ran.json["items"]
    assert "FIRST" in first["error"]
    assert (second["done"], second["messages"]) == (True, 3)
