"""The console over three servers: one page shows all, whichever it came from; one that goes is told."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from harness.processes import SIDES, ServerProcess
from harness.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

NAMES = ("one", "two", "three")
CONFIG = """
server_name: %s
cluster { name: mill, listen: "127.0.0.1:-1" %s }
%s
accounts {
    APP { jetstream: enabled, users: [ { user: app, password: app } ] }
    SYS { users: [ { user: sys, password: sys } ] }
}
system_account: SYS
"""
LOGIN = b'{"user":"app","pass":"app","verbose":false,"pedantic":false,"name":"%s"}'
SOCKET = 'websocket { listen: "127.0.0.1:-1", no_tls: true, console: true }'


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    """Three servers in a cluster; the console is the first one's."""
    started: list[ServerProcess] = []
    with ExitStack() as ends:
        for name in NAMES:
            routes = ""
            if started:
                port = started[0].wait_for_line(r"Listening for route connections on \S+:(\d+)").group(1)
                routes = f', routes: ["nats-route://127.0.0.1:{port}"]'
            config = CONFIG % (name, routes, "" if started else SOCKET)
            folder = tmp_path_factory.mktemp(name)
            started.append(ends.enter_context(ServerProcess(SIDES["headrace"], folder, config=config)))
        yield started


def test_one_page_shows_all_servers_and_tells_of_one_that_goes(
    chromium: Browser, servers: list[ServerProcess]
) -> None:
    socket = servers[0].wait_for_line(r"Listening for websocket clients on (ws://\S+)").group(1)
    console = Console(chromium, f"{socket.replace('ws', 'http', 1)}/console/", socket)
    page = console.open(account="app", operator="sys")
    expect(page.locator(".sentence")).to_contain_text("All 3 servers answer.")
    expect(page.get_by_label("Server", exact=True).locator("option")).to_have_text(
        ["All servers", *sorted(NAMES)]
    )

    with Wire(("127.0.0.1", servers[2].port)) as wire:
        wire.connect(LOGIN % b"far away")
        wire.sync()
        page.goto(f"{console.url}#/connections")
        expect(page.get_by_role("link", name="far away")).to_be_visible()
        page.goto(f"{console.url}#/map")
        expect(page.locator(".sentence")).to_contain_text("3 servers in 1 cluster. All links are up.")

    servers[2].stop()
    page.goto(f"{console.url}#/overview")
    expect(page.locator(".sentence")).to_contain_text("1 of 3 servers is silent.")
    page.goto(f"{console.url}#/live?subject=a.%3E")
    with Wire(("127.0.0.1", servers[1].port)) as wire:
        wire.connect(LOGIN % b"near")
        expect(page.get_by_text("listening", exact=True)).to_be_visible()
        wire.send(b"PUB a.b 15\r\nfrom the second\r\n")
        expect(page.get_by_text("from the second").first).to_be_visible()
    console.close()
