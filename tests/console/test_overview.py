"""The first page: of an account, of all servers, of a server that nobody has used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from harness.browser import Console


def test_account_sees_its_own_figures_and_that_they_are_its_own(any_console: Console) -> None:
    page = any_console.open(account="app")
    expect(page.get_by_text("These are the figures of account APP.")).to_be_visible()
    expect(page.locator(".sentence")).to_contain_text("The account answers.")
    expect(figure(page, "Connections")).not_to_have_text("–")
    expect(figure(page, "JetStream storage")).to_contain_text("B")


def test_operator_sees_the_servers_and_their_rates(any_console: Console) -> None:
    page = any_console.open(operator="sys")
    expect(page.locator(".sentence")).to_contain_text("The server answers.")
    expect(figure(page, "Messages in")).to_contain_text("/s")
    connections = page.locator("section", has_text="pending bytes")
    expect(connections.get_by_role("link", name="headrace console")).not_to_have_count(0)
    page.locator("summary", has_text="As a table").first.click()
    expect(page.get_by_role("columnheader", name="Time").first).to_be_visible()


def test_unused_account_is_shown_three_lines_and_a_button_that_does_them(any_console: Console) -> None:
    page = any_console.open(account="other")
    expect(page.get_by_text("headrace sub 'hello.>'")).to_be_visible()
    page.get_by_role("button", name="Do it here").click()
    expect(page.get_by_text("“hi” arrived on hello.you")).to_be_visible()


def test_account_without_jetstream_says_so(any_console: Console) -> None:
    page = any_console.open(account="plain")
    expect(page.get_by_text("JetStream is not enabled in this account.").first).to_be_visible()
    expect(page.get_by_text("JetStream is off")).to_be_visible()


def test_user_without_rights_is_told_which(any_console: Console) -> None:
    page = any_console.open(account="nobody")
    expect(page.get_by_text("Your user has no right to this.").first).to_be_visible()
    expect(page.get_by_text("$JS.API.STREAM.LIST").first).to_be_visible()


def figure(page: Page, label: str) -> Locator:
    return page.locator(".figure", has_text=label).locator(".value")
