"""Streams that follow one at the other end of a leaf link, mixed with nats-server, also across starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.leafs import PAIRS, Leafs
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.mesh import MeshClient

SOON: Final = 2 * PATIENCE
"""Seconds a copy may take on a busy machine; one that missed its chance came twice as late."""
KINDS: Final = ("mirror", "sources")
ENDS: Final = {"leaf": "hub", "hub": "leaf"}
"""Who follows whom."""


@pytest.fixture
def leafs(tmp_path: Path) -> Iterator[Leafs]:
    with Leafs(tmp_path) as servers:
        yield servers


def joined(leafs: Leafs, pair: str, folder: Path) -> None:
    """A hub and a leaf node whose domains have their names."""
    of = {name: f'jetstream {{ domain: {name}, store_dir: "{folder}/js {name}" }}\n' for name in ENDS}
    leafs.hub("hub", pair[0], of["hub"])
    leafs.leaf("leaf", pair[1], "hub", of["leaf"])


def copy_of(kind: str, domain: str) -> dict[str, Any]:
    origin = {"name": "O", "external": {"api": f"$JS.{domain}.API", "deliver": ""}}
    return {"name": "M", "storage": "file", kind: origin if kind == "mirror" else [origin]}


def count(client: MeshClient, stream: str) -> int:
    state = json.loads(client.request(f"$JS.API.STREAM.INFO.{stream}").payload)["state"]
    return int(state["messages"])


def followed(origin: MeshClient, copy: MeshClient, kind: str, domain: str) -> None:
    """A stream with three messages, and one at the other end that comes to have them."""
    assert "error" not in origin.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "storage": "file"})
    for number in range(3):
        assert origin.stored("o", b"%d" % number)["stream"] == "O"
    assert "error" not in copy.api("STREAM.CREATE.M", copy_of(kind, domain))
    wait_until(lambda: count(copy, "M") == 3, "the copy", SOON)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", ENDS)
@pytest.mark.parametrize("pair", PAIRS)
def test_it_is_filled_and_goes_on(leafs: Leafs, pair: str, at: str, kind: str, tmp_path: Path) -> None:
    joined(leafs, pair, tmp_path)
    leafs.meet(leafs.join("hub"), leafs.join("leaf"))
    origin, copy = leafs.join(ENDS[at]), leafs.join(at)

    followed(origin, copy, kind, ENDS[at])

    assert origin.stored("o", b"more")["seq"] == 4
    wait_until(lambda: count(copy, "M") == 4, "the message after it", SOON)


@pytest.mark.parametrize(("pair", "at"), [("gh", "leaf"), ("hg", "hub"), ("ah", "leaf"), ("ah", "hub")])
def test_ours_is_filled_when_both_servers_start_at_the_same_time(
    leafs: Leafs, pair: str, at: str, tmp_path: Path
) -> None:
    """The first to look for the other does so before there is a link. nats-server tries again after as long
    as a minute.
    """
    joined(leafs, pair, tmp_path)
    leafs.meet(leafs.join("hub"), leafs.join("leaf"))
    followed(leafs.join(ENDS[at]), leafs.join(at), "mirror", ENDS[at])
    leafs.nodes[at].stop()
    assert leafs.join(ENDS[at]).stored("o", b"while it is away")["seq"] == 4
    leafs.nodes[ENDS[at]].stop()

    for node in leafs.nodes.values():
        node.begin()
    for node in leafs.nodes.values():
        node.server.wait_until_ready()

    origin, copy = leafs.join(ENDS[at]), leafs.join(at)
    wait_until(lambda: count(copy, "M") == 4, "what was stored meanwhile", SOON)
    assert origin.stored("o", b"more")["seq"] == 5
    wait_until(lambda: count(copy, "M") == 5, "the message after it", SOON)
