"""A server of each kind with JetStream, and the command line that talks to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.command_line import CommandLine
from harness.processes import SIDES, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = """
accounts {
    A { users: [ {user: alice, password: secret}, {user: reader, password: secret,
        permissions: {publish: {allow: ["_INBOX.>", "allowed.>"]}, subscribe: {allow: [">"]}}} ]
        jetstream: enabled }
    SYS { users: [ {user: admin, password: secret} ] }
}
system_account: SYS
no_auth_user: alice
"""
"""A user for everything, one with few permissions, one of the system account."""


@pytest.fixture(scope="session", params=list(SIDES))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """One server of each kind, with JetStream and three users; without a name one is alice."""
    folder = tmp_path_factory.mktemp("server")
    program = SIDES[request.param]
    with ServerProcess(program, folder, "-js", "-sd", str(folder), "-m", "-1", config=CONFIG) as running:
        yield running


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> CommandLine:
    """The command line, with a server of each kind."""
    return CommandLine(tmp_path, server.url)


@pytest.fixture
def alone(tmp_path: Path) -> CommandLine:
    """The command line without a server."""
    return CommandLine(tmp_path, "nats://127.0.0.1:1")
