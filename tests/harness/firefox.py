"""Firefox without a window, driven by WebDriver BiDi: Playwright drives no Firefox but its own.

Only what tests of the console need: addresses, clicks, keys, questions to a page, and everything that the
page logged, raised, asked for, or that its content security policy refused. Source: W3C WebDriver BiDi.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Queue
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from harness.waiting import LONG, PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from websockets.sync.client import ClientConnection

_NAMES: Final = ("firefox-esr", "firefox")
FIREFOX: Final = next((found for name in _NAMES if (found := shutil.which(name))), None)
_LISTENING: Final = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
_REPORT: Final = "refused by the content security policy"
_WATCH: Final = f"""() => document.addEventListener("securitypolicyviolation", (event) =>
  console.error("{_REPORT}", event.effectiveDirective, event.blockedURI))"""


class BidiError(Exception):
    """A command that the browser refused, with its words."""


@dataclass
class Bidi:
    """One session: commands with their answers, events as they come."""

    socket: ClientConnection
    logged: list[str] = field(default_factory=list)
    """Errors and warnings of pages, and what they raised."""
    asked: list[str] = field(default_factory=list)
    """Addresses that pages asked for."""

    def __post_init__(self) -> None:
        self._number = 0
        self._answers: Queue[dict[str, Any]] = Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self, method: str, **parameters: Any) -> Any:
        """Give the result of a command. Raises: BidiError for a refusal, queue.Empty for no answer."""
        self._number += 1
        self.socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        answer = self._answers.get(timeout=LONG)
        if answer["id"] != self._number or answer["type"] != "success":
            raise BidiError(f"{method}: {answer}")
        return answer["result"]

    def _read(self) -> None:
        try:
            for text in self.socket:
                said = json.loads(text)
                if said["type"] == "event":
                    self._event(said["method"], said["params"])
                else:
                    self._answers.put(said)
        except ConnectionClosed:
            return  # the browser ended, as it was told to; a command that waits has no answer and says so

    def _event(self, method: str, said: dict[str, Any]) -> None:
        if method == "network.beforeRequestSent":
            self.asked.append(said["request"]["url"])
        elif method == "log.entryAdded" and said["level"] in ("error", "warn"):
            self.logged.append(f"{said['level']}: {said['text']}")


@dataclass
class Page:
    """The one tab of a browser."""

    bidi: Bidi
    context: str

    def open(self, url: str) -> None:
        """Go to an address; done when it is loaded, at once where it differs by its fragment only."""
        self.bidi.send("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def evaluate(self, function: str, *arguments: str) -> Any:
        """Give what a function says: a text, a number or a truth. Raises: BidiError for one that raises."""
        return self._call(function, *arguments).get("value")

    def _call(self, function: str, *arguments: str) -> dict[str, Any]:
        said = self.bidi.send(
            "script.callFunction",
            functionDeclaration=function,
            arguments=[{"type": "string", "value": argument} for argument in arguments],
            target={"context": self.context},
            awaitPromise=True,
        )
        if said["type"] != "success":
            raise BidiError(said["exceptionDetails"]["text"])
        result: dict[str, Any] = said["result"]
        return result

    def wait_for(self, selector: str, text: str = "") -> None:
        """Wait until an element is seen with a text in it. Raises: AssertionError, with what is shown."""
        try:
            wait_until(lambda: self.evaluate(_SEEN, selector, text), f"{selector} with {text!r}")
        except AssertionError as error:
            error.add_note(self.evaluate("() => document.body.innerText"))
            raise

    def wait_until_gone(self, text: str) -> None:
        """Wait until a text is in the page no more."""
        gone = "(text) => !document.body.innerText.includes(text)"
        wait_until(lambda: self.evaluate(gone, text), f"{text!r} is gone")

    def click(self, role: str, name: str) -> None:
        """Press an element as a pointer does; the role and the name are those that a screen reader tells."""
        locator = {"type": "accessibility", "value": {"role": role, "name": name}}
        asked = {"context": self.context, "locator": locator}
        nodes = wait_until(
            lambda: self.bidi.send("browsingContext.locateNodes", **asked)["nodes"], f"{role} {name!r}"
        )
        self._press(nodes[0]["sharedId"])

    def fill(self, name: str, text: str) -> None:
        """Type into a field, known by its label."""
        self._press(wait_until(lambda: self._call(_FIELD, name).get("sharedId"), f"field {name!r}"))
        keys = [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]
        self._perform({"type": "key", "id": "keys", "actions": keys})

    def _press(self, node: str) -> None:
        origin = {"type": "element", "element": {"sharedId": node}}
        pressed = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": origin},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._perform({"type": "pointer", "id": "mouse", "actions": pressed})

    def _perform(self, actions: dict[str, Any]) -> None:
        self.bidi.send("input.performActions", context=self.context, actions=[actions])

    def judge(self, origins: set[str]) -> None:
        """Raises: AssertionError for what a page logged, or asked of another origin."""
        assert not self.bidi.logged, "\n".join(self.bidi.logged)
        foreign = [url for url in self.bidi.asked if not _is_of(url, origins)]
        assert not foreign, foreign


_SEEN: Final = """(selector, text) => [...document.querySelectorAll(selector)].some(
  (element) => element.checkVisibility() && element.innerText.includes(text))"""
_FIELD: Final = """(name) => [...document.querySelectorAll("label")].find(
  (label) => label.innerText.trim() === name)?.control ?? null"""
"""A field for passwords has no role that a locator of BiDi knows it by."""


def _is_of(url: str, origins: set[str]) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("about", "data", "blob") or f"{parts.scheme}://{parts.netloc}" in origins


@contextmanager
def firefox(profile: Path) -> Iterator[Page]:
    """Start Firefox with an empty profile; tests are skipped by name where there is none."""
    if FIREFOX is None:
        pytest.skip("no Firefox here: apt-get install firefox-esr")
    command = [
        FIREFOX,
        "--headless",
        "--no-remote",
        "--remote-debugging-port",
        "0",
        "--profile",
        str(profile),
    ]
    log = profile / "stderr.log"
    with log.open("wb") as written, subprocess.Popen(command, stdout=written, stderr=written) as process:
        try:
            found = wait_until(lambda: _LISTENING.search(log.read_text("utf-8")), "Firefox listens", LONG)
            with connect(f"{found[1]}/session", max_size=None, open_timeout=PATIENCE) as socket:
                yield _session(Bidi(socket))
        finally:
            process.terminate()


def _session(bidi: Bidi) -> Page:
    bidi.send("session.new", capabilities={})
    bidi.send("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
    bidi.send("script.addPreloadScript", functionDeclaration=_WATCH)
    [tab] = bidi.send("browsingContext.getTree")["contexts"]
    return Page(bidi, tab["context"])
