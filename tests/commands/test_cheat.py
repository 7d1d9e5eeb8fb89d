"""`headrace cheat`: lines to copy, each of which runs.

All run in this process against one server. What a line needs is made before it, anew where the line before
changed something; what goes on until Ctrl-C gets a flag that ends it.
"""

from __future__ import annotations

import io
import shlex
import shutil
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from commands.test_checks import credentials
from harness.command_line import CommandLine, Ran, all_rows
from harness.processes import SIDES, ServerProcess
from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.keyvalue import KeyValueBucket, bucket_config
from headrace.client.objects import ObjectBucket, object_bucket_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.cli.command_rows import CommandRow
    from headrace.client.blocking import Connection

GO_ON = ("console",)
"""Commands that nothing but an interrupt ends; their own tests run them (test_console_command)."""
LINES = [(row, line) for row in all_rows() for line in row.examples if row.name not in GO_ON]
ENDS = {
    "sub": ("--for", "50ms"),
    "reply": ("--count", "1"),
    "micro serve": ("--count", "1"),
    "consumer sub": ("--idle", "50ms"),
    "kv watch": ("--idle", "50ms"),
    "object watch": ("--idle", "50ms"),
    "events": ("--for", "50ms"),
    "top": ("-d", "0.1"),
    "latency": ("--duration", "0.2s"),
    "server ping": ("--interval", "1ms"),
}
"""What ends commands that go on, or wait."""
CODES = {
    "stream edit ORDERS --max-age 7d --dry-run": 3,
    "stream restore backups/ORDERS --name ORDERS2 --dry-run": 3,
    "consumer edit ORDERS worker --wait 2m --dry-run": 3,
    "kv edit settings --history 10 --dry-run": 3,
    "object edit files --max-bytes 20GB --dry-run": 3,
    "account restore backups --only 'KV_*' --dry-run": 3,
    "server ls 3": 3,
    "server account purge A --dry-run": 3,
    "server cluster step-down": 4,
    "server cluster peer-remove n3 --dry-run": 4,
    "doctor headrace.conf": 3,
    "doctor --monitor http://127.0.0.1:8222 --json": 3,
}
"""Exit codes but 0: a dry run that would change something, a server too few, no cluster."""
BEFORE = {
    "stream add ORDERS": ("stream rm ORDERS --force",),
    "stream restore backups/ORDERS --name": ("stream backup ORDERS backups/ORDERS --force",),
    "stream restore backups/ORDERS": (
        "stream backup ORDERS backups/ORDERS --force",
        "stream rm ORDERS --force",
    ),
    "consumer add ORDERS worker": ("consumer rm ORDERS worker --force",),
    "consumer unpin": ("consumer next ORDERS worker --group blue --no-ack",),
    "kv add": ("kv rm-bucket settings --force",),
    "kv import": ("kv export settings settings.jsonl",),
    "object put files report.pdf": ("object del files report.pdf --force",),
    "object put files -": ("object del files dump.sql --force",),
    "object add": ("object rm-bucket files --force",),
    "creds show": ("creds user make alice --account-seed account.nk",),
    "creds check": ("creds user make alice --account-seed account.nk",),
    "account restore": ("account backup backups --force", "kv rm-bucket settings --force"),
}
"""Lines that stand before one that begins so."""
ABSENT = {
    "object get files report.pdf": "report.pdf",
    "kv export": "settings.jsonl",
    "kv import": "settings.jsonl",
    "stream backup": "backups",
    "stream restore": "backups",
    "account": "backups",
    "nkey gen user": "user.nk",
    "nkey seal": "plan.sealed",
    "creds make": "alice.creds",
    "creds show": "alice.creds",
    "creds check": "alice.creds",
    "creds user make alice": "alice.creds",
    "creds user make reader": "reader.creds",
}
"""Files that must not be there when a line begins so."""
THEIRS = "XCUFFARVD6VVA3W7VWOGCFG4MAWPD57L6PTYKWK3S3MWHEJVZTOGIRUN"
"""The public key of somebody else, in lines."""
SEED = "-----BEGIN USER NKEY SEED-----"
SYSTEM = ("server", "events", "top")
"""Words that take a user of the system account, but for most checks."""
CONFIG = """
server_name: n1
http: "127.0.0.1:-1"
accounts {
    A { users: [ {user: alice, password: secret} ], jetstream: enabled }
    SYS { users: [ {user: admin, password: secret} ] }
}
system_account: SYS
no_auth_user: alice
"""


