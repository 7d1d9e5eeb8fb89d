"""Pages of the console in Chromium, and what the browser says of them: tasks, memory, when rows are there.

Never here: what is loaded beside them (`bench.console`).
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_WATCH: Final = """
window.__tasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.__tasks.push(entry.duration);
}).observe({ type: "longtask", buffered: true });
"""
"""The browser tells of tasks over 50 ms only."""
_SCROLL: Final = """async (box) => {
  for (let step = 0; step < 60; step += 1) {
    box.scrollTop += box.scrollHeight / 60;
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 30)));
  }
}"""


class Page:
    """One page of a console, signed in as a user of an account and as an operator."""

    def __init__(self, page: Any, url: str) -> None:
        self._page = page
        self._url = url

    def wait_for(self, selector: str) -> None:
        self._page.locator(selector).first.wait_for()

    def forget(self) -> None:
        """Begin anew with what is told of tasks."""
        self._page.evaluate("void (window.__tasks.length = 0)")

    def shown_after(self, address: str, selector: str) -> float:
        """Go to another page of the console; gives ms until something of it is there."""
        began = time.perf_counter()
        self._page.evaluate("(address) => { location.hash = address }", address)
        self.wait_for(selector)
        return (time.perf_counter() - began) * 1e3

    def scroll(self, selector: str) -> None:
        """Scroll a list from its beginning to its end."""
        self._page.locator(selector).first.evaluate(_SCROLL)

    def figures(self) -> dict[str, float]:
        """The longest task since `forget`, in ms (0: none over 50), and the heap of the tab."""
        longest, heap = self._page.evaluate(
            "[Math.max(0, ...window.__tasks), performance.memory.usedJSHeapSize]"
        )
        return {"longest_task_ms": longest, "heap_mib": heap / (1 << 20)}


class Browser:
    """Chromium without a window; a context manager. Raises: BenchError where there is none."""

    def __init__(self) -> None:
        found = next((path for name in _NAMES if (path := shutil.which(name))), None)
        if found is None:
            raise BenchError("no Chromium: apt-get install chromium")
        self._program = found

    def __enter__(self) -> Self:
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        # Memory as it is, not rounded for the sake of privacy.
        arguments = ["--enable-precise-memory-info"]
        self._browser = self._playwright.chromium.launch(executable_path=self._program, args=arguments)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._browser.close()
        self._playwright.stop()

    @contextmanager
    def page(self, url: str, address: str) -> Iterator[Page]:
        """Open a console at an address, signed in as `app` and `sys`, whose passwords are their names."""
        context = self._browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.add_init_script(_WATCH)
        for role, user in (("account", "app"), ("operator", "sys")):
            login = json.dumps({"kind": "password", "user": user, "password": user})
            page.add_init_script(f"sessionStorage.setItem('headrace.login.{role}', {json.dumps(login)})")
        page.goto(url + address)
        yield Page(page, url)
        context.close()
