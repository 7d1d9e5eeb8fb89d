"""Messages that are traced over routes, leaf nodes and gateways, beside the Go server."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.trace_plays import EXPORTS, IMPORTS
from harness.leafs import Leafs
from harness.mesh import Mesh
from harness.super_clusters import SuperCluster
from harness.tracing import DEST, shape, traced

if TYPE_CHECKING:
    from pathlib import Path

    from harness.mesh import MeshClient

ACCOUNTS: Final = f"""
accounts {{
  A {{ users [ {{ user: a, password: p }} ], {EXPORTS} }}
  B {{ users [ {{ user: b, password: p }} ], {IMPORTS}, msg_trace {{ dest: "traces" }} }}
  SYS {{ users [ {{ user: s, password: p }} ] }}
}}
system_account: SYS
"""
A: Final = {"user": "a", "pass": "p"}
B: Final = {"user": "b", "pass": "p"}


def _servers_of(events: list[Any]) -> list[str]:
    """Shapes without the names of servers that are numbers, in order of their hops."""
    return sorted(shape(event.json(), {}) for event in events)


def _story(publisher: MeshClient, here: MeshClient, there: MeshClient, fence: Any) -> list[Any]:
    """What traces say of messages from one server to clients of both, plain and in a queue group."""
    sid = publisher.subscribe(DEST)
    sids = [(each, each.subscribe("order")) for each in (here, there)]
    sids += [(there, there.subscribe("group", "Q"))]
    fence()
    seen: list[Any] = []
    for subject, only, count in (
        ("order", False, 2),
        ("order", True, 2),
        ("group", True, 2),
        ("none", True, 1),
    ):
        publisher.publish(subject, b"x", traced(only=only))
        seen.append((subject, only, _servers_of(publisher.take(sid, count))))
        fence()
        seen.append([len(client.got(each)) for client, each in sids])
    assert seen[3] == [0, 0, 0], "what is only traced is not delivered"
    return seen


def _across(b: MeshClient, a: MeshClient, fence: Any) -> list[Any]:
    """Requests and streams that pass into an account whose clients are on another server."""
    sid = b.subscribe(DEST)
    heard = [a.subscribe("svc.*"), a.subscribe("blind.*")]
    fence()
    seen: list[Any] = []
    for only in (False, True):
        for subject, count in (("one", 2), ("blind", 1)):
            b.publish(subject, b"x", traced(only=only))
            seen.append((subject, only, _servers_of(b.take(sid, count))))
            fence()
            seen.append([len(a.got(each)) for each in heard])
    b.publish("order", b"x", {"traceparent": "00-a-b-01"})
    seen.append(_servers_of(b.take(sid, 1)))
    return seen


def _plays_in_mesh(folder: Path, kind: str) -> list[Any]:
    with Mesh(folder, kind, more=ACCOUNTS) as mesh:
        seen: list[Any] = []
        for origin in range(len(kind)):
            other = 1 - origin

            def fence() -> None:
                mesh.converge(**A)
                mesh.converge(**B)

            publisher, here, there = (mesh.join(at, **A) for at in (origin, origin, other))
            seen.append(_story(publisher, here, there, fence))
            seen.append(_across(mesh.join(origin, **B), mesh.join(other, **A), fence))
            mesh.leave()
        return seen


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return _plays_in_mesh(tmp_path_factory.mktemp("gg"), "gg")


@pytest.mark.parametrize("kind", ["hg", "gh", "ha"])
def test_traces_cross_routes(tmp_path: Path, authority: list[Any], kind: str) -> None:
    assert _plays_in_mesh(tmp_path, kind) == authority


def _plays_over_leaf(folder: Path, hub: str, leaf: str) -> list[Any]:
    with Leafs(folder) as running:
        running.hub("hub", hub, ACCOUNTS)
        running.leaf("leaf", leaf, "hub", ACCOUNTS, remote="account: A", user="a:p@")
        seen: list[Any] = []
        for origin, other in (("hub", "leaf"), ("leaf", "hub")):
            publisher, here = running.join(origin, **A), running.join(origin, **A)
            there = running.join(other, **A)
            seen.append(_story(publisher, here, there, partial(running.meet, here, there)))
            for each in (publisher, here, there):
                each.close()
        return seen


@pytest.fixture(scope="module")
def leaf_authority(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return _plays_over_leaf(tmp_path_factory.mktemp("leaf-gg"), "g", "g")


@pytest.mark.parametrize("kind", ["hg", "gh", "ha"])
def test_traces_cross_leaf_nodes(tmp_path: Path, leaf_authority: list[Any], kind: str) -> None:
    assert _plays_over_leaf(tmp_path, *kind) == leaf_authority


def _plays_over_gateway(folder: Path, kind: str) -> list[Any]:
    with SuperCluster(folder, kind, more=ACCOUNTS) as joined:
        seen: list[Any] = []
        for origin in range(2):
            publisher, here, there = (joined.join(at, **A) for at in (origin, origin, 1 - origin))
            seen.append(_story(publisher, here, there, partial(joined.converge, **A)))
            joined.leave()
        return seen


@pytest.fixture(scope="module")
def gateway_authority(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return _plays_over_gateway(tmp_path_factory.mktemp("gateway-gg"), "g-g")


@pytest.mark.parametrize("kind", ["h-g", "g-h", "h-a"])
def test_traces_cross_gateways(tmp_path: Path, gateway_authority: list[Any], kind: str) -> None:
    assert _plays_over_gateway(tmp_path, kind) == gateway_authority


def test_a_peer_of_before_gets_no_message_that_is_only_traced(tmp_path: Path) -> None:
    """A server that speaks routes of 1.x knows nothing of traces: it would deliver the message."""
    with Mesh(tmp_path, "xl") as mesh:
        publisher, there = mesh.join(0), mesh.join(1)
        sid, order = publisher.subscribe(DEST), there.subscribe("order")
        mesh.converge()
        for only in (True, False):
            publisher.publish("order", b"x", traced(only=only))
        mesh.fence(publisher)
        assert len(there.got(order)) == 1
        events = [message.json()["events"][1] for message in publisher.take(sid, 2)]
        assert [event["error"] for event in events] == [
            "Not delivered because remote does not support message tracing",
            "Message delivered but remote does not support message tracing so no trace event generated "
            "from there",
        ]
        assert json.dumps(events[0]["hop"]) == '"1"'
