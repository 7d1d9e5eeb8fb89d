"""A browser for a process, a server of each kind with the users that pages are seen as, a console for a test.

`console` is Headrace's, `any_console` each server's in turn. Users, whose passwords are their names: `app`
and `other` in accounts with JetStream, `viewer` who may look (docs/console.md), `nobody` who may do nothing,
`plain` in an account without JetStream, `shop` in one with something in everything (content.py), `sys` of
the system account.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import depth
from harness.browser import Console, browser
from harness.console_files import ConsoleFiles
from harness.processes import SIDES, ServerProcess
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

HERE = Path(__file__).parent
CONFIG = """
server_name: first
websocket { listen: "127.0.0.1:-1", no_tls: true%s }
mqtt { listen: "127.0.0.1:-1" }
accounts {
    APP {
        jetstream: enabled
        users: [
            { user: app, password: app }
            { user: viewer, password: viewer, permissions {
                publish: [
                    "$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.*", "$JS.API.INFO"
                    "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.>"
                    "$JS.API.CONSUMER.NAMES.>", "$JS.API.CONSUMER.LIST.>", "$JS.API.CONSUMER.INFO.>"
                    "$JS.API.DIRECT.GET.>", "$JS.API.STREAM.MSG.GET.>"
                ]
                subscribe: [">"] } }
            { user: nobody, password: nobody
              permissions { publish: { deny: [">"] }, subscribe: ["_INBOX.>"] } }
        ]
    }
    OTHER { jetstream: enabled, users: [ { user: other, password: other } ] }
    SHOP { jetstream: enabled, users: [ { user: shop, password: shop } ] }
    PLAIN { users: [ { user: plain, password: plain } ] }
    SYS { users: [ { user: sys, password: sys } ] }
}
system_account: SYS
"""


PAGES = (
    *("accounts", "alerts", "cluster", "connections", "consumers", "keyvalue", "lists", "live", "map"),
    *("objects", "pictures", "pipelines", "server_page", "services", "streaming", "streams", "tables"),
)
"""Modules about one page each. `make test` plays an eighth of them, others with the next commit; what all
pages rest on (shell, overview, attacks, first load) is played by every run."""
TURNS = 8


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the pages whose turn it is not: a browser takes most of a second for each test."""
    played = {f"test_{name}.py" for name in depth.share(PAGES, TURNS)}
    others = {f"test_{name}.py" for name in PAGES} - played
    skip = pytest.mark.skip(reason="pages of the console take turns (console/conftest)")
    for item in items:
        if item.path.parent == HERE and item.path.name in others:
            item.add_marker(skip)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of the console. Beside it no other test could use `asyncio.run`."""
    with browser() as started:
        yield started


@dataclass(frozen=True)
class Served:
    """A running server and the addresses of its console and its WebSocket port."""

    server: ServerProcess
    url: str
    socket: str


def served(side: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server of a kind, with the console's files at the same place or beside it."""
    folder = tmp_path_factory.mktemp(f"console-{side}")
    program = SIDES[side]
    config = CONFIG % (", console: true" if program.is_headrace else "")
    with ServerProcess(program, folder, "-js", "-sd", str(folder), "-m", "-1", config=config) as server:
        socket = server.wait_for_line(r"Listening for websocket clients on (ws://\S+)").group(1)
        if program.is_headrace:
            yield Served(server, f"{socket.replace('ws', 'http', 1)}/console/", socket)
            return
        with ConsoleFiles(socket) as files:
            yield Served(server, files.url, socket)


@pytest.fixture(scope="session")
def headrace_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from served("headrace", tmp_path_factory)


@pytest.fixture(scope="session")
def nats_server_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from served("nats-server", tmp_path_factory)


@pytest.fixture(scope="module")
def api(headrace_served: Served) -> Iterator[JetStreamApi]:
    """JetStream's API as another client of `app` has it, beside the pages."""
    with connect(headrace_served.server.url.replace("//", "//app:app@")) as connection:
        yield JetStreamApi(connection)


@pytest.fixture
def console(chromium: Browser, headrace_served: Served) -> Iterator[Console]:
    """The console of a Headrace server that other tests use, too: names in it are a test's own."""
    made = Console(chromium, headrace_served.url, headrace_served.socket)
    yield made
    made.close()


@pytest.fixture(params=list(SIDES))
def any_console(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Console]:
    """The same over a server of each kind."""
    served: Served = request.getfixturevalue(f"{request.param.replace('-', '_')}_served")
    made = Console(chromium, served.url, served.socket)
    yield made
    made.close()
