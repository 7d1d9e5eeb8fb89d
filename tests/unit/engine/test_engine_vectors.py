"""The specification's vectors played on the engine alone, with no server around it, split in every way.

Taken are those that need no more configuration than limits; tests/conformance plays all on the server.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from engine_peers import Broker, Peer

VECTORS: Final = Path(__file__).parents[2] / "conformance" / "client_vectors.json"

LIMITS: Final[dict[str | None, dict[str, int]]] = {
    None: {},
    "max_payload: 8": {"max_payload": 8},
    "max_control_line: 64": {"max_control_line": 64},
    "max_subscriptions: 2": {"max_subscriptions": 2},
    "max_sub_tokens: 2": {"max_subscription_tokens": 2},
}
"""Configurations that the engine knows by itself."""

EXPECTATIONS: Final = frozenset(["expect", "expect_any", "expect_close", "expect_nothing", "expect_re"])
STEPS: Final = EXPECTATIONS | {"conn", "send", "send_repeat", "sleep", "sync"}


def playable() -> dict[str, dict[str, Any]]:
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    return {
        vector["name"]: vector
        for vector in vectors
        if vector["server_config"] in LIMITS
        and not vector["name"].startswith("js_")
        and all(STEPS.issuperset(step) for step in vector["steps"])
    }


PLAYABLE: Final = playable()


class Player:
    """One connection of a vector: what it got and has not been asked about yet."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.got = b""

    def play(self, step: dict[str, Any]) -> None:
        if "send" in step:
            self.peer.send(step["send"].encode())
        if "send_repeat" in step:
            text, times = step["send_repeat"]
            self.peer.send(text.encode() * times)
        if "sync" in step:
            self.peer.send(b"PING\r\n")
        self.got += self.peer.received()
        if "expect" in step:
            self.expect(step["expect"].encode())
        if "expect_re" in step:
            match = re.match(step["expect_re"].encode(), self.got, re.DOTALL)
            assert match, self.got
            self.got = self.got[match.end() :]
        if "expect_any" in step:
            left = [text.encode() for text in step["expect_any"]]
            while left:
                text = next(text for text in left if self.got.startswith(text))
                left.remove(text)
                self.expect(text)
        if "sync" in step:
            self.expect(b"PONG\r\n")
        if "expect_nothing" in step:
            assert self.got == b""
        if "expect_close" in step:
            assert self.got == b""
            assert self.peer.link.is_closing

    def expect(self, text: bytes) -> None:
        assert self.got[: len(text)] == text
        self.got = self.got[len(text) :]


@pytest.mark.parametrize("name", PLAYABLE)
def test_vector_is_answered_as_specified(broker: Broker, name: str) -> None:
    vector = PLAYABLE[name]
    connections: dict[str, Player] = {}
    for step in vector["steps"]:
        connection = step.get("conn", "c")
        if connection not in connections:
            connections[connection] = Player(broker.peer(b"", **LIMITS[vector["server_config"]]))
        connections[connection].play(step)


def test_most_vectors_without_configuration_are_taken() -> None:
    assert len(PLAYABLE) >= 110
