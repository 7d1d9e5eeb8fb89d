"""What tests need of a real server: one that starts in milliseconds inside the test's own process.

    with headrace.testing.Server() as server:
        connect_to(server.url)

The pytest plugin (fixtures `nats_server`, `nats_server_session`) is registered by installing Headrace.
"""

from headrace.testing.embedded import Server

__all__ = ["Server"]
