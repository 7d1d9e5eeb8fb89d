"""Routes whose bytes are compressed, in every combination of what the two servers are configured with."""

from __future__ import annotations

import json
import random
import urllib.request
from signal import SIGHUP
from typing import TYPE_CHECKING, Any

import pytest

from harness.certificates import tls_config
from harness.mesh import Mesh
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.certificates import Authority

_RATES = "s2_uncompressed", "s2_fast", "s2_better", "s2_best"


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[Callable[..., Mesh]]:
    """A mesh whose nodes have these modes of compression."""
    made: list[Mesh] = []

    def mesh_of(kind: str, *modes: str, cluster: str = "") -> Mesh:
        made.append(Mesh(tmp_path, kind, more='http: "127.0.0.1:-1"', cluster=cluster))
        for node, mode in zip(made[-1].nodes, modes, strict=True):
            node.config = node.config.replace("cluster {", f"cluster {{\ncompression: {mode}", 1)
        made[-1].start()
        made[-1].converge()
        return made[-1]

    yield mesh_of
    for mesh in made:
        mesh.close()


def shown(mesh: Mesh, at: int) -> set[str]:
    """What a node says of the compression of its routes."""
    with urllib.request.urlopen(f"{mesh.nodes[at].server.monitor_url}/routez") as answer:
        routes: list[dict[str, Any]] = json.load(answer)["routes"]
    return {route["compression"] for route in routes}


def payloads(seed: int) -> list[bytes]:
    """Small and large, of what gets small and of what does not."""
    numbers = random.Random(seed)
    words = [b"orders", b"4711", b'{"id":', b"}", b" ", b"eu-west"]
    found = [b"", b"x", b"hello" * 10, bytes(300_000), numbers.randbytes(1000), numbers.randbytes(400_000)]
    found += [b"".join(numbers.choices(words, k=numbers.randrange(1, 9000))) for _ in range(20)]
    return found


def assert_carries(mesh: Mesh) -> None:
    """Check that every message of any node arrives at every other one, as it was and in order."""
    clients = [mesh.join(at) for at in mesh.up()]
    sids = [client.subscribe("data.>") for client in clients]
    mesh.converge()
    for number, client in enumerate(clients):
        sent = payloads(number)
        for payload in sent:
            client.publish(f"data.{number}", payload)
        client.publish(f"data.{number}", b"with headers", {"A": "b" * 1000})
        for other, sid in zip(clients, sids, strict=True):
            found = other.take(sid, len(sent) + 1)
            assert [message.payload for message in found] == [*sent, b"with headers"]
            assert b"b" * 1000 in found[-1].headers


Case = tuple[str, str, str | tuple[str, ...], str | tuple[str, ...]]
MODES: list[Case] = [
    ("accept", "accept", "off", "off"),
    ("accept", "s2_fast", "s2_fast", "s2_fast"),
    ("accept", "s2_better", "s2_better", "s2_better"),
    ("accept", "s2_best", "s2_best", "s2_best"),
    ("accept", "s2_auto", "s2_fast", _RATES),
    ("s2_fast", "s2_best", "s2_fast", "s2_best"),
    ("s2_better", "s2_auto", "s2_better", _RATES),
    ("s2_auto", "s2_auto", _RATES, _RATES),
    ("off", "s2_fast", "off", "off"),
    ("accept", '"not supported"', "not supported", "not supported"),
    ("off", '"not supported"', "off", "not supported"),
    ("{ mode: s2_auto, rtt_thresholds: [0s, 0s, 9s] }", "accept", "s2_better", "s2_fast"),
    ("{ mode: s2_auto, rtt_thresholds: [9s] }", "s2_fast", "s2_uncompressed", "s2_fast"),
]


def any_of(*found: str | tuple[str, ...]) -> list[set[str]]:
    return [{each} if isinstance(each, str) else set(each) for each in found]


@pytest.mark.parametrize("kind", ["hg", "ga"])
@pytest.mark.parametrize("case", MODES, ids=lambda case: f"{case[0]}, {case[1]}")
@pytest.mark.parametrize("is_first", [True, False])
def test_both_sides_agree(joined: Callable[..., Mesh], kind: str, case: Case, is_first: bool) -> None:
    """`is_first`: the node that is connected to has the first of the two modes."""
    modes, expected = case[:2], any_of(*case[2:])
    if not is_first:
        modes, expected = modes[::-1], expected[::-1]
    mesh = joined(kind, *modes)
    for at in range(2):
        found = shown(mesh, at)
        assert found, "there are routes"
        assert found <= expected[at]
    assert_carries(mesh)


@pytest.mark.parametrize("kind", ["hga", "ahg", "gha"])
def test_a_mesh_with_every_mode(joined: Callable[..., Mesh], kind: str) -> None:
    mesh = joined(kind, "s2_best", "s2_fast", "accept")
    assert_carries(mesh)
    for at in range(3):
        assert "off" not in shown(mesh, at)


@pytest.mark.parametrize("kind", ["hg", "ga", "ah"])
@pytest.mark.parametrize("pool", ["pool_size: -1", 'pool_size: 5, accounts: ["$G"]'])
def test_without_a_pool_and_with_one(joined: Callable[..., Mesh], kind: str, pool: str) -> None:
    mesh = joined(kind, "accept", "s2_fast", cluster=pool)
    assert shown(mesh, 0) == shown(mesh, 1) == {"s2_fast"}
    assert_carries(mesh)


@pytest.mark.parametrize("kind", ["hg", "gh", "ha"])
def test_under_tls(joined: Callable[..., Mesh], authority: Authority, kind: str) -> None:
    certificates = tls_config(authority.issue("route"), f'ca_file: "{authority.file}"', "verify: true")
    mesh = joined(kind, "s2_better", "accept", cluster=certificates)
    assert shown(mesh, 0) == shown(mesh, 1) == {"s2_better"}
    assert_carries(mesh)


@pytest.mark.parametrize("kind", ["hg", "ah"])
def test_a_reload_changes_it(joined: Callable[..., Mesh], kind: str) -> None:
    mesh = joined(kind, "off", "accept")
    assert shown(mesh, 0) == {"off"}
    server = mesh.nodes[0].server
    for mode in ("s2_fast", "s2_best", "off"):
        text = server.config_file.read_text().splitlines()
        lines = [f"compression: {mode}" if line.startswith("compression:") else line for line in text]
        server.config_file.write_text("\n".join(lines))
        server.signal(SIGHUP)
        wait_until(lambda mode=mode: shown(mesh, 1) == {mode} and shown(mesh, 0) == {mode}, mode)
        mesh.converge()
        assert_carries(mesh)
