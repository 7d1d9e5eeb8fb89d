"""Stores that the real nats-server wrote, imported and served as it serves them, message by message.

What nats-server makes of its own store at a start is the reference, for a killed one too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.jetstream import JetStreamWire
from harness.jetstream_stores import SECOND, consume, contents, fill, make, publish, pull, settle
from harness.ports import free_port
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE, wait_until
from headrace.engine.message_blocks import checksum
from headrace.jetstream.importing.consumer_state import read_consumer_state
from headrace.jetstream.importing.stream_index import BadIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import Program

HEADRACE = str(Path(sys.executable).parent / "headrace")
KEY = "a key with spaces"


def written(folder: Path, fill_in: Callable[[JetStreamWire], object], *, kill: bool, **options: Any) -> Path:
    """A store of nats-server in `old`, filled and left."""
    store = folder / "old"
    with ServerProcess(NATS_SERVER, folder, "-js", "-sd", str(store), **options) as server:
        with JetStreamWire(server) as wire:
            fill_in(wire)
        if kill:
            server.kill()
        else:
            server.stop()
    return store


def served(program: Program, folder: Path, store: str, **options: Any) -> dict[str, Any]:
    """What a server that is started on a store has; nats-server gets a copy, since it writes to it."""
    if program is NATS_SERVER:
        shutil.copytree(folder / store, folder / "copy")
        store = "copy"
    with ServerProcess(program, folder, "-js", "-sd", str(folder / store), **options) as server:
        with JetStreamWire(server) as wire:
            found = contents(wire)
        assert "[ERR]" not in server.log
    return found


def run_import(folder: Path, *arguments: str, code: int = 0) -> str:
    command = [HEADRACE, "jetstream", "import", "old", "--dir", "new", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def without_quirks(found: dict[str, Any]) -> dict[str, Any]:
    """nats-server shows sequence 0 as deleted in a stream that never had a message, after a restart."""
    for stream in found.values():
        if stream["state"].get("deleted") == [0]:
            del stream["state"]["deleted"], stream["state"]["num_deleted"]
    return found


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_everything_of_a_server_comes_over(tmp_path: Path, kill: bool) -> None:
    store = written(tmp_path, fill, kill=kill)
    files = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}

    said = run_import(tmp_path)

    assert "damage" not in said
    assert files == {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    there = without_quirks(served(NATS_SERVER, tmp_path, "old"))
    ours = served(HEADRACES[0], tmp_path, "new")
    assert there.keys() == ours.keys()
    if kill:  # only a server that stops writes how far sources are whose messages are all gone
        assert "$G/DRAINED: source FIRST: how far it was is not known; its messages may come again" in said
        del there["DRAINED"]
    for name in there:
        assert ours[name] == there[name], name


def rewrite_metadata(directory: Path, key: str, **fields: object) -> None:
    """As if a server had written other ones: with their checksum."""
    data = json.dumps(json.loads((directory / "meta.inf").read_bytes()) | fields).encode()
    (directory / "meta.inf").write_bytes(data)
    (directory / "meta.sum").write_text(checksum(sha256(key.encode()).digest(), data).hex())


def test_configurations_that_the_server_refuses_at_its_start_are_left_out(tmp_path: Path) -> None:
    def fill_in(wire: JetStreamWire) -> None:
        for name in ("GOOD", "SUBJECT", "TRANSFORM", "AGE"):
            make(wire, name, subjects=[f"{name}.>"])
        for name in ("good", "filter", "start"):
            consumer = {"durable_name": name, "ack_policy": "explicit"}
            wire.api(f"CONSUMER.CREATE.GOOD.{name}", {"stream_name": "GOOD", "config": consumer})

    streams = written(tmp_path, fill_in, kill=False) / "jetstream" / "$G" / "streams"
    rewrite_metadata(streams / "SUBJECT", "SUBJECT", subjects=["a b", "SUBJECT.>"])
    rewrite_metadata(
        streams / "TRANSFORM", "TRANSFORM", subject_transform={"src": "a.*", "dest": "{{wildcard(9)}}"}
    )
    rewrite_metadata(streams / "AGE", "AGE", max_age=50_000_000, duplicate_window=0)
    rewrite_metadata(streams / "GOOD/obs/filter", "GOOD/filter", filter_subject="a b")
    rewrite_metadata(streams / "GOOD/obs/start", "GOOD/start", opt_start_seq=5)

    said = run_import(tmp_path, code=3)

    assert said.count("nats-server would not serve it: ") == 5
    there = served(NATS_SERVER, tmp_path, "old")
    assert list(there) == ["GOOD"]
    assert list(there["GOOD"]["consumers"]) == ["good"]
    assert without_quirks(served(HEADRACES[0], tmp_path, "new")) == without_quirks(there)


@pytest.mark.parametrize(("cipher", "kill"), [("chachapoly", True), ("aes", False)])
def test_an_encrypted_store_comes_over_with_its_key_and_stays_encrypted(
    tmp_path: Path, cipher: str, kill: bool
) -> None:
    config = f'jetstream {{ key: "{KEY}", cipher: {cipher} }}'
    store = written(tmp_path, fill, kill=kill, config=config)
    (tmp_path / "key").write_text(f"{KEY}\n")
    (tmp_path / "wrong").write_text("another")

    assert "LIMITS" not in run_import(tmp_path, code=1)  # the first stream that needs a key is named
    assert "cannot be decrypted with the given key" in run_import(tmp_path, "--key-file", "wrong", code=1)
    assert not (tmp_path / "new").exists() or not any((tmp_path / "new" / "jetstream").glob("*"))
    run_import(tmp_path, "--key-file", "wrong", "--prev-key-file", "key", "--plain")
    shutil.rmtree(tmp_path / "new")
    run_import(tmp_path, "--key-file", "key", "--cipher", cipher)

    there = without_quirks(served(NATS_SERVER, tmp_path, "old", config=config))
    ours = served(HEADRACES[0], tmp_path, "new", config=config)
    if kill:
        del there["DRAINED"], ours["DRAINED"]  # as above
    assert ours == there
    payload = b"a" * 40
    assert not any(payload in path.read_bytes() for path in (tmp_path / "new").rglob("*") if path.is_file())
    assert not any(payload in path.read_bytes() for path in store.rglob("*.blk"))


def test_a_store_under_two_keys_comes_over_with_both(tmp_path: Path) -> None:
    """nats-server 2.15 converts streams when `prev_key` is given, and leaves their consumers behind."""

    def fill_in(wire: JetStreamWire) -> None:
        make(wire, "S", subjects=["s.>"])
        publish(wire, 50, "s.{}")
        consume(wire, "S", "worker")
        settle(wire, pull(wire, "S", "worker", 5)[:3])

    before = 'jetstream { key: "before", cipher: aes }'
    store = written(tmp_path, fill_in, kill=False, config=before)
    there = served(NATS_SERVER, tmp_path, "old", config=before)
    now = f'jetstream {{ key: "{KEY}", prev_key: "before" }}'
    with ServerProcess(NATS_SERVER, tmp_path, "-js", "-sd", str(store), config=now) as server:
        assert "Converting to ChaCha20-Poly1305 for stream '$G > S'" in server.log
        server.stop()
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "before").write_text("before")

    said = run_import(tmp_path, "--key-file", "key", code=3)
    assert (
        "S/obs/worker/meta.key: it cannot be decrypted with the given key; this consumer is left out" in said
    )
    shutil.rmtree(tmp_path / "new")
    run_import(tmp_path, "--key-file", "key", "--prev-key-file", "before")

    config = f'jetstream {{ key: "{KEY}" }}'
    ours = served(HEADRACES[0], tmp_path, "new", config=config)
    for one in (ours, there):
        del one["S"]["created"]  # which nats-server makes anew with the key
    assert ours == there


def test_accounts_come_over_each_with_its_own(tmp_path: Path) -> None:
    config = """
    jetstream: enabled
    accounts {
      A: { jetstream: enabled, users: [ { user: a, password: p } ] }
      B: { jetstream: enabled, users: [ { user: b, password: p } ] }
    }
    """
    with ServerProcess(NATS_SERVER, tmp_path, "-js", "-sd", str(tmp_path / "old"), config=config) as server:
        for user, count in (("a", 3), ("b", 7)):
            with JetStreamWire(server, user=user, **{"pass": "p"}) as wire:
                make(wire, "SAME", subjects=["same"])
                publish(wire, count, "same")

    assert "2 streams of 2 accounts, 10 messages" in run_import(tmp_path)

    with ServerProcess(HEADRACES[0], tmp_path, "-js", "-sd", str(tmp_path / "new"), config=config) as server:
        for user, count in (("a", 3), ("b", 7)):
            with JetStreamWire(server, user=user, **{"pass": "p"}) as wire:
                assert wire.api("STREAM.INFO.SAME")["state"]["messages"] == count


def given_and_pending(state: Path) -> tuple[int, list[int]]:
    """Of a consumer's file: how many deliveries it knows of, and the sequences that are not acknowledged."""
    try:
        found = read_consumer_state(state.read_bytes())
    except (OSError, BadIndex):  # not written yet, or just being written
        return 0, []
    return found.numbers[0], sorted(found.pending)


