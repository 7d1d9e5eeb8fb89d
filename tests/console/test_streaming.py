"""Streaming: channels, clients and durables of NATS Streaming; browsing, purging, removing, adopting."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from harness.console_files import ConsoleFiles
from harness.processes import EPOLL, ServerProcess
from headrace.client import stan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from playwright.sync_api import Browser, Locator, Page

HOSTILE = b"<img src=x onerror=alert(1)> \xe2\x80\xaegnp"
CLUSTER = "orders"
CONFIG = f"""
websocket {{ listen: "127.0.0.1:-1", no_tls: true }}
jetstream {{ store_dir: "js" }}
streaming {{ cluster_id: {CLUSTER}, store: FILE, dir: stan, adopt {{ adopted: ADOPTED }} }}
authorization {{ users: [
    {{ user: app, password: app }}
    {{ user: viewer, password: viewer, permissions {{
        publish: ["$SYS.REQ.USER.INFO", "_STAN.admin.*.channels", "_STAN.admin.*.report", "_STAN.replay.*"]
        subscribe: ["_INBOX.>"] }} }}
    {{ user: nobody, password: nobody
       permissions {{ publish: {{ deny: [">"] }}, subscribe: ["_INBOX.>"] }} }}
] }}
"""


class StreamingServed:
    """A server with channels, and the files of its console."""

    def __init__(self, server: ServerProcess, files: ConsoleFiles, socket: str) -> None:
        self.server = server
        self.files = files
        self.socket = socket

    @property
    def url(self) -> str:
        return f"nats://app:app@127.0.0.1:{self.server.port}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamingServed]:
    folder = tmp_path_factory.mktemp("streaming-console")
    with ServerProcess(EPOLL, folder, config=CONFIG) as server:
        socket = server.wait_for_line(r"Listening for websocket clients on (ws://\S+)").group(1)
        with ConsoleFiles(socket) as files, ThreadPoolExecutor(1) as threads:
            made = StreamingServed(server, files, socket)
            threads.submit(asyncio.run, _fill(made.url)).result()
            yield made


async def _fill(url: str) -> None:
    """120 messages in `browsed`, 5 in `purged` and `removed` and `adopted`, which has an offline durable."""
    async with await stan.connect(CLUSTER, "reader", servers=url) as client:
        for number in range(119):
            await client.publish_async("browsed", b'{"number": %d}' % number)
        await client.publish("browsed", HOSTILE)
        for channel in ("purged", "removed", "adopted"):
            for number in range(5):
                await client.publish(channel, b"%d" % number)
        durable = await client.subscribe(
            "adopted", durable_name="work", start_at=stan.StartPosition.FIRST, manual_acks=True
        )
        async for message in durable:
            if message.sequence == 2:
                await message.ack()
            if message.sequence == 5:
                break


@pytest.fixture
def streaming(chromium: Browser, served: StreamingServed) -> Iterator[Console]:
    made = Console(chromium, served.files.url, served.socket)
    yield made
    made.close()


def rows(page: Page) -> Locator:
    return page.locator("tr[data-key]")


def figure(page: Page, label: str) -> Locator:
    return page.locator(".figure", has_text=label).locator(".value")


def opened(console: Console, channel: str, **context: Any) -> Page:
    return console.open(f"#/streaming/{CLUSTER}/{channel}", account="app", **context)


def confirm(page: Page, name: str, verb: str) -> None:
    """Type the name. The request is sent when nobody has taken it back for five seconds (`later`)."""
    dialog = page.get_by_role("dialog").filter(has_text="Type")
    dialog.get_by_role("textbox").fill(name)
    dialog.get_by_role("button", name=verb).click()


def later(page: Page) -> None:
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.clock.fast_forward(6_000)


def test_server_without_streaming_has_a_sentence(any_console: Console) -> None:
    page = any_console.open("#/streaming", account="app")
    expect(page.get_by_text("No NATS Streaming answers in this account.")).to_be_visible()
    page.get_by_label("Cluster ID").fill("or ders")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("A cluster ID has letters")).to_be_visible()
    page.get_by_label("Cluster ID").fill("elsewhere")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("No NATS Streaming with the cluster ID elsewhere")).to_be_visible()


def test_channels_are_listed_and_browsed_from_any_sequence(streaming: Console) -> None:
    page = streaming.open("#/streaming?choose=1", account="app")
    page.get_by_label("Cluster ID").fill(CLUSTER)
    page.get_by_role("button", name="Open").click()
    expect(rows(page).filter(has_text="browsed")).to_contain_text("120")
    page.get_by_role("link", name="browsed").click()
    expect(page.get_by_text("Sequences 71 to 120, newest first")).to_be_visible()
    newest = rows(page).first
    expect(newest).to_contain_text("<img src=x onerror=alert(1)> \\u{202e}gnp")
    assert page.locator("img[src=x]").count() == 0
    newest.get_by_text("120", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("<img src=x onerror=alert(1)>")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text("Sequences 21 to 70, newest first")).to_be_visible()
    expect(page).to_have_url(re.compile("from=21$"))
    page.get_by_placeholder("From sequence").fill("1")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.get_by_text("Sequences 1 to 50, newest first")).to_be_visible()
    page.get_by_placeholder("From sequence").fill("-7")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.get_by_text("Sequences 1 to 50, newest first")).to_be_visible()


def test_clients_are_those_with_subscriptions(streaming: Console) -> None:
    page = streaming.open(f"#/streaming/{CLUSTER}?tab=clients", account="app")
    expect(rows(page)).to_contain_text(["reader"])


@pytest.mark.parametrize("channel", ["gone", "%3Cimg%20src%3Dx%3E", "a.%3E", "%FF"])
def test_channel_that_is_not_there_is_told_so(streaming: Console, channel: str) -> None:
    page = opened(streaming, channel)
    expect(page.get_by_role("alert")).to_be_visible()


def test_purge_keeps_what_it_should_and_can_be_taken_back(streaming: Console) -> None:
    page = opened(streaming, "purged", clock=True)
    expect(figure(page, "Messages")).to_have_text("5")
    page.get_by_role("button", name="Purge").click()
    page.get_by_label("Keep the last").fill("many")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("A whole number, or nothing.")).to_be_visible()
    page.get_by_label("Keep the last").fill("2")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("Up to 3 messages are removed")).to_be_visible()
    confirm(page, "purged", "Purge")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Nothing was sent.")).to_be_visible()
    expect(figure(page, "Messages")).to_have_text("5")
    page.get_by_role("button", name="Purge").click()
    page.get_by_label("Keep the last").fill("2")
    page.get_by_role("button", name="Go on").click()
    confirm(page, "purged", "Purge")
    later(page)
    expect(figure(page, "Messages")).to_have_text("2")
    expect(page.get_by_text("Sequences 4 to 5, newest first")).to_be_visible()


def test_removed_channel_is_left(streaming: Console) -> None:
    page = opened(streaming, "removed", clock=True)
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("5 messages", exact=False).first).to_be_visible()
    confirm(page, "removed", "Delete")
    later(page)
    expect(page).to_have_url(re.compile(f"#/streaming/{CLUSTER}$"))
    expect(rows(page).filter(has_text="browsed")).to_be_visible()
    expect(rows(page).filter(has_text="removed")).to_have_count(0)


def test_durable_goes_over_to_jetstream(streaming: Console) -> None:
    page = opened(streaming, "adopted")
    durable = rows(page).filter(has_text="work")
    expect(durable).to_contain_text("offline")
    durable.get_by_role("button", name="Adopt").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the consumer").fill("a.b")
    dialog.get_by_role("button", name="Adopt").click()
    expect(dialog.get_by_text("Letters, digits, - and _.")).to_be_visible()
    dialog.get_by_label("Name of the consumer").fill("WORK")
    dialog.get_by_role("button", name="Adopt").click()
    expect(
        page.get_by_text("It is consumer WORK of stream ADOPTED now, with 4 messages pending.")
    ).to_be_visible()
    expect(page.get_by_text("Nobody subscribes to this channel.")).to_be_visible()


def test_user_who_may_only_look_finds_actions_greyed_out(streaming: Console) -> None:
    page = streaming.open(f"#/streaming/{CLUSTER}/browsed", account="viewer")
    expect(figure(page, "Messages")).to_have_text("120")
    for name in ("Purge", "Delete"):
        action = page.get_by_role("button", name=name)
        expect(action).to_be_disabled()
        expect(action).to_have_attribute("title", re.compile("may not publish to _STAN.admin"))


def test_user_without_rights_is_told_which(streaming: Console) -> None:
    page = streaming.open(f"#/streaming/{CLUSTER}", account="nobody")
    expect(page.get_by_text("Your user has no right to this.")).to_be_visible()
    expect(page.get_by_text(f"_STAN.admin.{CLUSTER}.channels")).to_be_visible()


def test_read_only_console_has_no_actions(chromium: Browser, served: StreamingServed) -> None:
    with ConsoleFiles(served.socket, read_only=True) as files:
        console = Console(chromium, files.url, served.socket)
        page = opened(console, "browsed")
        expect(figure(page, "Messages")).to_have_text("120")
        expect(page.get_by_role("button", name=re.compile("Purge|Remove|Adopt"))).to_have_count(0)
        console.close()
