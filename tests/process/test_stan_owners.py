"""Whoever may publish to STAN's subjects can no longer act for the client of another user."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.jetstream import JetStreamWire, headers
from harness.processes import HEADRACES, ServerProcess
from headrace.protocol.stan import CloseRequest, CloseResponse, ConnectRequest, ConnectResponse

if TYPE_CHECKING:
    from pathlib import Path

STREAMING = "streaming { cluster_id: test-cluster, store: memory }\n"
USERS = "authorization { users: [{user: alice, password: p}, {user: mallory, password: p}] }\n"
DISCOVER, CLOSE = "_STAN.discover.test-cluster", "_STAN.close.test-cluster"
FORGED = headers({"Nats-Request-Info": json.dumps({"acc": "$G", "user": "alice"})})
"""Who alice is, said by somebody else."""


REQUEST = ConnectRequest(b"me", b"hb.me", 1, b"me", 5, 3).encode()


def connect(wire: JetStreamWire) -> None:
    wire.subscribe("hb.me")
    assert ConnectResponse.decode(wire.request(DISCOVER, REQUEST).payload).error == b""


def closed(wire: JetStreamWire, fields: bytes | None = None) -> bytes:
    return CloseResponse.decode(wire.request(CLOSE, CloseRequest(b"me").encode(), fields).payload).error


def test_another_user_cannot_end_a_client(tmp_path: Path) -> None:
    with ServerProcess(HEADRACES[0], tmp_path, config=USERS + STREAMING) as server:
        server.wait_for_line("Streaming Server is ready")
        with (
            JetStreamWire(server, inbox="_INBOX.a", user="alice", **{"pass": "p"}) as alice,
            JetStreamWire(server, inbox="_INBOX.m", user="mallory", **{"pass": "p"}) as mallory,
        ):
            connect(alice)
            for fields in (None, FORGED):
                assert closed(mallory, fields) == b"stan: clientID belongs to another user"
            said = ConnectResponse.decode(mallory.request(DISCOVER, REQUEST).payload)
            assert said.error == b"stan: clientID already registered"
            assert closed(alice) == b""


@pytest.mark.parametrize("authorization", ["", "authorization { token: t }\n"], ids=["nobody", "one token"])
def test_what_a_client_calls_itself_is_nobodys_name(tmp_path: Path, authorization: str) -> None:
    """Without users, or with one token for all, there are none to keep apart, whatever CONNECT says."""
    given = {"auth_token": "t"}
    with ServerProcess(HEADRACES[0], tmp_path, config=authorization + STREAMING) as server:
        server.wait_for_line("Streaming Server is ready")
        with (
            JetStreamWire(server, inbox="_INBOX.a", user="alice", **given) as one,
            JetStreamWire(server, inbox="_INBOX.m", user="mallory", **given) as other,
        ):
            connect(one)
            assert closed(other) == b""
