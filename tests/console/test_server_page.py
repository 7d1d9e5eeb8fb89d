"""Servers: figures, health, options, storage; a reload with its difference before; a token's limits."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from harness.claims import account_token, user_token
from harness.console_files import ConsoleFiles
from harness.keys import ACCOUNT, OPERATOR, USER, key_pair
from harness.operators import SYSTEM, SYSTEM_USER, configuration
from harness.processes import HEADRACES, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

UNDO_MS = 6_000
TENANT = key_pair(ACCOUNT, "tenant")
LIMITS = {"conn": 50, "leaf": 2, "subs": 1000, "disk_storage": 1 << 30, "streams": 5}
SETTINGS = 'server_name: "first"\nwebsocket {{ listen: "127.0.0.1:{port}", no_tls: true }}\n{more}\n'


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server in operator mode whose file a test may change."""
    folder = tmp_path_factory.mktemp("operated")
    with ServerProcess(HEADRACES[0], folder, config=written(folder, "")) as server:
        yield server


def written(folder: object, more: str, port: str = "-1") -> str:
    revoked = {key_pair(USER, "gone").public: 1_700_000_000, "*": 1_600_000_000}
    token = account_token(key_pair(OPERATOR, "operator"), TENANT, limits=LIMITS, revocations=revoked)
    resolver = f'{{ type: full, dir: "{folder}/tokens" }}'
    settings = SETTINGS.format(port=port, more=more)
    return configuration({TENANT.public: token}, resolver=resolver, more=settings)


@pytest.fixture
def console(chromium: Browser, operated: ServerProcess) -> Iterator[Console]:
    socket = operated.wait_for_line(r"Listening for websocket clients on (ws://\S+)").group(1)
    with ConsoleFiles(socket) as files:
        made = Console(chromium, files.url, socket)
        yield made
        made.close()


def as_operator(console: Console, address: str) -> Page:
    """The page, signed in by a credentials file of the system account."""
    token = user_token(SYSTEM, SYSTEM_USER)
    text = (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{SYSTEM_USER.seed}\n------END USER NKEY SEED------\n"
    )
    page = console.open()
    login = json.dumps({"kind": "creds", "text": text})
    page.evaluate("(login) => sessionStorage.setItem('headrace.login.operator', login)", login)
    page.goto(f"{console.url}{address}")
    page.reload()
    return page


def test_reload_shows_what_changes_before_and_what_came_of_it(
    console: Console, operated: ServerProcess
) -> None:
    folder = operated.config_file.parent
    page = as_operator(console, "#/server")
    page.get_by_role("link", name="first", exact=True).first.click()
    page.get_by_role("link", name="Configuration").click()
    expect(page.get_by_text("The server runs with the file as it is.")).to_be_visible()
    operated.config_file.write_text(written(folder, "max_payload: 2MB"))
    page.get_by_role("button", name="Compare again").click()
    changed = page.get_by_role("row", name="max_payload")
    expect(changed).to_contain_text("2097152")
    expect(changed).to_contain_text("a reload")

    page.clock.install()
    page.get_by_role("button", name="Reload", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("max_payload: 1048576 -> 2097152")
    dialog.get_by_label("Type “first” to go on").fill("first")
    dialog.get_by_role("button", name="Reload").click()
    page.clock.fast_forward(UNDO_MS)
    expect(page.get_by_text("Reloaded at")).to_be_visible()
    expect(page.get_by_text("The server runs with the file as it is.")).to_be_visible()
    with operated.connect() as wire:
        assert wire.info["max_payload"] == 2 << 20

    operated.config_file.write_text(written(folder, "max_payload: 2MB\nping_max: lots"))
    page.get_by_role("button", name="Compare again").click()
    expect(page.get_by_text("The file is wrong: a reload would be refused.")).to_be_visible()
    expect(page.get_by_text('field "ping_max" must be an integer')).to_be_visible()
    operated.config_file.write_text(written(folder, "max_payload: 2MB"))


def test_account_of_a_resolver_shows_limits_and_revocations_of_its_token(console: Console) -> None:
    page = as_operator(console, f"#/accounts/{TENANT.public}")
    limits = page.locator("section", has=page.get_by_role("heading", name="Limits"))
    expect(limits).to_contain_text("1,000")
    page.get_by_role("link", name="Token").click()
    expect(page.get_by_role("row", name="every user")).to_be_visible()
    expect(page.get_by_text(key_pair(USER, "gone").public, exact=True)).to_be_visible()


def test_figures_health_options_and_storage_of_any_server(any_console: Console) -> None:
    page = any_console.open("#/server", operator="sys")
    page.locator("tbody").get_by_role("link", name="first", exact=True).click()
    expect(page.get_by_text("Where it listens")).to_be_visible()
    expect(page.locator(".figure", has_text="From clients").locator(".value")).to_contain_text("/s")
    page.get_by_role("link", name="Health").click()
    # nats-server is not well for good where another test removed a stream and its directory stayed
    expect(
        page.get_by_text(re.compile("The server says that it is well|could not be recovered"))
    ).to_be_visible()
    page.get_by_role("link", name="Options").click()
    expect(page.locator("tr[data-key='.max_payload']")).to_contain_text("1 MiB")
    page.get_by_role("link", name="Storage").click()
    expect(page.get_by_text("The streams of this server are on its disk alone.")).to_be_visible()


def test_nats_server_cannot_tell_what_a_reload_changes_and_that_is_said(
    chromium: Browser, request: pytest.FixtureRequest
) -> None:
    served = request.getfixturevalue("nats_server_served")
    console = Console(chromium, served.url, served.socket)
    page = console.open("#/server", operator="sys")
    page.locator("tbody").get_by_role("link", name="first", exact=True).click()
    page.get_by_role("link", name="Configuration").click()
    expect(page.get_by_text("This server cannot tell what a reload would change.")).to_be_visible()
    expect(page.get_by_role("button", name="Reload", exact=True)).to_be_enabled()
    console.close()


def test_server_that_is_gone_is_told_as_such(any_console: Console) -> None:
    page = any_console.open("#/server/NOSUCHSERVER", operator="sys")
    expect(page.get_by_text("This server does not answer.")).to_be_visible()
    page.get_by_role("link", name="All servers").first.click()
    expect(page.locator("tbody").get_by_role("link", name="first", exact=True)).to_be_visible()