def test_what_was_delivered_and_not_acknowledged_is_delivered_again(tmp_path: Path) -> None:
    def fill_in(wire: JetStreamWire) -> None:
        make(wire, "WORK", subjects=["work"], retention="workqueue")
        publish(wire, 6, "work", 1)
        consume(wire, "WORK", "worker", ack_wait=SECOND)
        settle(wire, pull(wire, "WORK", "worker", 4)[1:3])
        state = tmp_path / "old/jetstream/$G/streams/WORK/obs/worker/o.dat"
        wait_until(
            lambda: given_and_pending(state) == (4, [1, 4]), "nats-server writes that, which it does late"
        )

    written(tmp_path, fill_in, kill=True)
    run_import(tmp_path)

    with (
        ServerProcess(HEADRACES[0], tmp_path, "-js", "-sd", str(tmp_path / "new")) as server,
        JetStreamWire(server) as wire,
    ):
        acks = [reply.split(".") for reply in pull(wire, "WORK", "worker", 4)]
    assert sorted((int(ack[5]), int(ack[4]) > 1) for ack in acks) == [
        (1, True), (4, True), (5, False), (6, False)
    ]  # fmt: skip


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    with ServerProcess(NATS_SERVER, tmp_path, "-js", "-sd", str(tmp_path / "old")) as server:
        with JetStreamWire(server) as wire:
            make(wire, "S", subjects=["s"])
            publish(wire, 1, "s")

        assert f"is in use: process {server.pid} has its files open" in run_import(tmp_path, code=1)


