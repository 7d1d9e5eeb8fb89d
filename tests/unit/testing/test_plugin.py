"""The pytest plugin, used by a test file as somebody else would write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

SOMEBODYS_TESTS = """
import socket

seen = []

def ask(server):
    with socket.create_connection((server.host, server.port), timeout=5) as sock:
        return sock.recv(4)

def test_one(nats_server, nats_server_session):
    assert ask(nats_server) == ask(nats_server_session) == b"INFO"
    seen.append((nats_server.port, nats_server_session.port))

def test_two(nats_server, nats_server_session):
    seen.append((nats_server.port, nats_server_session.port))
    (_, first), (_, second) = seen
    assert first == second
    assert nats_server is not nats_server_session
"""


def test_fixtures_give_one_server_per_test_and_one_per_session(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SOMEBODYS_TESTS)

    pytester.runpytest_subprocess("-q").assert_outcomes(passed=2)
