"""The ten tasks of docs/ten-tasks.md with the mouse, as somebody does them who has never seen the console.

A hand counts its clicks, and the fields that it fills; the document says the same figures.
Each task begins signed in, on the overview.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from harness.dearest import in_turn
from headrace.client.blocking import Connection, connect
from headrace.client.errors import ClientError
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.options import ConnectOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page


pytestmark = in_turn("ten tasks by mouse")

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "ten-tasks.md"
SIDES: Final = {"headrace": "nats-server", "nats-server": "headrace"}
"""Each server, and the one that a stream moves to."""
UNDO_MS: Final = 5_100
COUNTED: Final = re.compile(r"^\| (\d+)\. .*\| (\d+) \| (\d+) \|$", re.MULTILINE)


@dataclass
class Hand:
    """What a person does in a page, counted."""

    page: Page
    clicks: int = 0
    fields: int = 0

    def click(self, name: str, *, role: str = "button", within: Locator | None = None) -> None:
        self.press((within or self.page.locator("body")).get_by_role(role, name=name, exact=True))  # type: ignore[arg-type]

    def press(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def type(self, label: str, text: str, *, within: Locator | None = None) -> Locator:
        found = (within or self.page.locator("body")).get_by_label(label, exact=True)
        found.fill(text)
        self.fields += 1
        return found

    def to(self, page: str) -> None:
        """Go to a page by the bar at the side."""
        self.click(page, role="link", within=self.page.get_by_role("navigation", name="Pages"))
        expect(self.page.get_by_role("heading", name=page, level=1)).to_be_visible()

    def part(self, name: str) -> None:
        """Go to a part of the page."""
        parts = self.page.get_by_role("navigation", name="Parts of this page")
        self.press(parts.get_by_role("link", name=name))

    @property
    def form(self) -> Locator:
        return self.page.get_by_role("dialog")

    def row(self, table: str, words: str) -> Locator:
        return self.page.get_by_role("table", name=table).locator("tbody tr[data-key]", has_text=words)

    def needed(self, task: int) -> None:
        """Raises: AssertionError where the document says that a task takes something else."""
        rows = COUNTED.findall(DOCUMENT.read_text(encoding="utf-8"))
        said = {number: (clicks, fields) for number, clicks, fields in rows}
        assert said[str(task)] == (str(self.clicks), str(self.fields))


@dataclass
class Place:
    """A server, its console, and what its programs have."""

    url: str
    console: Console
    elsewhere: Console
    api: JetStreamApi

    def hand(self, *, account: str | None = None, operator: str | None = None, clock: bool = False) -> Hand:
        return Hand(self.console.open(account=account, operator=operator, clock=clock))


@contextmanager
def _flood(place: Place) -> Iterator[None]:
    """Publish to one subject from a client called flooder, meanwhile."""
    is_over = threading.Event()
    with _connect(place.url, "flooder") as client:

        def publish() -> None:
            while not is_over.wait(0.005):
                client.publish(b"orders.flood", b"x")
                client.flush()

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _connect(url: str, name: str = "") -> Connection:
    """A program of the account of `other`."""
    return connect(url.replace("//", "//other:other@"), ConnectOptions(name=name))


@pytest.fixture(scope="module", params=list(SIDES))
def place(request: pytest.FixtureRequest, chromium: Browser) -> Iterator[Place]:
    """A stream of 100 orders, and a consumer of which two messages were taken, in an account of its own."""
    served, other = (
        request.getfixturevalue(f"{side.replace('-', '_')}_served")
        for side in (request.param, SIDES[request.param])
    )
    console, elsewhere = (Console(chromium, one.url, one.socket) for one in (served, other))
    with _connect(served.server.url) as connection, _connect(other.server.url) as beside:
        api = JetStreamApi(connection)
        api.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.new"], "allow_direct": True})
        for number in range(1, 101):
            connection.publish(b"orders.new", json.dumps({"id": number, "item": "tea"}).encode())
        connection.flush()
        config = {"durable_name": "slow", "ack_policy": "explicit"}
        api.ask("CONSUMER.CREATE.ORDERS.slow", {"stream_name": "ORDERS", "config": config})
        inbox = connection.new_inbox()
        taken = connection.subscribe(inbox)
        connection.publish(b"$JS.API.CONSUMER.MSG.NEXT.ORDERS.slow", b'{"batch": 2}', reply=inbox)
        messages = connection.messages(10.0)
        assert [json.loads(next(messages).data)["id"] for _ in range(2)] == [1, 2]
        connection.unsubscribe(taken)
        yield Place(served.server.url, console, elsewhere, api)
        console.close()
        elsewhere.close()
        for one in (api, JetStreamApi(beside)):
            for name in one.ask("STREAM.NAMES", None)["streams"] or ():
                one.ask(f"STREAM.DELETE.{name}", None)


def test_1_publish_and_listen(place: Place) -> None:
    hand = place.hand(account="other")
    hand.to("Live")
    hand.type("Subjects", "hello.>")
    hand.click("Listen")
    hand.click("Publish one")
    form = hand.page.locator("form.compose")
    hand.type("Subject", "hello.you", within=form)
    hand.type("Payload", "hi", within=form)
    hand.press(form.locator("button[type=submit]"))
    expect(hand.row("Messages, the newest first", "hello.you")).to_contain_text("hi")
    hand.needed(1)


def test_2_work_queue_is_made_looked_into_and_drained(place: Place) -> None:
    hand = place.hand(account="other")
    hand.to("Streams")
    hand.click("New stream")
    hand.type("Name", "JOBS", within=hand.form)
    hand.type("Subjects", "jobs.>", within=hand.form)
    hand.form.get_by_label("Messages stay").select_option("workqueue")
    hand.fields += 1
    hand.click("Make the stream", within=hand.form)
    hand.click("Publish")
    hand.type("Subject", "jobs.resize", within=hand.form)
    hand.type("Payload", "cat.png", within=hand.form)
    hand.click("Publish", within=hand.form)
    expect(hand.page.get_by_text("Stored as 1.")).to_be_visible()
    hand.part("Messages")
    expect(hand.row("Messages of the stream", "jobs.resize")).to_contain_text("cat.png")
    hand.part("Consumers")
    hand.click("New consumer")
    hand.type("Name", "workers", within=hand.form)
    hand.click("Make the consumer", within=hand.form)
    hand.click("Take next")
    hand.click("Take one message", within=hand.form)
    expect(hand.form).to_contain_text("cat.png")
    hand.click("Acknowledge", within=hand.form)
    expect(hand.form.get_by_text("Acknowledged: it is done.")).to_be_visible()
    hand.needed(2)
    assert place.api.ask("STREAM.INFO.JOBS", None)["state"]["messages"] == 0


def test_3_message_is_found_by_its_content(place: Place) -> None:
    hand = place.hand(account="other")
    hand.to("Streams")
    hand.click("ORDERS", role="link")
    hand.part("Messages")
    hand.type("Search the contents", "id=73")
    hand.click("Search")
    expect(hand.page.get_by_text("1 found in 100 messages.")).to_be_visible()
    expect(hand.row("Messages of the stream", "orders.new")).to_contain_text('"id": 73')
    hand.needed(3)


def test_4_key_is_watched_while_it_changes(place: Place) -> None:
    hand = place.hand(account="other")
    hand.to("Key-value")
    hand.press(hand.page.get_by_role("button", name="New bucket").first)
    hand.type("Name", "CONFIG", within=hand.form)
    hand.click("Make the bucket", within=hand.form)
    hand.press(hand.page.get_by_role("button", name="New key").first)
    hand.type("Key", "level", within=hand.form)
    hand.type("Value", "debug", within=hand.form)
    hand.click("Set", within=hand.form)
    expect(hand.page.get_by_role("heading", name="level")).to_be_visible()
    place.api.connection.request(b"$KV.CONFIG.level", b"quiet")
    expect(hand.page.locator("main")).to_contain_text("quiet")
    hand.needed(4)


def test_5_why_a_consumer_is_behind(place: Place) -> None:
    hand = place.hand(account="other")
    hand.to("Consumers")
    row = hand.row("Consumers", "slow")
    expect(row).to_contain_text("nobody pulls")
    expect(row.locator("td.number").nth(0)).to_have_text("98")
    expect(row.locator("td.number").nth(2)).to_have_text("2")
    hand.needed(5)


def test_6_who_floods_a_subject(place: Place) -> None:
    with _flood(place):
        hand = place.hand(account="other", operator="sys")
        hand.to("Live")
        hand.type("Subjects", "orders.>")
        hand.click("Listen")
        expect(hand.page.locator(".subject-tree")).to_contain_text("flood")
        hand.to("Connections")
        hand.click("From client")
        first = hand.page.get_by_role("table", name="Connections").locator("tbody tr[data-key]").first
        expect(first).to_contain_text("flooder")
        expect(first).to_contain_text("127.0.0.1")
        hand.needed(6)


def test_7_client_is_kicked(place: Place) -> None:
    hand = place.hand(operator="sys", clock=True)
    with _connect(place.url, "guest") as guest:
        hand.to("Connections")
        hand.press(hand.row("Connections", "guest").get_by_role("link", name="guest"))
        hand.click("Close connection", within=hand.form)
        question = hand.page.get_by_role("dialog", name="Close this connection?")
        asked = question.locator("label")
        hand.type(asked.inner_text(), re.sub(r"\D", "", asked.inner_text()), within=question)
        hand.click("Close connection", within=question)
        expect(hand.page.get_by_role("button", name="Undo")).to_be_visible()
        hand.page.clock.fast_forward(UNDO_MS)
        expect(hand.page.get_by_text("The connection is closed.")).to_be_visible()
        with pytest.raises(ClientError):
            for _ in guest.messages(10.0):
                pass
    hand.needed(7)


def test_8_state_of_the_cluster(place: Place) -> None:
    """Cron has no mouse; the overview says at once what a check would."""
    hand = place.hand(operator="sys")
    expect(hand.page.locator(".sentence")).to_contain_text("The server answers.")
    expect(hand.page.locator(".sentence")).to_contain_text("No consumer falls behind.")
    hand.needed(8)


def test_9_rates_of_the_server_stand_on_the_overview(place: Place) -> None:
    """A browser is no load generator: it shows the rates that `headrace bench`, or anybody, brings about."""
    with _flood(place):
        hand = place.hand(operator="sys")
        figure = hand.page.locator(".figure", has=hand.page.get_by_text("Messages in", exact=True))
        expect(figure.locator(".value")).to_have_text(re.compile(r"[1-9]"))
        hand.needed(9)


def test_10_stream_moves_to_another_server(place: Place, tmp_path: Path) -> None:
    hand = place.hand(account="other")
    hand.to("Streams")
    hand.click("ORDERS", role="link")
    hand.click("More")
    hand.click("Backup")
    with hand.page.expect_download() as found:
        hand.click("Make the backup", within=hand.form)
    path = tmp_path / found.value.suggested_filename
    found.value.save_as(path)

    there = Hand(place.elsewhere.open(account="other"), hand.clicks, hand.fields)
    there.to("Streams")
    there.click("Restore")
    there.form.get_by_label("Files").set_input_files(path)
    there.fields += 1
    there.click("Restore", within=there.form)
    expect(there.page.get_by_text("ORDERS is restored with 100 messages.")).to_be_visible()
    expect(there.page.get_by_role("heading", name="ORDERS", level=1)).to_be_visible()
    there.needed(10)
