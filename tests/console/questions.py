"""Questions of the console that several pages ask, answered as a person does: before something is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

UNDO_MS = 5_100
"""So long it can be taken back."""


def pick(page: Page, name: str) -> None:
    """Choose an action of those behind "More"."""
    page.locator("main").get_by_role("button", name="More").click()
    page.locator(".menu .list").get_by_role("button", name=name, exact=True).click()


def confirm(page: Page, name: str) -> None:
    """Type the name into the question, and let the time for taking it back pass; the page has a clock."""
    question = page.get_by_role("dialog")
    question.get_by_label(f"Type “{name}” to go on").fill(name)
    question.locator("button[type=submit]").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.clock.fast_forward(UNDO_MS)


def danger(page: Page, name: str, typed: str) -> Locator:
    """Press a button and answer its question; gives the dialog."""
    page.get_by_role("button", name=name, exact=True).click()
    page.clock.install()
    confirm(page, typed)
    return page.get_by_role("dialog")


def figure(page: Page, label: str) -> Locator:
    """The value of a figure on the page."""
    return page.locator(".figure", has=page.get_by_text(label, exact=True)).locator(".value")
