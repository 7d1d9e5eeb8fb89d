"""The services page: what instances say, put together; calling an endpoint; answers that are none."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from headrace.client.blocking import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from .conftest import Served

HOSTILE: Final = "<img src=x onerror=document.title='run'>\u202e"


def _info(name: str, number: int, *endpoints: str) -> dict[str, Any]:
    each = [{"name": one.rpartition(".")[2], "subject": one, "queue_group": "q"} for one in endpoints]
    identity = {
        "name": name,
        "id": f"{name}-{number}",
        "version": f"1.0.{number}",
        "metadata": {"team": HOSTILE},
    }
    return identity | {"description": "sums", "endpoints": each}


def _stats(name: str, number: int, *endpoints: str) -> dict[str, Any]:
    figures = {"num_requests": 100 * number, "num_errors": number, "processing_time": 5_000_000 * number}
    found = _info(name, number, *endpoints)
    each = [endpoint | figures | {"last_error": HOSTILE} for endpoint in found["endpoints"]]
    return found | {"started": "2026-01-02T03:04:05.123456789Z", "endpoints": each}


_TOTAL: Final = ("desk.total", "desk.any.*")
ANSWERS: Final[dict[str, list[bytes]]] = {
    "INFO": [json.dumps(_info("desk", number, *_TOTAL)).encode() for number in (1, 2)]
    + [b"no JSON", b'{"name": 7}', json.dumps(_info("other", 1, "other.x")).encode()],
    "STATS": [json.dumps(_stats("desk", number, *_TOTAL)).encode() for number in (1, 2)]
    + [json.dumps({"name": "desk", "id": "desk-2", "endpoints": "none"}).encode()],
    "PING": [json.dumps({"name": "desk", "id": "desk-1", "version": "1.0.1"}).encode()],
}
"""What instances of two services answer, and what no client of the micro framework says."""


class Instances:
    """A client that answers as instances of services would, from a thread of its own."""

    def __init__(self, url: str) -> None:
        self._ended = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(url,))
        self._thread.start()
        assert self._listening.wait(30)

    def _serve(self, url: str) -> None:
        with connect(url) as connection:
            for subject in ("$SRV.>", *_TOTAL):
                connection.subscribe(subject)
            connection.flush()
            self._listening.set()
            while not self._ended.is_set():
                for message in connection.messages(0.05):
                    _, verb, *service = [*message.subject.split("."), ""]
                    for answer in self._answers(verb, service[0]) if message.reply else ():
                        connection.publish(str(message.reply), answer)

    @staticmethod
    def _answers(verb: str, service: str) -> list[bytes]:
        if verb not in ANSWERS:
            return [b'{"sum": 12}']
        return [answer for answer in ANSWERS[verb] if not service or f'"{service}"'.encode() in answer]

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture(scope="module")
def served(headrace_served: Served) -> Iterator[Served]:
    """A server with the services in the account of `other`."""
    instances = Instances(headrace_served.server.url.replace("//", "//other:other@"))
    yield headrace_served
    instances.close()


@pytest.fixture(scope="module")
def page(chromium: Browser, served: Served) -> Iterator[Page]:
    """The services of `other`."""
    console = Console(chromium, served.url, served.socket)
    yield console.open("#/services", account="other")
    console.close()


def test_services_are_put_together_of_their_instances(page: Page) -> None:
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="desk"))
    cells = row.get_by_role("cell")
    expect(cells.nth(1)).to_have_text("1.0.1, 1.0.2")
    expect(cells.nth(2)).to_have_text("2")
    expect(cells.nth(3)).to_have_text("2")
    expect(cells.nth(4)).to_have_text("600")
    expect(cells.nth(6)).to_have_text("6")
    expect(cells.nth(7)).to_have_text("50µs")
    expect(page.get_by_text("2 answers could not be read.")).to_be_visible()


def test_endpoints_and_instances_of_one_and_a_call(page: Page) -> None:
    page.get_by_role("link", name="desk").click()
    endpoints = page.get_by_role("table", name="Endpoints").locator("tbody tr[data-key]")
    expect(endpoints).to_have_count(2)
    expect(endpoints.last).to_contain_text("desk.total")
    expect(endpoints.last).to_contain_text("<img src=x onerror=document.title='run'>\\u{202e}")
    instances = page.get_by_role("table", name="Instances").locator("tbody tr[data-key]")
    expect(instances.first.get_by_role("cell").nth(6)).to_have_text(re.compile(r"^[\d.]+(µs|ms|s)$"))
    expect(instances.last).to_contain_text("no answer")
    endpoints.last.get_by_role("button", name="Call").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Payload", exact=True).fill("[5, 7]")
    dialog.locator("button[type=submit]").click()
    expect(dialog.get_by_text("One answer on desk.total.")).to_be_visible()
    expect(dialog.locator(".json-tree")).to_contain_text("sum: 12")
    page.keyboard.press("Escape")
    expect(page.locator("img")).to_have_count(1)
    assert page.title().startswith("Services")
    page.go_back()
    expect(page.get_by_role("heading", name="Services", level=1)).to_be_visible()


def test_no_service_and_no_such_service_have_their_sentences(any_console: Console) -> None:
    page = any_console.open("#/services", account="plain")
    expect(page.get_by_text("No service answers in this account.")).to_be_visible()
    page.goto(f"{any_console.url}#/services/gone.by")
    expect(page.get_by_text("No instance of “gone.by” answers any more.")).to_be_visible()


def test_user_without_the_right_is_told_the_subject(console: Console) -> None:
    page = console.open("#/services", account="viewer")
    expect(page.get_by_role("alert")).to_contain_text("$SRV.INFO")


@pytest.mark.usefixtures("served")
def test_read_only_console_calls_nothing(console: Console) -> None:
    page = console.open("#/services/desk", account="other", settings={"read_only": True}, width=360)
    expect(page.get_by_role("table", name="Endpoints").locator("tbody tr[data-key]")).to_have_count(2)
    expect(page.get_by_role("button", name="Call")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
