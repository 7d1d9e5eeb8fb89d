"""Commands to servers: `server kick`, `reload`, `account`, `cluster`; `server mapping` and `passwd`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import bcrypt
import pytest

from harness.command_line import CommandLine
from harness.mesh import Mesh
from harness.processes import SIDES, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SYSTEM = ("--user", "admin", "--password", "secret")
ACCOUNTS = """
accounts {
    A { users: [ {user: alice, password: secret} ], jetstream: enabled }
    SYS { users: [ {user: admin, password: secret} ] }
}
system_account: SYS
no_auth_user: alice
"""


def connection_of(cli: CommandLine, name: str) -> int:
    found = cli("server", "report", "connections", "--filter", name, "--json", *SYSTEM).ok().json
    return int(found["items"][0]["cid"])


# -- kick


def test_a_client_is_kicked(cli: CommandLine) -> None:
    with cli.started("sub", "kicks", "--name", "to-be-kicked") as running:
        running.wait_for("listening")
        cid = str(connection_of(cli, "to-be-kicked"))
        dry = cli("server", "kick", cid, "--dry-run", "--json", *SYSTEM)
        assert (dry.code, dry.json["kicked"], dry.json["connection"]["name"]) == (3, False, "to-be-kicked")
        ran = cli("server", "kick", cid, "--json", *SYSTEM)
        assert (ran.code, ran.out) == (2, "")
        assert "--force" in ran.error["text"]
        done = cli("server", "kick", cid, dry.json["server"], "--force", "--json", *SYSTEM).ok()
        assert done.json["kicked"] is True
        running.wait_for("connecting again")


def test_a_terminal_asks_before_it_kicks(cli: CommandLine) -> None:
    with cli.started("sub", "kicks", "--name", "asked-for") as running:
        running.wait_for("listening")
        cid = str(connection_of(cli, "asked-for"))
        with cli.terminal("server", "kick", cid, *SYSTEM, width=200) as shown:
            shown.wait_for("go on? [y/N]")
            shown.type("n\n")
            assert shown.end() == 2
        assert "asked-for of alice from 127.0.0.1:" in shown.seen
        assert connection_of(cli, "asked-for") == int(cid)


def test_kicking_nobody_is_4(cli: CommandLine) -> None:
    assert cli("server", "kick", "999999", "--force", *SYSTEM).code == 4
    assert cli("server", "kick", "1", "no-such-server", "--force", *SYSTEM).code == 4


@pytest.mark.parametrize(
    "words",
    [
        ("kick", "1", "--force"),
        ("reload", "n0"),
        ("account", "info", "A"),
        ("account", "purge", "A", "--force"),
        ("cluster", "step-down"),
        ("cluster", "peer-remove", "n0", "--force"),
    ],
)
def test_others_than_the_system_account_may_not(words: tuple[str, ...], cli: CommandLine) -> None:
    for user in ((), ("--user", "reader", "--password", "secret")):
        ran = cli("server", *words, "--json", *user)
        assert (ran.code, ran.error["kind"], ran.out) == (9, "not_permitted", "")


# -- reload


@pytest.mark.parametrize("side", list(SIDES))
def test_a_server_reads_its_configuration_again(side: str, tmp_path: Path) -> None:
    with ServerProcess(SIDES[side], tmp_path, config=f"server_name: one\n{ACCOUNTS}") as server:
        cli = CommandLine(tmp_path, server.url)
        old, new = "alice, password: secret", "alice, password: other"
        changed = server.config_file.read_text().replace(old, new)
        server.config_file.write_text(changed)
        assert cli("server", "reload", "one", "--dry-run", *SYSTEM).code == 3
        assert cli("rtt", "1", "--user", "alice", "--password", "other").code == 7
        assert cli("server", "reload", "one", "--json", *SYSTEM).ok().json["reloaded"] is True
        assert cli("rtt", "1", "--user", "alice", "--password", "other").code == 0
        server.config_file.write_text("no configuration {")
        assert cli("server", "reload", "one", *SYSTEM).code == 6
        assert cli("server", "reload", "two", *SYSTEM).code == 4


# -- accounts


def test_an_account_is_shown(cli: CommandLine) -> None:
    found = cli("server", "account", "info", "A", "--json", *SYSTEM).ok().json

    assert (found["account_name"], found["jetstream_enabled"]) == ("A", True)
    assert "account\tA" in cli("server", "account", "info", "A", *SYSTEM).ok().lines
    assert cli("server", "account", "info", "NOBODY", *SYSTEM).code == 4


@pytest.mark.parametrize("side", list(SIDES))
def test_an_account_is_purged(side: str, tmp_path: Path) -> None:
    config = f"{ACCOUNTS}\njetstream {{store_dir: {tmp_path}/js}}"
    with ServerProcess(SIDES[side], tmp_path, config=config) as server:
        cli = CommandLine(tmp_path, server.url)
        assert cli("server", "account", "purge", "A", "--dry-run", *SYSTEM).code == 0
        made = cli("request", "$JS.API.STREAM.CREATE.ONE", '{"name":"ONE","subjects":["one"]}').ok()
        assert "error" not in made.out
        cli("pub", "one", "hello", "-J").ok()
        dry = cli("server", "account", "purge", "A", "--dry-run", "--json", *SYSTEM)
        assert (dry.code, dry.json["streams"], dry.json["messages"]) == (3, ["ONE"], 1)
        assert cli("server", "account", "purge", "A", *SYSTEM).code == 2
        assert cli("server", "account", "purge", "NOBODY", "--force", *SYSTEM).code == 4
        cli("server", "account", "purge", "A", "--force", *SYSTEM).ok()
        deadline = time.monotonic() + PATIENCE
        while cli("server", "report", "jetstream", "--json").ok().json["items"][0]["streams"]:
            assert time.monotonic() < deadline


# -- clusters of JetStream


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    folder = tmp_path_factory.mktemp("meta")
    with Mesh(folder, "ggg", more=f"{ACCOUNTS}\njetstream {{store_dir: js}}\n", told_of="all") as mesh:
        yield mesh


def leader_of(cli: CommandLine) -> tuple[str, int]:
    """The leader of JetStream's cluster, and how many others follow it; "" before there is one."""
    items = cli("server", "report", "jetstream", "--json", *SYSTEM).ok().json["items"]
    for item in items:
        meta = item.get("meta_cluster", {})
        if meta.get("leader") == item["server"]:
            return item["server"], sum(each["current"] for each in meta.get("replicas") or ())
    return "", 0


