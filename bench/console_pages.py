"""Pages of the console in Chromium, and what the browser says of them: tasks, memory, when rows are there.

Never here: what is loaded beside them (`bench.console`).
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
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

    def __init__(self, page: Any) -> None:
        self._page = page
        self._inspector = page.context.new_cdp_session(page)

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

    def rest(self, ms: float) -> None:
        """Let the page be for so long."""
        self._page.wait_for_timeout(ms)

    def touch(self) -> None:
        """Press a key that does nothing: a tab that nobody touches for half an hour signs out."""
        self._page.keyboard.press("Shift")

    def memory(self) -> dict[str, float]:
        """The tab as it is, with what waits for the collector: heap, nodes and listeners of its documents,
        and what its process has to itself.
        """
        counted = self._inspector.send("Memory.getDOMCounters")
        heap = self._inspector.send("Runtime.getHeapUsage")["usedSize"] / (1 << 20)
        return {
            "heap_mib": heap,
            "nodes": counted["nodes"],
            "listeners": counted["jsEventListeners"],
            "private_mib": _private_kib(self._process()) / 1024,
        }

    def kept_heap_mib(self) -> float:
        """Collect the garbage; gives the heap that is left."""
        self._inspector.send("HeapProfiler.collectGarbage")
        used: int = self._inspector.send("Runtime.getHeapUsage")["usedSize"]
        return used / (1 << 20)

    def _process(self) -> int:
        """The process of the tab: of those that draw pages the one that worked most."""
        inspector = self._page.context.browser.new_browser_cdp_session()
        told = inspector.send("SystemInfo.getProcessInfo")["processInfo"]
        inspector.detach()
        drawing = [process for process in told if process["type"] == "renderer"]
        return int(max(drawing, key=lambda process: process["cpuTime"])["id"])


def _private_kib(pid: int) -> int:
    """Memory that no file backs, with what is swapped out: what browsers tell of a tab."""
    told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines())
    return sum(int(told[name].split()[0]) for name in ("RssAnon", "VmSwap"))


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
        yield Page(page)
        context.close()
