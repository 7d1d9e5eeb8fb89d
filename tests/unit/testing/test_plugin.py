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


MARKED_TESTS = """
import pytest

pytestmark = pytest.mark.nats(max_payload=3000, server_name="module")

def test_of_the_module(nats_server):
    assert (nats_server.options.max_payload, nats_server.options.server_name) == (3000, "module")

@pytest.mark.nats(max_payload=1000)
class TestOfAClass:
    def test_of_the_class(self, nats_server, jetstream_server):
        for server in (nats_server, jetstream_server):
            assert (server.options.max_payload, server.options.server_name) == (1000, "module")
        assert nats_server.options.jetstream is None
        assert jetstream_server.options.jetstream is not None

    @pytest.mark.nats(max_payload=500)
    def test_of_the_nearest(self, nats_server):
        assert nats_server.options.max_payload == 500

@pytest.mark.nats(size=2, name="east", server_name=None)
def test_cluster(nats_cluster, jetstream_cluster):
    assert len(nats_cluster) == len(jetstream_cluster) == 2
    assert [server.options.jetstream is not None for server in nats_cluster] == [False, False]
    assert [server.options.jetstream is not None for server in jetstream_cluster] == [True, False]
    assert {server.server.cluster_name for server in nats_cluster} == {"east"}

def test_session(jetstream_server_session, nats_server_session):
    assert jetstream_server_session.options.jetstream is not None
    assert nats_server_session.options.max_payload != 3000
"""

WRONG_MARKS = """
import pytest

@pytest.mark.nats(max_paylod=1)
def test_keyword(nats_server): ...

@pytest.mark.nats(max_paylod=1)
def test_keyword_of_a_cluster(nats_cluster): ...

@pytest.mark.nats(max_payload="1 MB")
def test_value(jetstream_server): ...

@pytest.mark.nats("server.conf")
def test_position(nats_server): ...
"""


def test_mark_has_the_options_of_one_tests_servers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MARKED_TESTS)

    pytester.runpytest_subprocess("-q", "--strict-markers").assert_outcomes(passed=5)


def test_mistake_in_a_mark_is_an_error_that_names_both(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WRONG_MARKS)

    result = pytester.runpytest_subprocess("-q")

    result.assert_outcomes(errors=4)
    for line in (
        "*@pytest.mark.nats, for nats_server: *has no option 'max_paylod'; did you mean 'max_payload'?",
        "*@pytest.mark.nats, for nats_cluster: *has no option 'max_paylod'; did you mean 'max_payload'?",
        "*@pytest.mark.nats, for jetstream_server: max_payload: Expected `int`, got `str`",
        "*@pytest.mark.nats takes keywords only, not ('server.conf',)",
    ):
        result.stdout.fnmatch_lines([line])


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
