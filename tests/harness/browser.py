"""Debian's Chromium, headless, driven by Playwright: pages of the console as a person has them.

One browser for all tests of a process; a context, which is like another profile, for each page. What a page
logs, raises and asks for is kept, and a test ends with an error where a page logged one, or asked another
origin.
Playwright's own way to wait for a text of JavaScript does not work under the console's content security
policy (Trusted Types): tests use locators and `expect`.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM: Final = next((found for name in _NAMES if (found := shutil.which(name))), None)
PATIENCE_MS: Final = 30_000
"""Milliseconds for what a busy machine does late."""


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser; tests are skipped by name where there is none."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM)
        yield started
        started.close()


@dataclass
class Watched:
    """Everything that pages of one test logged, raised and asked for."""

    origins: set[str]
    """The origins that a page may ask: its own, and the WebSocket port."""
    logged: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of messages that a test brings about on purpose, such as a refused login."""

    def message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.logged.append(f"{message.type}: {message.text}")

    def error(self, error: Error) -> None:
        self.logged.append(f"raised: {error}")

    def request(self, request: Request) -> None:
        self.asked.append(request.url)

    def judge(self) -> None:
        """Raises: AssertionError with what a page should not have logged, or asked."""
        unexpected = [line for line in self.logged if not any(part in line for part in self.expected)]
        assert not unexpected, "\n".join(unexpected)
        foreign = [url for url in self.asked if not self._is_own(url)]
        assert not foreign, foreign

    def _is_own(self, url: str) -> bool:
        parts = urlsplit(url)
        return parts.scheme in ("data", "blob") or f"{parts.scheme}://{parts.netloc}" in self.origins


@dataclass
class Console:
    """A console at `url` (with a slash at its end), over the WebSocket port at `socket`."""

    chromium: Browser
    url: str
    socket: str
    watched: Watched = field(init=False)
    contexts: list[BrowserContext] = field(default_factory=list)

    def __post_init__(self) -> None:
        page = urlsplit(self.url)
        self.watched = Watched({f"{page.scheme}://{page.netloc}", self.socket})

    def open(
        self,
        address: str = "#/overview",
        *,
        account: str | None = None,
        operator: str | None = None,
        width: int = 1280,
        height: int = 800,
        settings: dict[str, Any] | None = None,
        clock: bool = False,
        **context: Any,
    ) -> Page:
        """Open a page of the console, signed in as the users that are named, whose passwords are their names.

        Without a user the page asks for a login. `settings` of console.json differ from the server's. With
        `clock` the test may move the time of the page; there is no other good moment to take it over.
        """
        made = self.chromium.new_context(viewport={"width": width, "height": height}, **context)
        made.set_default_timeout(PATIENCE_MS)
        self.contexts.append(made)
        page = made.new_page()
        if clock:
            page.clock.install()
        page.on("console", self.watched.message)
        page.on("pageerror", self.watched.error)
        page.on("request", self.watched.request)
        if settings:
            changed = settings
            page.route("**/console.json", lambda route: route.fulfill(json=route.fetch().json() | changed))
        for role, user in (("account", account), ("operator", operator)):
            if user is not None:
                login = json.dumps({"kind": "password", "user": user, "password": user})
                page.add_init_script(f"sessionStorage.setItem('headrace.login.{role}', {json.dumps(login)})")
        page.goto(self.url + address)
        return page

    def close(self) -> None:
        """Close all pages, and judge what they did."""
        for context in self.contexts:
            context.close()
        self.watched.judge()
