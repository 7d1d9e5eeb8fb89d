"""Alerts: what servers told while the tab was open, grouped; what is not right; what a user may not hear."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from harness.javascript import evaluate
from harness.processes import SIDES
from headrace.client.blocking import connect
from headrace.client.errors import ClientError
from headrace.client.options import ConnectOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from console.conftest import Served
    from headrace.client.blocking import Connection

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp"


class Watched(NamedTuple):
    """A console, and the address of its server for the user `app`."""

    console: Console
    port: int

    def connected(self, user: str = "app") -> Connection:
        return connect(f"nats://{user}:{user}@127.0.0.1:{self.port}", ConnectOptions(name=HOSTILE))


@pytest.fixture(params=list(SIDES))
def watched(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    served: Served = request.getfixturevalue(f"{request.param.replace('-', '_')}_served")
    console = Console(chromium, served.url, served.socket)
    yield Watched(console, served.server.port)
    console.close()


def opened(console: Console, fragment: str = "#/alerts", **users: str) -> Page:
    """The page, when it listens: its findings come behind the subscriptions, on the same connection."""
    page = console.open(fragment, **users)
    expect(page.locator(".finding, .status.good, .empty[role=alert]").first).to_be_visible()
    if "operator" in users and "account" in users:
        expect(page.locator(".who")).to_have_count(2)
    return page


def row(page: Page, *words: str) -> Locator:
    found = page.locator("tr[data-key]")
    for each in words:
        found = found.filter(has_text=each)
    return found


def make_and_remove(connection: Connection, name: str, times: int) -> None:
    for _ in range(times):
        document = {"name": name, "subjects": [f"{name}.>"]}
        connection.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(document).encode())
        connection.request(f"$JS.API.STREAM.DELETE.{name}", b"")


def test_events_are_grouped_filtered_and_shown_whole(watched: Watched) -> None:
    page = opened(watched.console, account="app")
    with watched.connected() as connection:
        make_and_remove(connection, "ALERTED", 3)
    created = row(page, "Stream created", "ALERTED")
    expect(created).to_contain_text("3")
    expect(row(page, "Stream deleted", "ALERTED")).to_contain_text("warning")
    created.get_by_text("Stream created").click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("$JS.EVENT.ADVISORY.STREAM.CREATED.ALERTED")
    expect(panel.locator("details")).not_to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Problems").click()
    expect(row(page, "Stream deleted", "ALERTED")).to_be_visible()
    expect(row(page, "Stream created")).to_have_count(0)
    page.go_back()
    expect(row(page, "Stream created", "ALERTED")).to_be_visible()
    page.get_by_role("link", name="Overview").click()
    last = page.locator("section", has=page.get_by_role("heading", name="Last alerts"))
    expect(last.locator("tr", has_text="Stream created")).to_contain_text("ALERTED")
    last.get_by_role("link", name="all").click()
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_text("Nothing has happened since this tab was opened.")).to_be_visible()


def test_operator_sees_refused_logins_and_their_names_do_nothing(watched: Watched) -> None:
    page = opened(watched.console, operator="sys")
    for _ in range(2):
        with pytest.raises(ClientError):
            watched.connected("mallory")
    refused = row(page, "Login refused", "mallory")
    expect(refused.first).to_be_visible()
    expect(refused).to_contain_text("<img src=x onerror=alert(1)> \\u{202e}gnp")
    expect(refused.get_by_role("cell").nth(4)).to_have_text("2")
    assert page.locator("img[src=x]").count() == 0


def test_events_of_one_user_are_not_shown_to_the_next(console: Console, headrace_served: Served) -> None:
    page = opened(console, account="app")
    with Watched(console, headrace_served.server.port).connected() as connection:
        make_and_remove(connection, "PRIVATE", 1)
    expect(row(page, "Stream created", "PRIVATE")).to_be_visible()
    page.get_by_role("button", name="Account", exact=True).click()
    page.get_by_role("button", name="Sign out: Account app").click()
    page.get_by_label("User", exact=True).fill("other")
    page.get_by_label("Password", exact=True).fill("other")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("in OTHER")).to_be_visible()
    expect(page.get_by_text("Nothing has happened since this tab was opened.")).to_be_visible()


def test_kind_without_events_has_a_sentence(console: Console) -> None:
    page = opened(console, "#/alerts?kind=leaders", account="other")
    expect(page.get_by_text("Nothing of this kind has happened.")).to_be_visible()
    expect(page.get_by_role("button", name="Leaders")).to_have_attribute("aria-pressed", "true")


def test_user_who_may_not_listen_is_told_to_what(watched: Watched) -> None:
    page = watched.console.open("#/alerts", account="nobody")
    expect(page.get_by_text("Your user may not listen to")).to_contain_text("$JS.EVENT.ADVISORY.STREAM.>")


def test_flood_is_counted_and_not_read(console: Console, headrace_served: Served) -> None:
    page = opened(console, account="app")
    with connect(f"nats://app:app@127.0.0.1:{headrace_served.server.port}") as connection:
        for number in range(5000):
            connection.publish(f"$JS.EVENT.METRIC.FLOOD.{number % 7}", b'{"text": "' + b"x" * 100 + b'"}')
        connection.publish("$JS.EVENT.METRIC.STRANGE", b"\xff\xfe no JSON")
        connection.flush()
    expect(page.get_by_text("events were only counted")).to_be_visible()
    expect(row(page, "FLOOD.3")).to_be_visible()


def test_sound_is_off_until_it_is_switched_on(console: Console) -> None:
    page = opened(console, account="other")
    page.get_by_role("button", name="A sound for each new problem: off").click()
    expect(page.get_by_role("button", name="A sound for each new problem: on")).to_be_visible()
    assert "sound" not in page.evaluate("JSON.stringify(localStorage)")


# -- what is not drawn -------------------------------------------------------------------------------------

GROWS = """
const history = new it.LagHistory();
for (const [minute, pending] of samples) history.add(minute * 60000, pending);
return history.isGrowing && history.growth;
"""


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([(0, 1), (1, 2), (2, 3), (3, 3), (4, 5), (5, 9)], [1, 9]),
        ([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], False),
        ([(0, 1), (2, 5), (3, 4), (5, 9)], False),
        ([(0, 7), (3, 7), (6, 7)], False),
        ([(0, 1), (3, 8), (8, 8), (9, 8)], False),
        ([(0, 0), (10, 5), (15, 6)], [5, 6]),
        ([], False),
    ],
    ids=["grows", "too short", "fell meanwhile", "the same", "stands still", "goes on", "nothing known"],
)
def test_lag_that_grows_for_five_minutes_is_found(
    samples: list[tuple[int, int]], expected: list[int] | bool
) -> None:
    assert evaluate("data/lag_history.js", GROWS, samples=samples) == expected


def test_ends_of_connections_are_told_apart() -> None:
    told = evaluate(
        "data/event_kinds.js",
        """return reasons.map((reason) => it.told("$SYS.ACCOUNT.APP.DISCONNECT", { reason, client: { name: "c" } })?.what ?? null)""",  # noqa: E501
        reasons=["Client Closed", "Slow Consumer (Pending Bytes)", "Stale Connection", "Kicked", ""],
    )
    assert told == [None, "SLOW_CONSUMER", "STALE", "KICKED", None]


def test_events_of_any_shape_are_told_or_left_out() -> None:
    told = evaluate(
        "data/event_kinds.js",
        """
        const subjects = ["$JS.EVENT.ADVISORY.", "$JS.EVENT.ADVISORY.API", "$JS.EVENT.ADVISORY.STREAM.CREATED", "$JS.EVENT.METRIC.CONSUMER.ACK.", "$SYS.SERVER.X.SHUTDOWN",
            "$SYS.SERVER.X.STATSZ", "$SYS.ACCOUNT.A.LEAFNODE.CONNECT", "$SYS.SERVER.X.CLIENT.AUTH.ERR", "$SYS.SERVER", "x"];
        const documents = [{}, { client: null }, { stream: 7, server: "s", reason: {} }, { text: "x" }];
        return subjects.map((subject) => documents.map((document) => it.told(subject, document)?.what ?? null));
        """,  # noqa: E501
    )
    assert told[1] == told[5] == [None] * 4
    assert set(told[2]) == {"STREAM.CREATED"}
    assert set(told[4]) == {"SHUTDOWN"}
