"""The frame of all pages: signing in as each kind of user, addresses, keys, what is kept where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from harness.browser import Console


def test_user_signs_in_and_sees_who_they_are(any_console: Console) -> None:
    page = any_console.open()
    page.get_by_label("User", exact=True).fill("app")
    page.get_by_label("Password", exact=True).fill("app")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".who")).to_contain_text("in APP · read and write")
    link = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Overview")
    expect(link).to_have_attribute("aria-current", "page")
    kept = page.evaluate("[JSON.stringify(localStorage), JSON.stringify(sessionStorage), location.href]")
    assert not any('"app"' in text for text in kept)


def test_wrong_password_is_told_and_the_next_attempt_waits(any_console: Console) -> None:
    any_console.watched.expected.append("WebSocket")
    page = any_console.open()
    page.get_by_label("User", exact=True).fill("app")
    page.get_by_label("Password", exact=True).fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").filter(has_text="refused")).to_be_visible()
    expect(page.get_by_role("button", name="Wait 1 s")).to_be_disabled()
    expect(page.get_by_role("button", name="Sign in")).to_be_enabled()


def test_system_user_becomes_the_operator(any_console: Console) -> None:
    page = any_console.open(account="sys")
    expect(page.locator(".who")).to_contain_text("Operator")
    page.goto(f"{any_console.url}#/streams")
    expect(page.get_by_role("heading", name="Sign in to an account")).to_be_visible()


@pytest.mark.parametrize("fragment", ["#/nowhere", "#/%", "#/streams/%E0%A4%A", "#//..//overview?x=%"])
def test_strange_addresses_break_nothing(console: Console, fragment: str) -> None:
    page = console.open(fragment, account="app")
    expect(page.locator("main")).not_to_be_empty()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("find")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_theme_is_kept_and_nothing_else(console: Console) -> None:
    page = console.open(account="app")
    page.get_by_role("button", name="Theme: as the system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("JSON.stringify(localStorage)") == '{"headrace.theme":"dark"}'
