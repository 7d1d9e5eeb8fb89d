"""Tables: what a server says of its archive; a server that has none; answers of any shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from harness.browser import Console


def test_server_without_an_archive_has_a_sentence(any_console: Console) -> None:
    page = any_console.open("#/tables", account="app")
    expect(page.get_by_text("No server archives into tables here.")).to_be_visible()


def test_user_without_rights_is_told_which(any_console: Console) -> None:
    page = any_console.open("#/tables", account="nobody")
    expect(page.get_by_text("$HEADRACE.TABLES.STATE")).to_be_visible()
