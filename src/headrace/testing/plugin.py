"""The pytest plugin: `nats_server`, `jetstream_server`, `nats_cluster` for one test, `nats_server_session`
for all of them.

Importing this module must stay cheap: pytest loads it in every project that has Headrace installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.testing.cluster import ServerCluster
    from headrace.testing.embedded import Server


@pytest.fixture
def nats_server() -> Iterator[Server]:
    """A fresh server on a free port, for this test alone; `nats_server.url` is where clients connect."""
    from headrace.testing.embedded import Server

    with Server() as server:
        yield server


@pytest.fixture
def jetstream_server() -> Iterator[Server]:
    """A fresh server with JetStream in a temporary directory, for this test alone."""
    from headrace.testing.embedded import Server

    with Server(jetstream=True) as server:
        yield server


@pytest.fixture
def nats_cluster() -> Iterator[ServerCluster]:
    """Three fresh servers that are one cluster, for this test alone."""
    from headrace.testing.cluster import ServerCluster

    with ServerCluster(3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def nats_server_session() -> Iterator[Server]:
    """One server on a free port, shared by the whole test session."""
    from headrace.testing.embedded import Server

    with Server() as server:
        yield server
