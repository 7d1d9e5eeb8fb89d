"""What a tab did, for who looks back; and the search on top, which leads there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from harness.browser import Console


def test_tab_lists_what_it_did_and_what_was_refused(any_console: Console) -> None:
    page = any_console.open("#/live", account="app")
    publish(page, "own.<b>\u202eactions")
    command(page, "did")
    dialog = page.get_by_role("dialog", name="What this tab did")
    row = dialog.get_by_role("row", name="Publish a message")
    expect(row).to_contain_text("own.<b>\\u{202e}actions")
    expect(row).to_contain_text("app · APP")
    expect(row).to_contain_text("done")


def test_refused_action_is_listed_with_the_reason(console: Console) -> None:
    page = console.open("#/overview", account="other")
    page.get_by_role("button", name="Do it here").click()
    expect(page.get_by_text("“hi” arrived on hello.you")).to_be_visible()
    page.goto(f"{console.url}#/streams")
    page.get_by_role("button", name="New stream").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("refused")
    dialog.get_by_label("Subjects").fill("$JS.API.>")
    dialog.get_by_role("button", name="Make the stream").click()
    expect(dialog.get_by_role("alert").filter(has_text="The server said no.")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Account", exact=True).click()
    page.get_by_role("button", name="What this tab did").click()
    rows = page.get_by_role("dialog").locator("tbody tr[data-key]")
    expect(rows.first).to_contain_text("Make a stream")
    expect(rows.first).to_contain_text("failed The server said no.")
    expect(rows.nth(1)).to_contain_text("hello.you")


def test_tab_that_only_read_says_so(console: Console) -> None:
    page = console.open("#/streams", account="viewer")
    expect(page.get_by_role("heading", name="Streams")).to_be_visible()
    command(page, "did")
    expect(page.get_by_text("This tab has changed nothing.")).to_be_visible()


def test_search_leads_to_connections_and_commands(console: Console) -> None:
    page = console.open("#/overview", account="app")
    command(page, "dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page).to_have_url(f"{console.url}#/overview")
    search = find(page, "headrace console")
    search.press("Enter")
    expect(page).to_have_url(f"{console.url}#/connections?find=headrace+console")
    expect(page.get_by_role("searchbox", name="Filter")).to_have_value("headrace console")


def find(page: Page, words: str) -> Locator:
    page.get_by_role("navigation", name="Pages").wait_for()
    page.keyboard.press("/")
    search = page.get_by_role("combobox", name="Find")
    search.fill(words)
    expect(page.get_by_role("option").first).to_be_visible()
    return search


def command(page: Page, words: str) -> None:
    """Run the command that has the words, from the search on top."""
    find(page, words)
    page.get_by_role("option").filter(has_text="Command").click()


def publish(page: Page, subject: str) -> None:
    page.get_by_role("button", name="Publish").first.click()
    form = page.locator(".live-writing")
    form.get_by_label("Subject", exact=True).fill(subject)
    form.locator("button[type=submit]").click()
    expect(page.get_by_text("Published 0 B")).to_be_visible()
