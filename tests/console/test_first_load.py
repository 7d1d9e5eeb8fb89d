"""The first load of the console: its size, and that no part of it is loaded before it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Response

    from harness.browser import Console

LARGEST: Final = 150_000
"""Bytes, as they go over the wire."""


def test_first_load_is_small_and_has_only_the_page_that_is_shown(console: Console) -> None:
    page = console.open()
    page.get_by_label("User", exact=True).wait_for()
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))  # noqa: PLW0108 - Playwright marks it
    page.reload()
    page.get_by_label("User", exact=True).fill("app")
    page.get_by_label("Password", exact=True).fill("app")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    size = sum(int(answer.headers.get("content-length", 0)) for answer in answers)
    assert 40_000 < size < LARGEST, sorted(
        (answer.headers.get("content-length"), answer.url) for answer in answers
    )
    names = {answer.url.rpartition("/")[2] for answer in answers}
    assert "overview.js" in names
    assert "streams.js" not in names
