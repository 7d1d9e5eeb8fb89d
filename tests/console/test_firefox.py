"""Every page in Firefox: nothing that it logs or refuses, a sign-in by hand, a message that is seen.

`make test-deep` plays it, where there is a Firefox: the console is written for Chromium and Firefox alike,
and what only one of them knows is found here before a release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from console.content import Content
from console.pages import SEEN, name_of
from harness import depth
from harness.firefox import FIREFOX, firefox
from headrace.client.blocking import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.conftest import Served
    from harness.firefox import Page

pytestmark = [
    pytest.mark.skipif(FIREFOX is None, reason="no Firefox here: apt-get install firefox-esr"),
    pytest.mark.skipif(not depth.deep, reason="Firefox is for make test-deep"),
]


@pytest.fixture(scope="module")
def page(headrace_served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A tab that signed in by hand: as a user of an account, and as an operator."""
    with Content(headrace_served.server.url, "shop"), firefox(tmp_path_factory.mktemp("firefox")) as made:
        made.open(f"{headrace_served.url}#/streams")
        sign_in(made, "shop")
        made.wait_for("h1", "Streams")
        made.open(f"{headrace_served.url}#/server")
        sign_in(made, "sys")
        made.wait_for('[data-page="server"] h1')
        yield made


def sign_in(page: Page, user: str) -> None:
    page.fill("User", user)
    page.fill("Password", user)
    page.click("button", "Sign in")


def test_every_page_is_shown_by_its_address(page: Page, headrace_served: Served) -> None:
    for address in SEEN.values():
        page.open(headrace_served.url + address)
        page.wait_for(f'[data-page="{name_of(address)}"] :is(h1, h2)')
        page.wait_until_gone("Loading …")
    page.judge({headrace_served.url.removesuffix("/console/"), headrace_served.socket})


def test_message_that_somebody_publishes_is_seen_in_the_tail(page: Page, headrace_served: Served) -> None:
    page.open(f"{headrace_served.url}#/live?subject=firefox.%3E")
    page.wait_for('[data-page="live"]', "0 messages")
    with connect(headrace_served.server.url.replace("//", "//shop:shop@")) as client:
        client.publish("firefox.hello", b"seen by a fox")
        client.flush()
        page.wait_for("main td", "seen by a fox")


def test_policy_that_refuses_something_is_noticed(page: Page, headrace_served: Served) -> None:
    """What the other tests rest on: an error of the page, and a report of its policy, are told."""
    page.open(f"{headrace_served.url}#/overview")
    page.evaluate(
        """() => new Promise((told) => {
            document.addEventListener("securitypolicyviolation", () => setTimeout(told, 0), { once: true });
            const image = document.createElement("img");
            image.src = "http://127.0.0.1:9/x.png";
            document.body.append(image);
        })"""
    )
    with pytest.raises(AssertionError, match="refused by the content security policy img-src"):
        page.judge(set())
    page.bidi.logged.clear()
    page.bidi.asked.clear()
