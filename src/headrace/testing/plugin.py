"""The pytest plugin: servers as fixtures, with options of one test by `@pytest.mark.nats(...)`.

`nats_server`, `jetstream_server`, `nats_cluster` and `jetstream_cluster` are there for one test,
`nats_server_session` and `jetstream_server_session` for all of them.

Importing this module must stay cheap: pytest loads it in every project that has Headrace installed.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from headrace.testing.cluster import ServerCluster
    from headrace.testing.embedded import Server

T = TypeVar("T")

MARK: Final = "nats"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, for `--strict-markers` and `pytest --markers`."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(**options): options of the servers that this test's fixtures start: keyword arguments of "
        "headrace.testing.Server, and of ServerCluster for clusters",
    )


@pytest.fixture
def nats_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A fresh server on a free port, for this test alone; `nats_server.url` is where clients connect.

        @pytest.mark.nats(max_payload=1024)
        async def test_greets(nats_server): ...

    A mark of a class or module holds for all its tests; one that is nearer to the test wins.
    """
    from headrace.testing.embedded import Server

    with _marked(request, Server) as server:
        yield server


@pytest.fixture
def jetstream_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A fresh server with JetStream in a temporary directory, for this test alone."""
    from headrace.testing.embedded import Server

    with _marked(request, Server, jetstream=True) as server:
        yield server


@pytest.fixture
def nats_cluster(request: pytest.FixtureRequest) -> Iterator[ServerCluster]:
    """Three fresh servers that are one cluster, for this test alone; or `size`, by the mark."""
    from headrace.testing.cluster import ServerCluster

    with _marked(request, ServerCluster) as cluster:
        yield cluster


@pytest.fixture
def jetstream_cluster(request: pytest.FixtureRequest) -> Iterator[ServerCluster]:
    """Three fresh servers that are one cluster with JetStream, for this test alone.

    Streams are on the first server, with one replica. Clients of the others use them there.
    """
    from headrace.testing.cluster import ServerCluster

    with _marked(request, ServerCluster, jetstream=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def nats_server_session() -> Iterator[Server]:
    """One server on a free port, shared by the whole test session. It has no options of single tests."""
    from headrace.testing.embedded import Server

    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def jetstream_server_session() -> Iterator[Server]:
    """One server with JetStream in a temporary directory, shared by the whole test session.

    Its streams stay from test to test: give those of each test a name of their own.
    """
    from headrace.testing.embedded import Server

    with Server(jetstream=True) as server:
        yield server


@contextmanager
def _marked(
    request: pytest.FixtureRequest, make: Callable[..., AbstractContextManager[T]], **usual: Any
) -> Iterator[T]:
    """Run a server with the options of a test's marks. A mistake in them is an error of the test."""
    from headrace.errors import ConfigError

    options = usual
    for mark in reversed(list(request.node.iter_markers(MARK))):
        if mark.args:
            pytest.fail(f"@pytest.mark.{MARK} takes keywords only, not {mark.args!r}", pytrace=False)
        options = {**options, **mark.kwargs}
    with ExitStack() as stack:
        try:
            server = stack.enter_context(make(**options))
        except (ConfigError, TypeError) as error:
            pytest.fail(f"@pytest.mark.{MARK}, for {request.fixturename}: {error}", pytrace=False)
        yield server
