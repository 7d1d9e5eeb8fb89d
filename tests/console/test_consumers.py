"""The pages of consumers: how far each is, peek, next and its answers, pause, reset, edit, delete; rights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from console.questions import confirm, figure, pick
from harness.browser import Console
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from .conftest import Served


@pytest.fixture(scope="module", params=["headrace", "nats-server"])
def api(request: pytest.FixtureRequest) -> Iterator[JetStreamApi]:
    """JetStream's API in the account of `app`, with a stream and a work queue; of a server of each kind."""
    served: Served = request.getfixturevalue(f"{request.param.replace('-', '_')}_served")
    with connect(served.server.url.replace("//", "//app:app@")) as connection:
        api = JetStreamApi(connection)
        for name, config in (
            ("READ", {"allow_direct": True}),
            ("WORK", {"retention": "workqueue"}),
            ("LOST", {}),
        ):
            api.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"], **config})
        for number in range(1, 11):
            for name in ("read", "work"):
                connection.request(f"{name}.{number % 2}".encode(), f'{{"n": {number}}}'.encode())
        yield api


@pytest.fixture
def pages(request: pytest.FixtureRequest, chromium: Browser, api: JetStreamApi) -> Iterator[Console]:
    """The console of the same server."""
    served: Served = request.getfixturevalue(
        f"{request.node.callspec.params['api'].replace('-', '_')}_served"
    )
    made = Console(chromium, served.url, served.socket)
    yield made
    made.close()


def make(api: JetStreamApi, stream: str, name: str, **config: Any) -> None:
    full = {"durable_name": name, "ack_policy": "explicit", **config}
    api.ask(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": full})


def info(api: JetStreamApi, stream: str, name: str) -> dict[str, Any]:
    return api.ask(f"CONSUMER.INFO.{stream}.{name}", None)


@pytest.mark.parametrize("api", ["headrace"], indirect=True)
def test_consumer_is_made_edited_with_the_difference_and_deleted(pages: Console, api: JetStreamApi) -> None:
    page = pages.open("#/streams/LOST/consumers", account="app", clock=True)
    expect(page.get_by_text("This stream has no consumer.")).to_be_visible()
    page.get_by_role("button", name="New consumer").first.click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("worker")
    form.get_by_label("Only subjects that match").fill("lost.a\nlost.b")
    form.get_by_label("Begins at").select_option("by_start_sequence")
    form.get_by_label("Waits between deliveries").fill("1s, soon")
    form.get_by_role("button", name="Make the consumer").click()
    expect(form.get_by_text("A sequence, a time or how long ago is needed.")).to_be_visible()
    expect(form.get_by_text("A duration such as 30s")).to_be_visible()
    form.get_by_label("From", exact=True).fill("3")
    form.get_by_label("Waits between deliveries").fill("1s, 10s")
    form.get_by_label("Delivered at most").fill("4")
    form.get_by_role("button", name="Make the consumer").click()
    expect(page.get_by_role("heading", name="worker", level=1)).to_be_visible()
    config = info(api, "LOST", "worker")["config"]
    assert config["backoff"] == [10**9, 10**10]
    assert (config["opt_start_seq"], config["max_deliver"]) == (3, 4)
    assert config["filter_subjects"] == ["lost.a", "lost.b"]

    pick(page, "Edit")
    form = page.get_by_role("dialog")
    form.get_by_label("Unacked at most").fill("5")
    form.get_by_role("button", name="Show the changes").click()
    expect(page.locator(".changes tbody tr")).to_have_text(["max_ack_pending10005"])
    page.get_by_role("button", name="Change the consumer").click()
    expect(page.get_by_text("Consumer worker is changed.")).to_be_visible()
    assert info(api, "LOST", "worker")["config"]["max_ack_pending"] == 5

    pick(page, "Delete")
    confirm(page, "worker")
    expect(page.get_by_text("This stream has no consumer.")).to_be_visible()


def test_peek_takes_nothing_of_a_work_queue_and_next_takes_one(pages: Console, api: JetStreamApi) -> None:
    make(api, "WORK", "odd", filter_subject="work.1", max_deliver=3)
    page = pages.open("#/consumers/WORK/odd", account="app")
    expect(figure(page, "Unprocessed")).to_have_text("5")
    page.get_by_role("button", name="Peek").click()
    items = page.get_by_role("dialog").locator(".message-item")
    expect(items).to_have_count(5)
    expect(items.first).to_contain_text("not delivered yet")
    items.first.locator("summary").click()
    expect(items.first).to_contain_text("n: 1")
    page.keyboard.press("Escape")
    assert info(api, "WORK", "odd")["num_pending"] == 5

    page.get_by_role("button", name="Take next").click()
    dialog = page.get_by_role("dialog")
    for answer, words in (
        ("Refuse", "it comes again"),
        ("Acknowledge", "it is done"),
        ("Give up", "it does not come again"),
    ):
        dialog.get_by_role("button", name="Take one message").click()
        expect(dialog.get_by_text("Without an answer it is delivered again after 30s.")).to_be_visible()
        dialog.get_by_role("button", name=answer).click()
        expect(dialog.get_by_text(words)).to_be_visible()
    page.keyboard.press("Escape")
    expect(figure(page, "Unprocessed")).to_have_text("3")
    found = info(api, "WORK", "odd")
    assert (found["num_pending"], found["num_ack_pending"]) == (3, 0)
    assert found["delivered"]["consumer_seq"] == 3


def test_consumer_is_paused_resumed_and_reset(pages: Console, api: JetStreamApi) -> None:
    make(api, "READ", "paused")
    page = pages.open("#/consumers/READ/paused", account="app")
    page.get_by_role("button", name="Pause").click()
    form = page.get_by_role("dialog")
    form.get_by_label("For how long").fill("yesterday")
    form.get_by_role("button", name="Pause").click()
    expect(form.get_by_text("A duration such as 2h")).to_be_visible()
    form.get_by_label("For how long").fill("2h")
    form.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("paused is paused.")).to_be_visible()
    expect(page.locator(".figure .status", has_text="paused")).to_be_visible()
    assert info(api, "READ", "paused")["paused"]
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()

    page.get_by_role("button", name="Take next").click()
    page.get_by_role("dialog").get_by_role("button", name="Take one message").click()
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("Acknowledged: it is done.")).to_be_visible()
    page.keyboard.press("Escape")
    page.clock.install()
    pick(page, "Reset")
    page.get_by_role("dialog").get_by_label("Begin at sequence").fill("1")
    page.get_by_role("button", name="Go on").click()
    confirm(page, "paused")
    expect(page.get_by_text("paused began again.")).to_be_visible()
    assert info(api, "READ", "paused")["num_pending"] == 10