def test_an_import_that_is_killed_is_no_store_and_can_be_run_again(tmp_path: Path) -> None:
    def fill_in(wire: JetStreamWire) -> None:
        make(wire, "S", subjects=["s.>"])
        publish(wire, 3000, "s.{}", 1000)

    written(tmp_path, fill_in, kill=False)
    script = (
        "import os, signal, sys\n"
        "from headrace.log.file import FileLog\n"
        "append, left = FileLog.append, [3]\n"
        "def counted(*arguments, **options):\n"
        "    left[0] -= 1\n"
        "    if not left[0]:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return append(*arguments, **options)\n"
        "FileLog.append = counted\n"
        "from headrace.cli.main import main\n"
        "sys.exit(main(['headrace', 'jetstream', 'import', 'old', '--dir', 'new']))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False).returncode == -9
    with ServerProcess(HEADRACES[0], tmp_path, "-js", "-sd", str(tmp_path / "new"), ready=False) as server:
        assert server.wait() == 1
        assert "is under way or was cut off; run it again, or remove" in server.log

    assert "3,000 messages" in run_import(tmp_path)
    assert "is not empty" in run_import(tmp_path, code=1)

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["jetstream"]
    assert len(served(HEADRACES[0], tmp_path, "new")["S"]["messages"]) == 3000


# -- members of clusters


def cluster(folder: Path) -> list[ServerProcess]:
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports)
    servers = []
    for number, port in enumerate(ports):
        home = folder / f"s{number}"
        home.mkdir()
        config = (
            f'server_name: s{number}\njetstream {{ store_dir: "{home}/js" }}\n'
            f'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}\n'
        )
        servers.append(ServerProcess(NATS_SERVER, home, config=config))
    return servers


