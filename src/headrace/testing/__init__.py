"""Servers for tests: a real server that starts in milliseconds inside the test's own process.

    with headrace.testing.Server() as server:
        connect_to(server.url)

    with headrace.testing.ServerCluster(3) as cluster:
        connect_to(cluster.urls)

`embedded` is one server, `cluster` several; `clock` is a clock that can be moved, `disk` a disk that can be
full or slow; `faultfs` has file systems that fail, `plugin` the pytest fixtures.

The pytest plugin is registered by installing Headrace. Its fixtures for one test are `nats_server`,
`jetstream_server`, `nats_cluster` and `jetstream_cluster`, with options by `@pytest.mark.nats(...)`; those
for the whole run are `nats_server_session` and `jetstream_server_session`. Importing this package loads no
server, since pytest does so in every project that has Headrace installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.cluster import ServerCluster as ServerCluster
    from headrace.testing.embedded import Server as Server

__all__ = ["Server", "ServerCluster"]


def __getattr__(name: str) -> object:
    if name == "Server":
        from headrace.testing.embedded import Server

        return Server
    if name == "ServerCluster":
        from headrace.testing.cluster import ServerCluster

        return ServerCluster
    raise AttributeError(f"module 'headrace.testing' has no attribute {name!r}")