def test_the_leader_of_a_cluster_steps_down(cluster: Mesh, tmp_path: Path) -> None:
    cli = CommandLine(tmp_path, cluster.nodes[0].url)
    deadline = time.monotonic() + PATIENCE
    while leader_of(cli)[1] < 2:
        assert time.monotonic() < deadline
    leader = leader_of(cli)[0]
    dry = cli("server", "cluster", "step-down", "--dry-run", "--json", *SYSTEM)
    assert (dry.code, dry.json["former_leader"]) == (3, leader)
    done = cli("server", "cluster", "step-down", "--json", "--timeout", "30s", *SYSTEM).ok().json
    assert done["former_leader"] == leader
    assert done["leader"] in {"n0", "n1", "n2"} - {leader}
    dry = cli("server", "cluster", "peer-remove", leader, "--dry-run", "--json", *SYSTEM)
    assert (dry.code, dry.json["peer"]["name"]) == (3, leader)
    assert cli("server", "cluster", "peer-remove", leader, *SYSTEM).code == 2
    assert cli("server", "cluster", "peer-remove", "n9", "--force", *SYSTEM).code == 4
    removed = cli("server", "cluster", "peer-remove", leader, "--force", "--json", *SYSTEM).ok().json
    assert removed["removed"] is True


def test_a_server_alone_has_no_cluster(cli: CommandLine) -> None:
    assert cli("server", "cluster", "step-down", *SYSTEM).code == 4
    assert cli("server", "cluster", "peer-remove", "x", "--force", *SYSTEM).code == 4


# -- tools


def test_a_mapping_is_tried(alone: CommandLine) -> None:
    rule = ("orders.*.*", "{{wildcard(2)}}.{{wildcard(1)}}")
    assert alone("server", "mapping", *rule, "orders.eu.7").ok().lines == ["7.eu"]
    assert alone("server", "map", *rule, "orders.eu.7", "--json").ok().json["mapped"] == "7.eu"
    assert alone("server", "mapping", *rule).code == 0
    assert alone("server", "mapping", *rule, "other.eu.7").code == 4
    assert alone("server", "mapping", "orders.*", "{{wildcard(2)}}").code == 2


def test_a_hash_is_that_of_the_password(alone: CommandLine) -> None:
    hashed = alone("server", "passwd", "-", "--cost", "4", stdin=b"correct horse\n").ok().lines[0]
    assert hashed.startswith("$2a$04$")
    assert bcrypt.checkpw(b"correct horse", hashed.encode())
    made = alone("server", "passwd", "--generate", "--cost", "4", "--json").ok().json
    assert bcrypt.checkpw(made["password"].encode(), made["hash"].encode())


def test_a_password_is_asked_for_twice(alone: CommandLine) -> None:
    with alone.terminal("server", "passwd", "--cost", "4") as shown:
        shown.wait_for("password: ")
        shown.type("correct horse\n")
        shown.wait_for("again: ")
        shown.type("correct horse\n")
        assert shown.end() == 0
    assert "correct horse" not in shown.seen
    assert bcrypt.checkpw(b"correct horse", shown.seen.split()[-1].encode())


@pytest.mark.parametrize("arguments", [("-",), ("secret-in-the-list",), ("--cost", "3", "-"), ("-", "-g")])
def test_a_bad_password_is_wrong_use(arguments: tuple[str, ...], alone: CommandLine) -> None:
    ran = alone("server", "passwd", *arguments, stdin=b"short\n")

    assert (ran.code, ran.out) == (2, "")


def test_without_a_terminal_nobody_is_asked_for_a_password(alone: CommandLine) -> None:
    assert alone("server", "passwd").code == 2
