"""Every page as a person sees it: light, dark, and on a telephone; without a fault that axe finds.

The pictures are those of the documents: `HEADRACE_PICTURES=docs/console` writes them there. People look at
them; a test can say that a page still looks as it does there, that none is wider than its window, that its
colours have contrast, and that nothing is told by a shape alone. Which pictures are compared takes turns:
`make test-deep` compares all.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from console.conftest import served
from console.content import Content
from console.pages import SEEN, name_of
from harness import depth
from harness.pictures import Picture, Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Route

    from console.conftest import Served
    from harness.browser import Console

ROOT: Final = Path(__file__).parents[2]
AXE: Final = ROOT / ".venv" / "console" / "node_modules" / "axe-core" / "axe.min.js"
DOCUMENTS: Final = ROOT / "docs" / "console"
PICTURES: Final = os.environ.get("HEADRACE_PICTURES", "")
MOST_DIFFERENT: Final = 0.2
"""Of the cells with something in them. Other times and counts make a tenth at most, fonts of the same width
nothing; one rule of a style that is missing makes a quarter and more on the page that it is for."""
COMPARED: Final = frozenset(depth.share(tuple(SEEN), 3))

NAMELESS: Final = r"""() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    texts.currentNode.data = texts.currentNode.data.replace(/\/\S*console-headrace\d*/g, "/tmp");
  }
}"""
"""Directories of this machine are none of a document's business."""


@pytest.fixture(scope="module")
def headrace_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of its own: its pages tell of what was done to it."""
    yield from served("headrace", tmp_path_factory)


@pytest.fixture(scope="module")
def content(headrace_served: Served) -> Iterator[None]:
    with Content(headrace_served.server.url, "shop"):
        yield


def opened(console: Console, **options: Any) -> Page:
    return console.open(account="shop", operator="sys", reduced_motion="reduce", **options)


ROWS: Final = "main tbody tr[data-key]"
COMPLETE: Final = {
    **dict.fromkeys(
        ("streams", "consumers", "keyvalue", "objects", "services", "connections", "accounts"), ROWS
    ),
    "overview": ".uplot canvas",
    **dict.fromkeys(("alerts", "server"), ".finding"),
}
"""What is there when a page has all that it shows, of pages whose heading comes earlier."""
NO_FIGURE: Final = re.compile("^–")


def settled(page: Page, console: Console, address: str) -> None:
    page.goto(console.url + address)
    expect(page.locator(f'[data-page="{name_of(address)}"]').get_by_role("heading").first).to_be_visible()
    expect(page.get_by_text("Loading …")).to_have_count(0)
    if name_of(address) in COMPLETE:
        expect(page.locator(COMPLETE[name_of(address)]).first).to_be_visible()
    expect(page.locator(".figure .value", has_text=NO_FIGURE)).to_have_count(0)


@pytest.fixture(scope="module")
def reader(chromium: Browser) -> Iterator[Reader]:
    context = chromium.new_context()
    yield Reader(context.new_page())
    context.close()


@dataclass
class Gallery:
    """Takes pictures; keeps them for the documents, or knows which differ from those that are there."""

    reader: Reader
    folder: Path
    """Where pictures are put that differ."""
    differences: list[str] = field(default_factory=list)

    def take(self, page: Page, name: str, kind: str = "") -> None:
        file = f"{name}{kind}.png"
        if PICTURES:
            page.wait_for_timeout(2_500)  # so that figures have a history in the picture
            (ROOT / PICTURES / file).write_bytes(picture_of(page))
        elif name in COMPARED:
            self._compare(picture_of(page), file)

    def _compare(self, png: bytes, file: str) -> None:
        known = self.reader.read((DOCUMENTS / file).read_bytes())
        differing = known.difference(self.reader.read(png))
        if differing > MOST_DIFFERENT:
            (self.folder / file).write_bytes(png)
            said = f"{differing:.0%} of {self.folder / file} differ from {DOCUMENTS.relative_to(ROOT) / file}"
            self.differences.append(f"{said}; is it meant, write them anew: docs/console-pages.md")


@pytest.fixture
def gallery(reader: Reader, tmp_path: Path) -> Gallery:
    return Gallery(reader, tmp_path)


def picture_of(page: Page) -> bytes:
    """A picture of a whole page, as high as it is."""
    size = page.viewport_size or {"width": 1280, "height": 800}
    height = page.evaluate("document.scrollingElement.scrollHeight")
    page.evaluate(NAMELESS)
    page.set_viewport_size({"width": size["width"], "height": max(height, size["height"])})
    # Lines of charts are drawn in the frame after the one that has the new size.
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    taken = page.screenshot()
    page.set_viewport_size(size)
    return taken


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_fault_that_axe_finds(console: Console, gallery: Gallery, scheme: str) -> None:
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
        gallery.take(page, name, "-dark" if scheme == "dark" else "")
    assert not faults, "\n".join(map(str, faults))
    assert not gallery.differences, "\n".join(gallery.differences)


@pytest.mark.usefixtures("content")
def test_pages_fit_a_telephone(console: Console, gallery: Gallery) -> None:
    page = opened(console, width=360, height=740)
    wide = []
    for name, address in SEEN.items():
        settled(page, console, address)
        width = page.evaluate("document.scrollingElement.scrollWidth")
        if width > 360:
            wide.append((name, width))
        gallery.take(page, name, "-360")
    assert not wide
    assert not gallery.differences, "\n".join(gallery.differences)


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize(
    ("style", "broken"),
    [("blocks", ".figures { display: block !important; }"), ("shell", ".middle { max-width: 600px; }")],
)
def test_broken_layout_is_found(console: Console, reader: Reader, style: str, broken: str) -> None:
    page = opened(console)

    def with_rule(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text() + broken)

    page.route(f"**/{style}.css", with_rule)
    page.reload()
    settled(page, console, SEEN["overview"])
    known = reader.read((DOCUMENTS / "overview.png").read_bytes())
    assert known.difference(reader.read(picture_of(page))) > 1.5 * MOST_DIFFERENT


def picture(*rows: list[list[float]]) -> Picture:
    return Picture(len(rows[0]) * 40, len(rows) * 40, list(rows))


PAPER: Final = [250.0, 250.0, 250.0, 0.0]
TEXT: Final = [220.0, 220.0, 220.0, 30.0]


def test_difference_of_pictures_counts_cells_with_something_only() -> None:
    known = picture([TEXT, PAPER, PAPER], [TEXT, PAPER, PAPER])
    assert known.difference(known) == 0
    assert known.difference(picture([TEXT, PAPER, PAPER], [[215.0, 216.0, 217.0, 33.0], PAPER, PAPER])) == 0
    assert known.difference(picture([TEXT, PAPER, PAPER], [PAPER, TEXT, PAPER])) == 2 / 3
    assert picture([PAPER]).difference(picture([PAPER])) == 0


def test_difference_of_pictures_of_other_sizes_counts_what_one_lacks() -> None:
    known = picture([TEXT, TEXT])
    assert known.difference(picture([TEXT, TEXT], [TEXT, TEXT])) == 1 / 2
    assert known.difference(picture([TEXT])) == 1 / 2
