"""Tables: what a server says of its archive; a server that has none; answers of any shape."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from headrace.client.blocking import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from console.conftest import Served

SUBJECT = "$HEADRACE.TABLES.STATE"
HOSTILE = "<img src=x onerror=alert(1)> \u202egnp"
TABLES = {
    "tables": [
        {"kind": "stream", "account": "APP", "name": "ORDERS", "last_sequence": 120_000,
         "archived_sequence": 119_500, "files": 12, "bytes": 1 << 20, "last_run": "2026-11-29T08:10:00Z",
         "error": "", "verified": None},
        {"kind": "stream", "account": "APP", "name": "AUDIT", "last_sequence": 20, "archived_sequence": 20,
         "files": 1, "bytes": 3456, "last_run": "2026-11-29T08:10:00Z", "error": None, "verified": None},
        {"kind": "channel", "account": "$G", "name": HOSTILE, "last_sequence": 20, "archived_sequence": 2,
         "files": 1, "bytes": 3456, "last_run": None, "error": HOSTILE * 1000, "verified": None},
        {"kind": "channel", "name": "empty"}, {"name": 7}, None,
    ]
}  # fmt: skip


@contextmanager
def answering(served: Served, answer: bytes) -> Iterator[None]:
    """A service of the account APP, in the place of a server that archives."""
    with connect(f"nats://app:app@127.0.0.1:{served.server.port}") as connection:
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
    page = any_console.open("#/tables", account="app")
    expect(page.get_by_text("No server archives into tables here.")).to_be_visible()


def test_user_without_rights_is_told_which(any_console: Console) -> None:
    page = any_console.open("#/tables", account="nobody")
    expect(page.get_by_text(SUBJECT)).to_be_visible()


def test_tables_are_shown_with_what_waits(elsewhere: Console, nats_server_served: Served) -> None:
    with answering(nats_server_served, json.dumps(TABLES).encode()):
        page = elsewhere.open("#/tables", account="app")
        expect(row(page, "ORDERS")).to_contain_text("500")
        expect(row(page, "ORDERS")).to_contain_text("behind")
        expect(row(page, "AUDIT")).to_contain_text("all is in the table")
        expect(row(page, "failed")).to_contain_text("<img src=x onerror=alert(1)> \\u{202e}gnp")
        expect(row(page, "empty")).to_contain_text("nothing to archive")
        expect(page.locator(".figure", has_text="Messages waiting")).to_contain_text("518")
        assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize("answer", [b"no JSON", b'{"tables": 7}'], ids=str)
def test_answer_of_another_shape_is_an_error(
    elsewhere: Console, nats_server_served: Served, answer: bytes
) -> None:
    with answering(nats_server_served, answer):
        page = elsewhere.open("#/tables", account="app")
        expect(page.get_by_text("The answer could not be read.")).to_be_visible()
