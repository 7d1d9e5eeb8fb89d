"""Attacks on the console: foreign pages, frames, secrets that stay, who may only look, hostile names."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from playwright.sync_api import expect

from harness.console_files import ConsoleFiles

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from console.conftest import Served
    from harness.browser import Console

PAGES: Final = (
    *("overview", "live", "alerts", "streams", "consumers", "keyvalue", "objects", "services", "streaming"),
    *("pipelines", "tables", "connections", "accounts", "map", "server"),
)


def test_page_of_another_origin_cannot_sign_in(chromium: Browser, headrace_served: Served) -> None:
    """The same files from elsewhere: the server refuses the upgrade, whatever the login."""
    with ConsoleFiles(headrace_served.socket) as files:
        page = chromium.new_context().new_page()
        page.goto(files.url)
        page.get_by_label("User", exact=True).fill("app")
        page.get_by_label("Password", exact=True).fill("app")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("does it allow this page's origin?")).to_be_visible()
        page.context.close()


def test_console_is_not_shown_in_a_frame(chromium: Browser, headrace_served: Served) -> None:
    page = chromium.new_context().new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.set_content(f'<iframe src="{headrace_served.url}"></iframe>')
    expect(page.locator("iframe")).to_be_visible()
    page.wait_for_timeout(100)
    while not said:
        page.wait_for_timeout(50)
    assert "frame-ancestors 'none'" in said[0]
    page.context.close()


def test_secret_of_the_address_is_taken_out_of_it(console: Console) -> None:
    console.watched.expected.append("WebSocket")
    page = console.open("#operator=0123456789abcdef")
    expect(page.get_by_text("is from an earlier run of the server")).to_be_visible()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert "0123456789abcdef" not in page.url
    kept = page.evaluate("[history.length, JSON.stringify(sessionStorage), JSON.stringify(localStorage)]")
    assert "0123456789abcdef" not in json.dumps(kept)


def test_login_is_kept_only_where_one_asked_and_goes_with_signing_out(console: Console) -> None:
    page = console.open()
    for keeps in (False, True):
        page.get_by_label("User", exact=True).fill("app")
        page.get_by_label("Password", exact=True).fill("app")
        if keeps:
            page.get_by_label("Keep the login for this tab").check()
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".who")).to_contain_text("APP")
        assert ("headrace.login.account" in page.evaluate("JSON.stringify(sessionStorage)")) is keeps
        page.get_by_role("button", name="Account", exact=True).click()
        page.get_by_role("button", name="Sign out: Account app").click()
        expect(page.get_by_role("heading", name="Sign in to an account")).to_be_visible()
        assert page.evaluate("sessionStorage.length + localStorage.length") == 0


def test_user_who_may_only_look_sees_every_page(console: Console) -> None:
    viewer = console.open(account="viewer", operator="sys")
    for name in PAGES:
        viewer.goto(f"{console.url}#/{name}")
        expect(viewer.locator(f'[data-page="{name}"]').get_by_role("heading").first).to_be_visible()


HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    "\u202egnp.exe\u202c",
    "'\"><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
)


def test_hostile_addresses_are_text(console: Console) -> None:
    """What stands in a link of a stranger is shown, not run; no page breaks."""
    page = console.open(account="app", operator="sys")
    opened: list[str] = []
    page.on("dialog", lambda dialog: (opened.append(dialog.message), dialog.dismiss()))
    for name, text in zip(PAGES, itertools.cycle(HOSTILE), strict=False):
        hostile = quote(text, safe="")
        page.goto(f"{console.url}#/{name}/{hostile}/{hostile}?subject={hostile}&from={hostile}&q={hostile}")
        expect(page.locator(f'[data-page="{name}"]')).not_to_be_empty()
    assert not opened
    assert page.locator("main img[src=x], main script").count() == 0
