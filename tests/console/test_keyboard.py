"""The console without a mouse: from signing in to a deleted message by keys, with the focus in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from harness.browser import Console

    from .conftest import Served

UNDO_MS = 5_100
MOST_TABS = 60
SEEN = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return "nothing has the focus";
  // A page drawn anew while Tab was pressed has the focus itself; no line stands around all of it.
  if (one.id === "page") return "";
  const { outlineStyle, outlineWidth } = getComputedStyle(one);
  const { width, height, top, bottom } = one.getBoundingClientRect();
  if (!one.matches(":focus-visible")) return `${one.outerHTML.slice(0, 80)}: the focus is not to be seen`;
  if (outlineStyle === "none" || outlineWidth === "0px") return `${one.outerHTML.slice(0, 80)}: no outline`;
  const isInSight = width && height && bottom >= 0 && top <= innerHeight;
  if (!isInSight) return `${one.outerHTML.slice(0, 80)}: out of sight`;
  return "";
}"""
NAME = """() => {
  const one = document.activeElement;
  return one?.getAttribute("aria-label") || one?.labels?.[0]?.textContent || one?.textContent?.trim() || "";
}"""


@pytest.fixture(scope="module")
def api(headrace_served: Served) -> Iterator[JetStreamApi]:
    """A stream of three messages in the account of `app`."""
    with connect(headrace_served.server.url.replace("//", "//app:app@")) as connection:
        api = JetStreamApi(connection)
        config = {"name": "BYKEYS", "subjects": ["bykeys.>"], "allow_direct": True}
        api.ask("STREAM.CREATE.BYKEYS", config)
        for number in range(1, 4):
            connection.request(f"bykeys.{number}", b"x")
        yield api


def focused(page: Page) -> str:
    """Return the name of what has the focus. Raises: AssertionError where one does not see it."""
    assert page.evaluate(SEEN) == ""
    return str(page.evaluate(NAME))


def tab_to(page: Page, name: str) -> None:
    """Go on with Tab until something has the focus that begins so; see the focus all the way."""
    passed = []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        passed.append(focused(page))
        if passed[-1].startswith(name):
            return
    raise AssertionError(f"Tab does not lead to {name!r}: {passed}")


def test_message_is_opened_and_deleted_by_keys_alone(console: Console, api: JetStreamApi) -> None:
    page = console.open("#/overview")
    page.clock.install()
    expect(page.get_by_label("User", exact=True)).to_be_focused()
    page.keyboard.type("app")
    tab_to(page, "Password")
    page.keyboard.type("app")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()

    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("link", name="BYKEYS")).to_be_visible()
    tab_to(page, "Filter")
    page.keyboard.type("bykeys")
    tab_to(page, "BYKEYS")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="BYKEYS", level=1)).to_be_visible()

    tab_to(page, "Messages")
    page.keyboard.press("Enter")
    rows = page.get_by_role("table", name="Messages of the stream").locator("tbody tr[data-key]")
    expect(rows).to_have_count(3)
    tab_to(page, "3")
    page.keyboard.press("ArrowDown")
    assert focused(page).startswith("2")
    page.keyboard.press("Enter")
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("bykeys.2")
    tab_to(page, "Delete")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Type “2” to go on")).to_be_focused()
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.clock.fast_forward(UNDO_MS)
    expect(page.get_by_text("The message is deleted.")).to_be_visible()
    expect(rows).to_have_count(2)
    assert focused(page)
    assert api.ask("STREAM.INFO.BYKEYS", None)["state"]["messages"] == 2


def test_link_in_a_table_keeps_the_focus_when_its_rows_are_drawn_anew(
    console: Console, api: JetStreamApi
) -> None:
    page = console.open("#/streams", account="app")
    link = page.get_by_role("link", name="BYKEYS", exact=True)
    link.focus()
    count = page.locator("tr[data-key=BYKEYS] td").nth(1)
    before = int(count.inner_text())
    api.connection.request("bykeys.more", b"x")
    expect(count).to_have_text(str(before + 1))
    expect(link).to_be_focused()
