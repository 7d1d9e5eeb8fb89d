"""Tables: what a server says of its archive; a server that has none; answers of any shape."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from headrace.client.blocking import connect
from headrace.copying import TableState
from headrace.server.system.tables_state import tables_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from console.conftest import Served

SUBJECT = "$HEADRACE.TABLES.STATE"
HOSTILE = "<img src=x onerror=alert(1)> \u202egnp"


def table(service: str, name: str, last: int, archived: int, error: str = "") -> TableState:
    return TableState(
        service, "APP", name, "messages", f"/tables/{name}", last, archived, rows=7, files=12, bytes=1 << 20,
        last_ns=1_795_939_800 * 10**9, last_error=error,
    )  # fmt: skip


TABLES = [
    table("jetstream", "ORDERS", 120_000, 119_500),
    table("jetstream", "AUDIT", 20, 20),
    table("streaming", HOSTILE, 20, 2, HOSTILE * 1000),
    TableState("jetstream", "APP", "unknown", "messages", "/tables/unknown"),
]


def as_server_answers(tables: list[TableState]) -> bytes:
    """The answer of a server that archives these, but for what is known of every server."""
    server = SimpleNamespace(services=[SimpleNamespace(tables=lambda: tables)], account_services=None)
    return answered(tables_state(server, {}))


def answered(data: object) -> bytes:
    return json.dumps({"server": {"name": "archiver", "id": "NA"}, "data": data}).encode()


@contextmanager
def answering(served: Served, answer: bytes) -> Iterator[None]:
    """A service in the system account, in the place of a server that archives."""
    with connect(f"nats://sys:sys@127.0.0.1:{served.server.port}") as connection:
        connection.subscribe(SUBJECT)
        connection.flush()
        ended = threading.Event()

        def answer_all() -> None:
            while not ended.is_set():
                for message in connection.messages(0.05):
                    connection.publish(message.reply or "nobody", answer)
                    connection.flush()

        thread = threading.Thread(target=answer_all)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@pytest.fixture
def elsewhere(chromium: Browser, nats_server_served: Served) -> Iterator[Console]:
    """A console of nats-server, which does not archive: a test answers in its place."""
    made = Console(chromium, nats_server_served.url, nats_server_served.socket)
    yield made
    made.close()


def row(page: Page, words: str) -> Locator:
    return page.locator("tr[data-key]").filter(has_text=words)


def test_server_without_an_archive_has_a_sentence(any_console: Console) -> None:
    page = any_console.open("#/tables", operator="sys")
    expect(page.get_by_text("No server archives into tables.")).to_be_visible()


def test_account_is_asked_for_the_operators_login(console: Console) -> None:
    page = console.open("#/tables", account="app")
    expect(page.get_by_role("heading", name="Sign in as operator")).to_be_visible()


def test_tables_are_shown_with_what_waits(elsewhere: Console, nats_server_served: Served) -> None:
    with answering(nats_server_served, as_server_answers(TABLES)):
        page = elsewhere.open("#/tables", account="app", operator="sys")
        expect(row(page, "ORDERS")).to_contain_text("500")
        expect(row(page, "ORDERS")).to_contain_text("behind")
        expect(row(page, "AUDIT")).to_contain_text("all is in the table")
        expect(row(page, "failed")).to_contain_text("<img src=x onerror=alert(1)> \\u{202e}gnp")
        expect(row(page, "unknown")).to_contain_text("not known yet")
        expect(page.locator(".figure", has_text="Messages waiting")).to_contain_text("518")
        assert page.locator("img[src=x]").count() == 0
        expect(page.get_by_role("link", name="ORDERS")).to_have_attribute("href", "#/streams/ORDERS")


@pytest.mark.parametrize("answer", [b"no JSON", answered({"tables": 7})], ids=["no JSON", "no tables"])
def test_answer_of_another_shape_is_an_error(
    elsewhere: Console, nats_server_served: Served, answer: bytes
) -> None:
    with answering(nats_server_served, answer):
        page = elsewhere.open("#/tables", account="app", operator="sys")
        expect(page.get_by_text("The answer could not be read.")).to_be_visible()