class World:
    """What the lines are about: streams, buckets, files, a service, and requests for those who answer."""

    def __init__(self, server: ServerProcess, folder: Path, connection: Connection) -> None:
        self.server = server
        self.cli = CommandLine(folder, server.url)
        self.is_as_it_was = False
        self.names: dict[str, str] = {
            "nats://a.example": server.url,
            "nats://b.example": server.url,
            "nats://b.example:4222": server.url,
        }
        """What stands in lines for something that each reader has of their own."""
        self._api = JetStreamApi(connection)
        self._assets = JetStreamAssets(self._api)

    def make(self) -> None:
        """Make all streams and buckets anew."""
        for name in [info["config"]["name"] for info in self._assets.streams()]:
            self._assets.delete_stream(name)
        config = {"name": "ORDERS", "subjects": ["orders.>", "schedules.>"], "allow_direct": True}
        schedules = {"allow_msg_schedules": True, "allow_msg_ttl": True, "allow_rollup_hdrs": True}
        self._assets.create_stream({**config, **schedules})
        counters = {"allow_msg_counter": True, "allow_direct": True}
        self._assets.create_stream({"name": "HITS", "subjects": ["hits.>", "stock.>"], **counters})
        for number in range(20):
            self._api.publish("orders.eu", b'{"total": %d}' % (number * 10))
        for subject in ("hits.home", "stock.apples"):
            self._api.publish(subject, b"", headers={"Nats-Incr": "7"})
        worker: dict[str, Any] = {"name": "worker", "durable_name": "worker", "ack_policy": "explicit"}
        self._assets.create_consumer("ORDERS", worker)
        self._assets.create_stream(bucket_config("settings", history=9))
        settings = KeyValueBucket(self._api, "settings")
        for number in range(7):
            settings.put("colour", b"red%d" % number)
        settings.put("colour.sky", b"blue")
        self._assets.create_stream(object_bucket_config("files"))
        files = ObjectBucket(self._api, "files")
        for name in ("report.pdf", "dump.sql"):
            files.put(name, io.BytesIO(b"content"))
        for name in ("report.pdf", "logo.png", "dump.sql"):
            (self.cli.folder / name).write_bytes(b"content")
        self.is_as_it_was = True

    def remove(self, name: str | None) -> None:
        """Remove a file or directory that lines before have left."""
        path = self.cli.folder / str(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def run(self, row: CommandRow, words: list[str]) -> Ran:
        """Run a line, with an end where it has none, on the server of this test."""
        if row.words == ("nkey", "open"):  # the shell takes the rest
            words = words[: words.index(">")]
        words = [word.replace("http://127.0.0.1:8222", self.server.monitor_url) for word in words]
        if "SIGNATURE" in words:
            self.names["SIGNATURE"] = self.cli("nkey", "sign", "release.tar", "user.nk", "-q").ok().lines[0]
        words = [self.names.get(word, word) for word in words]
        words += ENDS.get(row.name, ())
        if any("--expect" in flag.names for flag in row.flags) and "3" not in words:
            words += ("--expect", "1")
        is_system = row.words[0] in SYSTEM and (
            row.words[1:2] != ("check",) or row.name == "server check server"
        )
        user = "admin:secret@" if is_system else ""
        self.cli.url = self.server.url.replace("//", f"//{user}")
        if row.words != ("server", "kick"):
            return self.cli(*words, stdin=b"from a pipe")
        with connect(self.server.url) as victim:
            victim.flush()
            number = str(victim.server_info.fields["client_id"])
            return self.cli(*(number if word == "12" else word for word in words))

    def make_keys(self) -> None:
        """Make the keys and files that lines about keys name."""
        folder = self.cli.folder
        for name, kind in (("user", "user"), ("account", "account"), ("mine", "curve"), ("theirs", "curve")):
            self.cli("nkey", "gen", kind, "--output", str(folder / f"{name}.nk")).ok()
        for name in ("release.tar", "plan.txt"):
            (folder / name).write_bytes(b"content")
        (folder / "orders.json").write_text('{"name": "ORDERS", "subjects": ["orders.>"]}')
        public = {
            name: self.cli("nkey", "show", str(folder / f"{name}.nk"), "-q").ok().lines[0]
            for name in ("mine", "theirs")
        }
        self.names[THEIRS] = public["theirs"]
        plan, sealed = str(folder / "plan.txt"), str(folder / "plan.sealed")
        self.cli("nkey", "seal", plan, str(folder / "theirs.nk"), public["mine"], "-o", sealed).ok()
        made = folder / "made.creds"
        seed = str(folder / "account.nk")
        self.cli("creds", "user", "make", "alice", "--account-seed", seed, "--output", str(made)).ok()
        lines = made.read_text().splitlines()
        for name, head in (("alice.jwt", "-----BEGIN NATS USER JWT-----"), ("alice.nk", SEED)):
            (folder / name).write_text(lines[lines.index(head) + 1])

    def with_groups(self) -> None:
        """Give the consumer a priority group that pins one client."""
        self._assets.delete_consumer("ORDERS", "worker")
        groups = {"priority_groups": ["blue"], "priority_policy": "pinned_client"}
        worker = {"name": "worker", "durable_name": "worker", "ack_policy": "explicit"}
        self._assets.create_consumer("ORDERS", {**worker, **groups})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One server, its streams, a service and files, for all lines."""
    folder = tmp_path_factory.mktemp("cheat")
    program = SIDES["headrace"]
    with (
        ServerProcess(program, folder, "-js", "-sd", str(folder / "store"), config=CONFIG) as server,
        connect(server.url) as connection,
    ):
        found = World(server, folder, connection)
        _files(folder, server.config_file)
        found.make_keys()
        found.cli.variables["PATH"] = f"{folder / 'bin'}:/usr/bin:/bin"
        endpoints = ("--endpoint", "total=totals.of", "--endpoint", "help=help.me")
        with (
            found.cli.started("micro", "serve", "orders", "--echo", *endpoints) as service,
            requests(server.url, "help.me", "weather.berlin", "greet.me"),
        ):
            service.wait_for("serving")
            yield found


def _files(folder: Path, config: Path) -> None:
    (folder / "bin").mkdir()
    for name in ("work", "forecast", "greet"):
        script = folder / "bin" / name
        script.write_text('#!/bin/sh\nread -r body; echo "$1"\n')
        script.chmod(0o755)
    (folder / "headrace.conf").write_text(config.read_text())
    credentials(folder)


@contextmanager
def requests(url: str, *subjects: str) -> Iterator[None]:
    """Ask again and again in the background, for a block: for lines that answer requests."""
    over = threading.Event()

    def ask() -> None:
        with connect(url) as connection:
            inbox = connection.new_inbox()
            while not over.wait(0.02):
                for subject in subjects:
                    connection.publish(subject, b"body", reply=inbox)
                connection.flush()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(("row", "line"), LINES, ids=[line for _, line in LINES])
def test_every_line_runs(row: CommandRow, line: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.cli.folder)
    before = next((lines for beginning, lines in BEFORE.items() if line.startswith(beginning)), ())
    if not world.is_as_it_was:
        world.make()
    if row.changes or row.asks or before or row.words[0] in ("pub", "consumer", "kv", "object"):
        world.is_as_it_was = False
    if row.words == ("consumer", "unpin"):
        world.with_groups()
    world.remove(next((name for beginning, name in ABSENT.items() if line.startswith(beginning)), None))
    for each in before:
        world.cli(*shlex.split(each)).ok()

    words = shlex.split(line)
    ran = world.run(row, words)
    if row.words[0] == "context":
        world.cli("context", "unselect").ok()

    assert tuple(words[: len(row.words)]) == row.words
    assert ran.code == CODES.get(line, 0), ran.err


def test_all_lines_are_shown_and_those_of_a_word(alone: CommandLine) -> None:
    every = alone("cheat", "--json").ok().json["items"]
    some = alone("cheat", "obj", "-q").ok().lines

    assert {each["command"] for each in every} > {"kv put", "stream add", "sub", "cheat"}
    assert some == [each["line"] for each in every if each["command"].startswith("object ")]
    assert f"headrace {every[0]['line']}" in alone("cheat").ok().lines


def test_a_word_that_is_none_is_said(alone: CommandLine) -> None:
    ran = alone("cheat", "kvs")

    assert ran.code == 4
    assert "there is no word kvs" in ran.err