@pytest.mark.parametrize("api", ["headrace"], indirect=True)
def test_consumers_of_all_streams_are_in_one_table_with_their_lag(pages: Console, api: JetStreamApi) -> None:
    make(api, "READ", "table")
    make(api, "READ", "pushed", deliver_subject="push.table")
    page = pages.open("#/consumers", account="app")
    row = page.get_by_role("table", name="Consumers").locator(
        "tr", has=page.get_by_role("link", name="table", exact=True)
    )
    expect(row).to_contain_text("nobody pulls")
    lag = row.locator("td").nth(4)
    expect(lag).not_to_have_text("…")
    expect(lag).not_to_have_text("–")
    pushed = page.get_by_role("table", name="Consumers").locator(
        "tr", has=page.get_by_role("link", name="pushed")
    )
    expect(pushed).to_contain_text("nobody listens")
    pushed.get_by_role("link", name="pushed").click()
    next_one = page.get_by_role("button", name="Take next")
    expect(next_one).to_be_disabled()
    expect(next_one).to_have_attribute(
        "title", "This is a push consumer: the server sends to its subject, nobody takes."
    )


def test_dead_letters_lead_to_the_stream_that_keeps_them(console: Console, headrace_served: Served) -> None:
    with connect(headrace_served.server.url.replace("//", "//app:app@")) as connection:
        api = JetStreamApi(connection)
        api.ask("STREAM.CREATE.LETTERS", {"name": "LETTERS", "subjects": ["letters.>"]})
        api.ask("STREAM.CREATE.MAIL", {"name": "MAIL", "subjects": ["mail.>"]})
        make(api, "MAIL", "sender", metadata={"headrace.dead_letter_subject": "letters.mail"})
        connection.request(b"letters.mail", json.dumps({"given": "up"}).encode())
    page = console.open("#/consumers/MAIL/sender", account="app")
    page.get_by_role("link", name="kept in LETTERS").click()
    expect(page.get_by_role("table", name="Messages of the stream")).to_contain_text('{"given": "up"}')


@pytest.mark.parametrize("api", ["headrace"], indirect=True)
def test_viewer_may_look_and_nothing_else(pages: Console, api: JetStreamApi) -> None:
    make(api, "READ", "seen")
    page = pages.open("#/consumers/READ/seen", account="viewer")
    for name in ("Take next", "Pause"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()
    page.get_by_role("button", name="Peek").click()
    expect(page.get_by_role("dialog").locator(".message-item")).to_have_count(10)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More").click()
    expect(page.locator(".menu .list").get_by_role("button", name="Delete", exact=True)).to_be_disabled()


@pytest.mark.parametrize("api", ["headrace"], indirect=True)
def test_read_only_console_offers_to_look_only(pages: Console, api: JetStreamApi) -> None:
    make(api, "READ", "looked")
    page = pages.open("#/consumers/READ/looked", account="app", settings={"read_only": True})
    expect(figure(page, "Unprocessed")).to_have_text("10")
    expect(page.locator("main .page-head button")).to_have_count(0)
    page.goto(f"{pages.url}#/streams/READ/messages?seq=1")
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("button", name="Download")).to_be_visible()
    expect(panel.get_by_role("button", name="Delete")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("main .page-head button")).to_have_count(0)
    page.goto(f"{pages.url}#/streams")
    expect(page.get_by_role("table", name="Streams")).to_contain_text("READ")
    expect(page.locator("main .page-head button")).to_have_count(0)