def make_when_there_is_a_leader(wire: JetStreamWire, config: dict[str, Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        asked = wire.ask(f"$JS.API.STREAM.CREATE.{config['name']}", config)
        try:
            answer = wire.answer(asked, 1.0).json()
        except AssertionError:  # nobody leads yet, and nobody answers
            answer = {"error": "none"}
        if "error" not in answer:
            break
        assert time.monotonic() < deadline, answer
    wait_until(lambda: is_reached(wire, config["subjects"][0]), "the leader of the stream is heard of here")


def is_reached(wire: JetStreamWire, subject: str) -> bool:
    """Whether a publication comes to the stream's leader; this one is refused and stores nothing."""
    refused = {"Nats-Expected-Last-Sequence": "4000000000"}
    answer = wire.answer(wire.ask(subject.replace(">", "reached"), b"", refused))
    return "503" not in answer.status


def without_the_last(block: bytes, count: int) -> bytes:
    """A message block without its last records."""
    starts, at = [], 0
    while at < len(block):
        starts.append(at)
        at += int.from_bytes(block[at : at + 4], "little") & 0x7FFFFFFF
    return block[: starts[-count]]


def is_everywhere(info: dict[str, Any]) -> bool:
    """Whether the leader of a stream or consumer has heard from every member that it has all there is."""
    return all(one["current"] and not one.get("lag") for one in info["cluster"]["replicas"])


def test_a_killed_member_of_a_cluster_comes_over_with_what_only_its_raft_log_has(tmp_path: Path) -> None:
    servers = cluster(tmp_path)
    try:
        with JetStreamWire(servers[0]) as wire:
            make_when_there_is_a_leader(wire, {"name": "R", "subjects": ["r.>"], "num_replicas": 3})
            publish(wire, 30, "r.{}")
            publish(wire, 2, "r.large", 20_000)  # those are compressed in the log
            consume(wire, "R", "worker")
            settle(wire, pull(wire, "R", "worker", 8)[2:6])
            publish(wire, 30, "r.{}")
            wire.api("STREAM.MSG.DELETE.R", {"seq": 62})
            wait_until(lambda: is_everywhere(wire.api("STREAM.INFO.R")), "all have the messages")
            wait_until(
                lambda: is_everywhere(wire.api("CONSUMER.INFO.R.worker")), "all have what was acknowledged"
            )
            there = contents(wire)
    finally:
        for server in servers:
            server.process.kill()
        for server in servers:
            with server:
                pass
    messages = tmp_path / "s1/js/jetstream/$G/streams/R/msgs"
    (messages / "index.db").unlink(missing_ok=True)
    block = (messages / "1.blk").read_bytes()
    # As if it had been killed before it stored what its log has: 30 messages, a tombstone, the large ones.
    (messages / "1.blk").write_bytes(without_the_last(block, 33))
    (tmp_path / "old").symlink_to(tmp_path / "s1" / "js")

    assert "$G/R: 3 replicas became one" in run_import(tmp_path)

    ours = served(HEADRACES[0], tmp_path, "new")
    for one in (ours, there):
        assert one["R"]["config"].pop("num_replicas") in (1, 3)
    assert ours["R"] == there["R"]
