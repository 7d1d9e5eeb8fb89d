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

def test_jetstream(jetstream_server):
    assert ask(jetstream_server) == b"INFO"
    assert jetstream_server.options.jetstream is not None

def test_cluster(nats_cluster):
    assert [ask(server) for server in nats_cluster] == [b"INFO"] * 3

def test_two(nats_server, nats_server_session):
    seen.append((nats_server.port, nats_server_session.port))
    (_, first), (_, second) = seen
    assert first == second
    assert nats_server is not nats_server_session
"""


def test_fixtures_give_one_server_per_test_and_one_per_session(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SOMEBODYS_TESTS)

    pytester.runpytest_subprocess("-q").assert_outcomes(passed=4)


def test_fixture_is_released_when_a_test_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import socket, threading

        seen = []

        def test_fails(nats_server):
            seen.append(nats_server.port)
            assert False

        def test_server_of_the_failed_test_is_gone():
            assert not [t for t in threading.enumerate() if t.name == "headrace"]
            with socket.socket() as sock:
                assert sock.connect_ex(("127.0.0.1", seen[0])) != 0
        """
    )

    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1, failed=1)


def test_plugin_costs_nothing_to_those_who_do_not_use_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_of_the_server_is_loaded():
            assert "headrace.testing.embedded" not in sys.modules
            assert not [m for m in sys.modules if m.startswith("headrace.engine")]
        """
    )

    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)
