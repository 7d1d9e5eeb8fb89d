"""What all lists have: their filter and their order stand in the address, and the window holds them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from console.content import Content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from console.conftest import Served
    from harness.browser import Console

LISTS: Final = {
    "#/streams": "Messages",
    "#/streams/ORDERS/consumers": "Consumer",
    "#/consumers": "Consumer",
    "#/keyvalue": "Keys",
    "#/objects": "Size",
    "#/objects/files": "Size",
    "#/services": "Requests",
    "#/connections": "Subs",
    "#/accounts": "Subs",
    "#/server": "Connections",
}
"""Addresses of lists, and a column by which each is not sorted at first."""


@pytest.fixture(scope="module")
def content(headrace_served: Served) -> Iterator[None]:
    with Content(headrace_served.server.url, "shop"):
        yield


def order(page: Page, column: str) -> str | None:
    head = page.locator("main").get_by_role("columnheader", name=column, exact=True)
    return head.get_attribute("aria-sort")


@pytest.mark.usefixtures("content")
def test_filter_and_order_of_every_list_are_kept_by_its_address(console: Console) -> None:
    page = console.open("#/overview", account="shop", operator="sys")
    wrong = []
    for address, column in LISTS.items():
        page.goto(console.url + address)
        main = page.locator("main")
        heading = main.get_by_role("columnheader", name=column, exact=True).get_by_role("button")
        heading.click()
        heading.click()
        main.get_by_role("searchbox", name="Filter").fill("s")
        expect(page).to_have_url(re.compile(r"[?&]find=s$"))
        sent, shown = page.url, order(page, column)
        page.goto(f"{console.url}#/overview")
        page.go_back()
        expect(main.get_by_role("searchbox", name="Filter")).to_have_value("s")
        expect(main.get_by_role("columnheader", name=column, exact=True)).to_be_visible()
        expect(page).to_have_url(sent)
        if shown is None or order(page, column) != shown:
            wrong.append((address, sent, page.url, shown, order(page, column)))
    assert not wrong


@pytest.mark.usefixtures("content")
def test_link_that_is_sent_shows_the_same_list(console: Console) -> None:
    page = console.open("#/streams", account="shop")
    page.get_by_role("columnheader", name="Messages").get_by_role("button").click()
    page.get_by_role("searchbox", name="Filter").fill("OR")
    rows = page.locator("main tbody tr[data-key]")
    expect(rows).to_have_count(2)  # ORDERS and WORK
    keys = rows.evaluate_all("(rows) => rows.map((row) => row.dataset.key)")
    expect(page).to_have_url(f"{console.url}#/streams?sort=messages&direction=down&find=OR")
    other = console.open(page.url.removeprefix(console.url), account="shop")
    expect(other.locator("main tbody tr[data-key]")).to_have_count(2)
    found = other.locator("main tbody tr[data-key]")
    assert found.evaluate_all("(rows) => rows.map((row) => row.dataset.key)") == keys
    page.get_by_role("searchbox", name="Filter").fill("")
    page.get_by_role("columnheader", name="Stream").get_by_role("button").click()
    expect(page).to_have_url(f"{console.url}#/streams")


def test_order_that_no_list_has_is_the_usual_one(console: Console) -> None:
    page = console.open(
        "#/streams?sort=nothing&direction=sideways&find=%3Cb%3E", account="app", operator="sys"
    )
    expect(page.get_by_role("searchbox", name="Filter")).to_have_value("<b>")
    page.goto(f"{console.url}#/accounts?sort=who&direction=down")  # a column that is not sorted by
    expect(page.get_by_role("columnheader", name="Account")).to_have_attribute("aria-sort", "ascending")


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize("state", ["open", "closed"])
def test_connections_do_not_scroll_sideways(console: Console, state: str) -> None:
    page = console.open(f"#/connections?state={state}", account="shop", operator="sys")
    expect(page.locator("main tbody tr[data-key]").first).to_be_visible()
    box = page.locator(".table-box.windowed")
    assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") == 0
