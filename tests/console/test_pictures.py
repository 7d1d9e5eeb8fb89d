"""Every page as a person sees it: light, dark, and on a telephone; without a fault that axe finds.

The pictures are those of the documents: `HEADRACE_PICTURES=docs/console` writes them there. People look at
them; a test can say that no page is wider than its window, that its colours have contrast, and that nothing
is told by a shape alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from console.content import Content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from console.conftest import Served
    from harness.browser import Console

ROOT: Final = Path(__file__).parents[2]
AXE: Final = ROOT / ".venv" / "console" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES: Final = os.environ.get("HEADRACE_PICTURES", "")

NAMELESS: Final = r"""() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    texts.currentNode.data = texts.currentNode.data.replace(/\/\S*console-headrace\d*/g, "/tmp");
  }
}"""
"""Directories of this machine are none of a document's business."""

SEEN: Final = {
    "overview": "#/overview",
    "live": "#/live?subject=orders.%3E",
    "alerts": "#/alerts",
    "streams": "#/streams",
    "stream": "#/streams/ORDERS",
    "consumers": "#/consumers",
    "keyvalue": "#/keyvalue/settings",
    "objects": "#/objects/files",
    "services": "#/services",
    "streaming": "#/streaming",
    "pipelines": "#/pipelines",
    "tables": "#/tables",
    "connections": "#/connections",
    "accounts": "#/accounts",
    "map": "#/map",
    "server": "#/server",
}
"""Pictures and the addresses of what they show."""


@pytest.fixture(scope="module")
def content(headrace_served: Served) -> Iterator[None]:
    with Content(headrace_served.server.url, "shop"):
        yield


def opened(console: Console, **options: Any) -> Page:
    return console.open(account="shop", operator="sys", reduced_motion="reduce", **options)


def settled(page: Page, console: Console, address: str) -> None:
    page.goto(console.url + address)
    name = address.removeprefix("#/").partition("?")[0].partition("/")[0]
    expect(page.locator(f'[data-page="{name}"]').get_by_role("heading").first).to_be_visible()
    expect(page.get_by_text("Loading …")).to_have_count(0)


def keep(page: Page, name: str) -> None:
    if PICTURES:
        page.wait_for_timeout(2_500)  # so that figures have a history in the picture
        size = page.viewport_size or {"width": 1280, "height": 800}
        height = page.evaluate("document.scrollingElement.scrollHeight")
        page.evaluate(NAMELESS)
        page.set_viewport_size({"width": size["width"], "height": max(height, size["height"])})
        page.wait_for_timeout(300)
        page.screenshot(path=ROOT / PICTURES / f"{name}.png")
        page.set_viewport_size(size)


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_fault_that_axe_finds(console: Console, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not here: npm is missing")
    page = opened(console, color_scheme=scheme)
    axe = AXE.read_text(encoding="utf-8")
    faults = []
    for name, address in SEEN.items():
        settled(page, console, address)
        page.evaluate(axe)
        found = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then("
            "({violations}) => violations.map(({id, nodes}) => [id, nodes[0].html, nodes[0].failureSummary]))"
        )
        faults += [(name, *each) for each in found]
        keep(page, f"{name}-{scheme}" if scheme == "dark" else name)
    assert not faults, "\n".join(map(str, faults))


@pytest.mark.usefixtures("content")
def test_pages_fit_a_telephone(console: Console) -> None:
    page = opened(console, width=360, height=740)
    wide = []
    for name, address in SEEN.items():
        settled(page, console, address)
        width = page.evaluate("document.scrollingElement.scrollWidth")
        if width > 360:
            wide.append((name, width))
        keep(page, f"{name}-360")
    assert not wide
