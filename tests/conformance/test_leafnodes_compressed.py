"""Leaf links that are compressed, in mixtures of Headrace and nats-server: what is agreed, and traffic."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from harness.leafs import Leafs
from harness.ports import free_port
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def leafs(tmp_path: Path) -> Iterator[Leafs]:
    with Leafs(tmp_path) as servers:
        yield servers


def shown(port: int) -> list[str]:
    """The compression of each leaf link as `/leafz` shows it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/leafz", timeout=10) as answer:
        document: dict[str, Any] = json.load(answer)
    return [each["compression"] for each in document["leafs"] or ()]


def joined(leafs: Leafs, pair: str, hub: str, leaf: str) -> tuple[int, int]:
    """Run both with these modes of compression ("": the default); return their monitoring ports."""
    ports = free_port(), free_port()
    hub = hub and f"compression: {hub}"
    leaf = leaf and f"compression: {leaf}"
    leafs.hub("hub", pair[0], f'http: "127.0.0.1:{ports[0]}"', hub)
    leafs.leaf("leaf", pair[1], "hub", f'http: "127.0.0.1:{ports[1]}"', remote=leaf)
    return ports


@pytest.mark.parametrize("pair", ["gh", "hg"])
@pytest.mark.parametrize(
    ("hub", "leaf", "wanted"),
    [
        (
            "{ mode: s2_auto, rtt_thresholds: [1h] }",
            "{ mode: s2_auto, rtt_thresholds: [1h] }",
            {"s2_uncompressed"},
        ),
        (
            "{ mode: s2_auto, rtt_thresholds: [0s, 1h] }",
            "{ mode: s2_auto, rtt_thresholds: [0s, 1h] }",
            {"s2_fast"},
        ),
        ("s2_fast", "s2_fast", {"s2_fast"}),
        ("s2_better", "accept", {"s2_better"}),
        ("accept", "s2_best", {"s2_best"}),
        ("accept", "accept", {"off"}),
        ("s2_fast", "off", {"off"}),
        ("off", "s2_fast", {"off"}),
        ('"not supported"', "s2_fast", {"not supported"}),
    ],
)
def test_both_ends_show_what_they_agreed_upon(
    leafs: Leafs, pair: str, hub: str, leaf: str, wanted: set[str]
) -> None:
    ports = joined(leafs, pair, hub, leaf)
    for port in ports:
        wait_until(lambda p=port: shown(p), "the link")
        assert set(shown(port)) == wanted


@pytest.mark.parametrize("pair", ["gh", "hg"])
def test_usual_mode_goes_by_the_round_trip_time(leafs: Leafs, pair: str) -> None:
    """Which of the steps it is depends on how busy the machine is; without compression it is none of them."""
    for port in joined(leafs, pair, "", ""):
        wait_until(lambda p=port: shown(p), "the link")
        assert set(shown(port)) <= {"s2_uncompressed", "s2_fast", "s2_better", "s2_best"}


@pytest.mark.parametrize("pair", ["gh", "hg", "ah"])
def test_traffic_passes_compressed_and_after_a_kill(leafs: Leafs, pair: str) -> None:
    joined(leafs, pair, "s2_fast", "s2_auto")
    hub, leaf = leafs.clients()
    large = b"0123456789" * 90_000
    for again in range(2):
        for one, other in ((hub, leaf), (leaf, hub)):
            sid = one.subscribe(f"news.{again}")
            leafs.meet(hub, leaf)
            other.publish(f"news.{again}", large, {"K": "v"})
            for number in range(500):
                other.publish(f"news.{again}", b"%d" % number)
            first, *rest = one.take(sid, 501)
            assert (first.payload, first.header("K")) == (large, "v")
            assert [each.payload for each in rest] == [b"%d" % number for number in range(500)]
            one.unsubscribe(sid)
        if not again:
            leafs.nodes["leaf"].kill()
            leafs.nodes["leaf"].start()
            leaf = leafs.join("leaf")
            leafs.meet(hub, leaf)
