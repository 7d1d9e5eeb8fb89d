"""JetStream and NATS Streaming in a mesh: one server has them for all clients, a second one is refused."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from harness.mesh import Mesh
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.jetstream import Message

SECONDS = 30.0
STREAMING = "streaming { cluster_id: %s%s }"
_REFUSED = (
    r'\[FTL\] JetStream: server "n0" of this cluster has JetStream%s as well;'
    r" streams are not replicated, so one server of a cluster can have it, or each a domain of its own$"
)


def jetstream(folder: Path, number: int, domain: str = "") -> str:
    in_domain = f", domain: {domain}" if domain else ""
    return f'jetstream {{ store_dir: "{folder}/store{number}"{in_domain} }}\nhttp: "127.0.0.1:-1"'


def health(mesh: Mesh, at: int) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{mesh.nodes[at].server.monitor_url}/healthz") as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            found = json.load(error)
    assert isinstance(found, dict)
    return found


def ends(mesh: Mesh, at: int) -> str:
    """The log of a node that has ended by itself, as one that has failed."""
    assert mesh.nodes[at].server.wait(SECONDS) == 1
    log = mesh.nodes[at].server.log
    mesh.nodes[at].forget()
    return log


Build = "Callable[[str, Callable[[int], str]], Mesh]"


@pytest.fixture
def prepare(tmp_path: Path) -> Iterator[Build]:
    """Makes a mesh in which each node has more in its configuration; the test starts the nodes."""
    made: list[Mesh] = []

    def mesh_of(kind: str, more: Callable[[int], str]) -> Mesh:
        made.append(Mesh(tmp_path, kind, told_of="all"))
        for number, node in enumerate(made[-1].nodes):
            node.config = f"{more(number)}\n{node.config}"
        return made[-1]

    yield mesh_of
    for mesh in made:
        mesh.close()


def jetstream_everywhere(folder: Path, *domains: str | None) -> Callable[[int], str]:
    """The JetStream of each node; None: a node without it."""

    def more(number: int) -> str:
        domain = domains[number] if domains else ""
        return "" if domain is None else jetstream(folder, number, domain)

    return more


@pytest.mark.parametrize("kind", ["hh", "aa", "hgh"])
@pytest.mark.parametrize("domain", ["", "d"])
def test_a_second_jetstream_is_refused(prepare: Build, tmp_path: Path, kind: str, domain: str) -> None:
    last = len(kind) - 1
    mesh = prepare(kind, jetstream_everywhere(tmp_path, domain, *[None] * (last - 1), domain))
    for node in mesh.nodes[:last]:
        node.start()
    client = mesh.join(0)
    client.api("STREAM.CREATE.KEPT", {"name": "KEPT", "subjects": ["kept"]})
    mesh.nodes[last].begin()
    log = ends(mesh, last)
    in_domain = f' in domain "{domain}"' if domain else ""
    assert re.search(_REFUSED % in_domain, log, re.MULTILINE), log
    assert "Server is ready" not in log
    first = mesh.nodes[0].server
    first.wait_for_line(rf'\[ERR\] .* JetStream: server "n{last}" .* as well; .*, and gives way$')
    first.wait_for_line(rf"Router connection closed: .* - Remote: n{last}$")
    mesh.converge()
    # The peer is gone with the last of its pooled connections.
    wait_until(lambda: health(mesh, 0) == {"status": "ok"}, "the second server to be forgotten")
    for at in range(last):
        assert mesh.join(at).api("STREAM.INFO.KEPT")["config"]["name"] == "KEPT"


@pytest.mark.parametrize("kind", ["hh", "ha"])
@pytest.mark.parametrize("attempt", range(3))
def test_of_two_that_start_at_once_one_serves(
    prepare: Build, tmp_path: Path, kind: str, attempt: int
) -> None:
    mesh = prepare(kind, jetstream_everywhere(tmp_path))
    for node in mesh.nodes:
        node.begin()
    codes: list[int | None] = [None, None]
    deadline = time.monotonic() + SECONDS
    while codes == [None, None]:
        assert time.monotonic() < deadline
        codes = [node.server.process.poll() for node in mesh.nodes]
        time.sleep(0.01)
    assert sorted(codes, key=str) == [1, None]
    gone = codes.index(1)
    ends(mesh, gone)
    mesh.nodes[1 - gone].server.wait_until_ready()
    assert mesh.join(1 - gone).api("INFO")["streams"] == 0


def test_the_next_one_can_serve_when_the_first_has_ended(prepare: Build, tmp_path: Path) -> None:
    mesh = prepare("hh", jetstream_everywhere(tmp_path))
    mesh.nodes[0].start()
    mesh.nodes[0].stop()
    mesh.nodes[1].start()
    assert mesh.join(1).api("INFO")["streams"] == 0


def test_go_with_jetstream_in_the_same_domain_is_named(prepare: Build, tmp_path: Path) -> None:
    mesh = prepare("gh", jetstream_everywhere(tmp_path))
    mesh.nodes[0].start()
    mesh.nodes[1].begin()
    log = ends(mesh, 1)
    assert re.search(_REFUSED % "", log, re.MULTILINE), log


def test_go_with_jetstream_joins_one_that_has_just_begun(prepare: Build, tmp_path: Path) -> None:
    mesh = prepare("hg", jetstream_everywhere(tmp_path))
    mesh.nodes[0].start()
    mesh.nodes[1].start()
    log = ends(mesh, 0)
    assert re.search(_REFUSED.replace("n0", "n1") % "", log, re.MULTILINE), log


@pytest.mark.parametrize("kind", ["hh", "aga"])
def test_a_second_streaming_server_is_refused(prepare: Build, kind: str) -> None:
    last = len(kind) - 1
    mesh = prepare(kind, lambda number: STREAMING % ("one", "") if kind[number] != "g" else "")
    for node in mesh.nodes[:last]:
        node.start()
    mesh.nodes[last].begin()
    log = ends(mesh, last)
    line = 'Failed to start: server "n0" of this cluster is a streaming server with cluster ID "one" as well'
    assert f"[FTL] STREAM: {line}" in log
    mesh.converge()
    for at in range(last):
        assert mesh.join(at).has_responders("_STAN.discover.one")


def test_streaming_servers_with_other_cluster_ids(prepare: Build) -> None:
    mesh = prepare("hag", lambda number: STREAMING % (("one", "two")[number], "") if number < 2 else "")
    mesh.start()
    mesh.converge()
    for at in range(3):
        client = mesh.join(at)
        assert all(client.has_responders(f"_STAN.discover.{each}") for each in ("one", "two"))


def test_a_standby_of_the_same_store_joins(prepare: Build, tmp_path: Path) -> None:
    more = f', store: file, dir: "{tmp_path}/store", ft_group: ft'
    mesh = prepare("ha", lambda number: STREAMING % ("one", more))
    mesh.nodes[0].start()
    mesh.nodes[1].start()
    mesh.nodes[1].server.wait_for_line("Starting in standby mode")
    mesh.converge()
    assert mesh.join(1).has_responders("_STAN.discover.one")


def answers(mesh: Mesh, at: int, subject: str, expected: int) -> list[Any]:
    """The domains that answer a request; as many as are expected, and every one that comes until a fence."""
    client = mesh.join(at)
    reply = client.ask(subject)
    found: list[Message] = []
    while len(found) < expected:
        found.append(client.answer(reply))
    mesh.fence(client)
    client.sync()
    return [
        each.json().get("domain") if each.payload else each.status for each in found + client.answers(reply)
    ]


@pytest.mark.parametrize("kind", ["hhh", "hag", "aha"])
@pytest.mark.parametrize(("one", "other"), [("d", "e"), ("", "e"), ("d", "")])
def test_each_domain_is_reached_by_its_name_from_everywhere(
    prepare: Build, tmp_path: Path, kind: str, one: str, other: str
) -> None:
    mesh = prepare(kind, jetstream_everywhere(tmp_path, one, other, None))
    mesh.start()
    mesh.converge()
    for at, own in enumerate([one, other]):
        assert answers(mesh, at, "$JS.API.INFO", 1) == [own or None]
        for domain in filter(None, [one, other]):
            assert answers(mesh, at, f"$JS.{domain}.API.INFO", 1) == [domain]
    for domain in filter(None, [one, other]):
        assert answers(mesh, 2, f"$JS.{domain}.API.INFO", 1) == [domain]
    if one and other:
        assert not mesh.join(2).has_responders("$JS.API.INFO")
    else:
        assert answers(mesh, 2, "$JS.API.INFO", 1) == [None]


@pytest.mark.parametrize("kind", ["hhg", "ahh"])
def test_a_domain_alone_needs_no_name_until_another_one_joins(
    prepare: Build, tmp_path: Path, kind: str
) -> None:
    mesh = prepare(kind, jetstream_everywhere(tmp_path, "d", "e", None))
    for at in (0, 2):
        mesh.nodes[at].start()
    mesh.converge()
    assert answers(mesh, 2, "$JS.API.INFO", 1) == ["d"]
    client = mesh.join(2)
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    mesh.nodes[1].start()
    mesh.converge()
    wait_until(lambda: not client.has_responders("$JS.API.INFO"), "requests without a domain to go nowhere")
    for at, domain in ((0, "d"), (1, "e")):
        assert answers(mesh, at, "$JS.API.INFO", 1) == [domain]
    client.prefix = "$JS.d.API"
    assert client.api("STREAM.INFO.S")["config"]["name"] == "S"
    assert client.stored("s", "x")["stream"] == "S"
    client.api("STREAM.CREATE.KV_b", {"name": "KV_b", "subjects": ["$KV.b.>"], "max_msgs_per_subject": 1})
    assert client.stored("$JS.d.API.$KV.b.key", "value") == {"stream": "KV_b", "domain": "d", "seq": 1}


def is_answered(mesh: Mesh, at: int) -> bool:
    """Whether a request to JetStream is answered within a second; nobody answers while there is no leader."""
    client = mesh.join(at)
    try:
        client.answer(client.ask("$JS.API.INFO"), 1.0)
    except AssertionError:
        return False
    return True


def test_jetstream_of_go_in_another_domain_is_beside_ours(prepare: Build, tmp_path: Path) -> None:
    """Three of Go's have a leader; requests at them that name no domain are theirs, by name ours.

    They count the routes that are configured: a leader needs more than half of so many servers.
    """
    mesh = prepare("gggh", jetstream_everywhere(tmp_path, "go", "go", "go", "ours"))
    ours = f', "nats-route://127.0.0.1:{mesh.nodes[3].route_port}"'
    for node in mesh.nodes[:3]:
        node.config = node.config.replace(ours, "")
    mesh.start()
    wait_until(
        lambda: any("cluster new metadata leader" in node.server.log for node in mesh.nodes[:3]), "a leader"
    )
    mesh.converge()
    for at in range(3):
        wait_until(
            partial(is_answered, mesh, at), "the leader to answer"
        )  # who leads now is another one at times
        assert answers(mesh, at, "$JS.API.INFO", 1) == ["go"]
        assert answers(mesh, at, "$JS.ours.API.INFO", 1) == ["ours"]
    assert answers(mesh, 3, "$JS.API.INFO", 1) == ["ours"]
