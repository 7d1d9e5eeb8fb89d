"""A server that restarts, and rights that change, while pages are open: nobody has to reload them."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from harness.console_files import ConsoleFiles
from harness.ports import free_port
from harness.processes import SIDES, Program, ServerProcess
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

CONFIG = """
server_name: comes-back
websocket { listen: "127.0.0.1:%(port)d", no_tls: true }
accounts {
    APP {
        jetstream: enabled
        users: [ %(users)s ]
    }
    SYS { users: [ { user: sys, password: sys } ] }
}
system_account: SYS
"""
APP = "{ user: app, password: app %s }"
OTHER = "{ user: somebody, password: else }"
NO_STREAMS = ', permissions { publish: { deny: ["$JS.API.STREAM.>"] } }'
NO_ORDERS = ', permissions { publish: { deny: ["orders.>"] } }'
NO_SECRETS = ', permissions { subscribe: { deny: ["secret.>"] } }'


@dataclass
class Restarting:
    """A server that comes back at the same addresses."""

    program: Program
    folder: Path
    port: int
    server: ServerProcess | None = None

    def start(self) -> None:
        self.server = ServerProcess(
            self.program, self.folder, "-js", "-sd", str(self.folder / "store"), config=self._config(APP % "")
        )

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
        self.server = None

    def reload(self, user: str) -> None:
        """Have other users from now on."""
        assert self.server is not None
        seen = len(self.server.lines)
        self.server.config_file.write_text(self._config(user))
        self.server.signal(signal.SIGHUP)
        self.server.wait_for_line("Reloaded server configuration", after=seen)

    def publish(self, subject: str, payload: bytes) -> None:
        assert self.server is not None
        with connect(self.server.url.replace("//", "//app:app@")) as connection:
            connection.publish(subject, payload)
            connection.flush()

    def make(self, stream: str) -> None:
        assert self.server is not None
        with connect(self.server.url.replace("//", "//app:app@")) as connection:
            config = {"name": stream, "subjects": [f"{stream.lower()}.>"], "allow_direct": True}
            JetStreamApi(connection).ask(f"STREAM.CREATE.{stream}", config)

    def _config(self, user: str) -> str:
        return CONFIG % {"port": self.port, "users": f"{user}, {OTHER}"}


@pytest.fixture(scope="module", params=list(SIDES))
def restarting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restarting]:
    made = Restarting(SIDES[request.param], tmp_path_factory.mktemp("restarting"), free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture
def console(chromium: Browser, restarting: Restarting) -> Iterator[Console]:
    socket = f"ws://127.0.0.1:{restarting.port}"
    with ConsoleFiles(socket) as files:
        made = Console(chromium, files.url, socket)
        yield made
        made.close()


@pytest.fixture
def all_rights(restarting: Restarting) -> Iterator[None]:
    """The user has all rights again when a test is over."""
    yield
    restarting.reload(APP % "")


def row(page: Page, table: str, words: str) -> None:
    expect(
        page.get_by_role("table", name=table).locator("tbody tr[data-key]", has_text=words)
    ).to_be_visible()


def test_server_that_restarts_is_told_with_the_age_of_what_is_shown_and_comes_back(
    console: Console, restarting: Restarting
) -> None:
    console.watched.expected.append("WebSocket")
    restarting.make("KEPT")
    page = console.open("#/overview", account="app")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.clock.install()
    page.goto(f"{console.url}#/streams")
    live = console.open("#/live?subject=heard.%3E", account="app")
    row(page, "Streams", "KEPT")
    expect(live.locator(".live-status")).to_contain_text("listening")
    restarting.stop()
    for one in (page, live):
        banner = one.locator("main .banner")
        expect(banner).to_contain_text("The connection is gone.")
        expect(banner).to_contain_text("What is shown is")
        expect(banner).to_contain_text(re.compile(r"Next attempt in [012] s"))
        expect(one.locator(".is-stale")).to_be_visible()
        expect(one.get_by_role("complementary")).to_contain_text("reconnecting")
    for _ in range(2):  # the next question would be due, and its answer late
        page.clock.fast_forward(6_000)
    row(page, "Streams", "KEPT")
    expect(live.locator(".live-status")).to_contain_text("reconnecting")

    restarting.start()
    for one in (page, live):
        expect(one.locator("main .banner")).to_be_hidden()
        expect(one.locator(".is-stale")).to_have_count(0)
        expect(one.get_by_role("complementary")).to_contain_text("connected")
    restarting.publish("kept.one", b"x")
    expect(page.locator("tr[data-key=KEPT] td").nth(1)).to_have_text("1")
    expect(live.get_by_text("The connection was gone for")).to_be_visible()
    restarting.publish("heard.again", b"still here")
    row(live, "Messages, the newest first", "still here")


@pytest.mark.usefixtures("all_rights")
def test_right_that_is_taken_away_is_told_and_comes_back_by_itself(
    console: Console, restarting: Restarting
) -> None:
    restarting.make("SEEN")
    page = console.open("#/streams/SEEN", account="app", clock=True)
    expect(page.get_by_role("heading", name="SEEN", level=1)).to_be_visible()
    restarting.reload(APP % NO_STREAMS)
    main = page.locator("main")
    told = main.locator(".banner")
    expect(told).to_contain_text("Your user has no right to this. $JS.API.STREAM.INFO.SEEN")
    expect(told).to_contain_text("old.")
    expect(page.get_by_role("heading", name="SEEN", level=1)).to_be_visible()
    restarting.reload(APP % "")
    page.clock.fast_forward(61_000)  # what was refused is asked for again after a minute
    expect(told).to_be_hidden()


@pytest.mark.usefixtures("all_rights")
def test_buttons_are_judged_anew_when_rights_change(console: Console, restarting: Restarting) -> None:
    buckets = console.open("#/keyvalue", account="app", clock=True)
    new = buckets.get_by_role("button", name="New bucket").first
    expect(new).to_be_enabled()
    live = console.open("#/live/publish", account="app", clock=True)
    form = live.locator("form.compose")
    form.get_by_label("Subject", exact=True).fill("orders.new")
    form.get_by_label("Payload", exact=True).fill("half written")
    send = form.locator("button[type=submit]")
    expect(send).to_be_enabled()
    expect(live.locator(".who")).to_contain_text("read and write")

    restarting.reload(APP % NO_STREAMS)
    buckets.clock.fast_forward(31_000)
    expect(new).to_be_disabled()
    expect(new).to_have_attribute("title", re.compile(r"\$JS\.API\.STREAM\.CREATE"))
    restarting.reload(APP % NO_ORDERS)
    for page in (buckets, live):
        page.clock.fast_forward(31_000)
    expect(new).to_be_enabled()
    expect(send).to_be_disabled()
    expect(live.locator(".who")).not_to_contain_text("read and write")
    restarting.reload(APP % "")
    live.clock.fast_forward(31_000)
    expect(send).to_be_enabled()
    expect(form.get_by_label("Payload", exact=True)).to_have_value("half written")


@pytest.mark.usefixtures("all_rights")
def test_subscription_that_is_taken_away_is_told(console: Console, restarting: Restarting) -> None:
    page = console.open("#/live?subject=secret.%3E+open.%3E", account="app")
    expect(page.locator(".live-status")).to_contain_text("listening")
    restarting.reload(APP % NO_SECRETS)
    expect(page.locator("main")).to_contain_text("secret.>")
    expect(page.locator("main")).to_contain_text("Your user has no right to this.")
    restarting.publish("open.one", b"goes on")
    row(page, "Messages, the newest first", "goes on")


@pytest.mark.usefixtures("all_rights")
def test_user_who_is_taken_away_is_asked_to_sign_in_again(console: Console, restarting: Restarting) -> None:
    console.watched.expected.append("WebSocket")
    page = console.open("#/streams", account="app")
    expect(page.get_by_role("heading", name="Streams", level=1)).to_be_visible()
    restarting.reload(OTHER.replace("somebody", "anybody"))
    expect(page.locator("main .banner")).to_contain_text("The server ended the connection")
    page.get_by_role("button", name="Sign in again").click()
    page.get_by_label("User", exact=True).fill("anybody")
    page.get_by_label("Password", exact=True).fill("else")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Streams", level=1)).to_be_visible()
    expect(page.locator(".who")).to_contain_text("anybody")
