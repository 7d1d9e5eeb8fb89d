"""Whoever may publish to STAN's subjects can no longer act for the client of another user."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from harness.jetstream import JetStreamWire, headers
from harness.processes import HEADRACES, ServerProcess
from headrace.protocol.stan import CloseRequest, CloseResponse, ConnectRequest, ConnectResponse

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
authorization { users: [{user: alice, password: p}, {user: mallory, password: p}] }
streaming { cluster_id: test-cluster, store: memory }
"""
DISCOVER, CLOSE = "_STAN.discover.test-cluster", "_STAN.close.test-cluster"
FORGED = headers({"Nats-Request-Info": json.dumps({"acc": "$G", "user": "alice"})})
"""Who alice is, said by somebody else."""


def closed(wire: JetStreamWire, fields: bytes | None = None) -> bytes:
    return CloseResponse.decode(wire.request(CLOSE, CloseRequest(b"me").encode(), fields).payload).error


def test_another_user_cannot_end_a_client(tmp_path: Path) -> None:
    with ServerProcess(HEADRACES[0], tmp_path, config=CONFIG) as server:
        server.wait_for_line("Streaming Server is ready")
        with (
            JetStreamWire(server, inbox="_INBOX.a", user="alice", **{"pass": "p"}) as alice,
            JetStreamWire(server, inbox="_INBOX.m", user="mallory", **{"pass": "p"}) as mallory,
        ):
            alice.subscribe("hb.me")
            request = ConnectRequest(b"me", b"hb.me", 1, b"me", 5, 3).encode()
            assert ConnectResponse.decode(alice.request(DISCOVER, request).payload).error == b""
            for fields in (None, FORGED):
                assert closed(mallory, fields) == b"stan: clientID belongs to another user"
            said = ConnectResponse.decode(mallory.request(DISCOVER, request).payload)
            assert said.error == b"stan: clientID already registered"
            assert closed(alice) == b""
