"""Connections: who is there, page by page, what goes over one, closing them; what each login may do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from harness.console_files import ConsoleFiles
from harness.javascript import evaluate
from harness.mqtt_servers import mqtt_port
from harness.mqtt_wire import MqttWire
from harness.processes import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from console.conftest import Served
    from harness.wire import Wire

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp"
UNDO_MS = 6_000


class Seen(NamedTuple):
    """A console, and the server that it is of."""

    console: Console
    served: Served

    def client(self, name: str, *subjects: str, user: str = "app") -> Wire:
        """A connection with a name and subscriptions that the server has heard of."""
        said = {"verbose": False, "pedantic": False, "name": name, "user": user, "pass": user, "protocol": 1}
        wire = self.served.server.connect(json.dumps(said).encode())
        for sid, subject in enumerate(subjects, 1):
            wire.send(f"SUB {subject} {sid}\r\n".encode())
        wire.sync()
        return wire


@pytest.fixture(params=list(SIDES))
def seen(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Seen]:
    served: Served = request.getfixturevalue(f"{request.param.replace('-', '_')}_served")
    console = Console(chromium, served.url, served.socket)
    yield Seen(console, served)
    console.close()


def row(page: Page, name: str) -> Locator:
    return page.locator("tr[data-key]", has=page.get_by_role("link", name=name, exact=True))


def test_operator_closes_connections_each_named_before_and_can_take_it_back(seen: Seen) -> None:
    with seen.client("kick-one") as one, seen.client("kick-two", user="other") as two:
        page = seen.console.open("#/connections", operator="sys")
        expect(row(page, "kick-one")).to_contain_text("APP")
        page.clock.install()
        for name in ("kick-one", "kick-two"):
            row(page, name).get_by_role("checkbox").click()
        page.get_by_role("button", name="Close 2").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("kick-one (id ")
        expect(dialog).to_contain_text("kick-two (id ")
        go = dialog.get_by_role("button", name="Close 2")
        expect(go).to_be_disabled()
        dialog.get_by_label("Type “2 connections” to go on").fill("2 connections")
        go.click()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("Nothing was sent.")).to_be_visible()
        one.sync()

        page.get_by_role("button", name="Close 2").click()
        dialog.get_by_label("Type “2 connections” to go on").fill("2 connections")
        go.click()
        expect(page.get_by_text("2 connections are about to be closed.")).to_be_visible()
        page.clock.fast_forward(UNDO_MS)
        expect(page.get_by_text("2 connections are closed.")).to_be_visible()
        one.take_rest()  # ends when the server has closed it
        two.take_rest()
    page.get_by_role("button", name="Closed", exact=True).click()
    expect(row(page, "kick-one")).to_contain_text("Kicked")


def test_a_client_over_mqtt_is_called_by_its_identifier(seen: Seen) -> None:
    with MqttWire(mqtt_port(seen.served.server), "sensor-7", user="app", password="app") as client:
        client.subscribe("rooms/#", 1)
        page = seen.console.open("#/connections", operator="sys")
        row(page, "sensor-7").get_by_role("link", name="sensor-7").click()

        expect(page.get_by_text("MQTT client")).to_be_visible()
        expect(page.get_by_text("rooms.>", exact=True)).to_be_visible()


def test_details_show_subscriptions_and_the_lame_duck_reaches_the_client(seen: Seen) -> None:
    with seen.client(HOSTILE, "orders.>", "<b>.x") as wire:
        page = seen.console.open("#/connections", operator="sys")
        shown = "<img src=x onerror=alert(1)> \\u{202e}gnp"
        row(page, shown).get_by_role("link", name=shown).click()
        panel = page.get_by_role("dialog")
        expect(panel.get_by_role("heading", name=shown)).to_be_visible()
        expect(panel.get_by_text("orders.>", exact=True)).to_be_visible()
        expect(panel.get_by_text("<b>.x", exact=True)).to_be_visible()
        cid = page.url.rpartition("/")[2].partition("?")[0]
        page.clock.install()
        panel.get_by_role("button", name="Send lame duck").click()
        page.get_by_label(f"Type “{cid}” to go on").fill(cid)
        page.get_by_role("button", name="Send lame duck").last.click()
        page.clock.fast_forward(UNDO_MS)
        assert b'"ldm":true' in wire.take_through(b'"ldm":true')
        page.reload()
        expect(page.get_by_role("dialog").get_by_role("heading", name=shown)).to_be_visible()
    expect(page.get_by_role("dialog").get_by_text("closed", exact=True)).to_be_visible()


def test_account_sees_its_own_connections_and_closes_none(seen: Seen) -> None:
    with seen.client("mine"), seen.client("theirs", user="other"):
        page = seen.console.open("#/connections", account="app")
        expect(row(page, "mine")).to_be_visible()
        expect(row(page, "theirs")).to_have_count(0)
        expect(page.get_by_text("An operator’s login sees all accounts")).to_be_visible()
        expect(page.locator("tbody input[type=checkbox]")).to_have_count(0)
        row(page, "mine").get_by_role("link").click()
        expect(page.get_by_role("dialog").get_by_text("It has no subscriptions.")).to_be_visible()
        expect(page.get_by_role("button", name="Close connection")).to_have_count(0)


def test_user_without_the_right_is_told_the_subject_and_is_asked_no_more(seen: Seen) -> None:
    page = seen.console.open("#/connections", account="nobody")
    expect(page.get_by_text("$SYS.REQ.ACCOUNT.PING.CONNZ")).to_be_visible()
    expect(page.locator("table")).to_be_hidden()


def test_servers_filter_by_account_user_and_subject(seen: Seen) -> None:
    with seen.client("heard", "filter.by.this"), seen.client("deaf", "another"):
        page = seen.console.open("#/connections?account=APP&subject=filter.by.this", operator="sys")
        expect(row(page, "heard")).to_be_visible()
        expect(row(page, "deaf")).to_have_count(0)
        user = page.get_by_label("User", exact=True)
        user.fill("no-such-user")
        user.press("Enter")
        expect(page.get_by_text("No connection is like that.")).to_be_visible()
        page.get_by_role("link", name="Show all").click()
        expect(row(page, "deaf")).to_be_visible()
        expect(page.get_by_label("Subscribed to")).to_be_disabled()


def test_console_that_is_read_only_closes_nothing(chromium: Browser, nats_server_served: Served) -> None:
    with ConsoleFiles(nats_server_served.socket, read_only=True) as files:
        console = Console(chromium, files.url, nats_server_served.socket)
        seen = Seen(console, nats_server_served)
        with seen.client("looked-at"):
            page = console.open("#/connections", operator="sys")
            expect(row(page, "looked-at")).to_be_visible()
            expect(page.locator("tbody input[type=checkbox]")).to_have_count(0)
            row(page, "looked-at").get_by_role("link").click()
            expect(page.get_by_role("dialog").get_by_text("open", exact=True)).to_be_visible()
            expect(page.get_by_role("button", name="Close connection")).to_have_count(0)
        console.close()


PAGES = """
    const numbers = (count) => [...Array(count).keys()];
    const all = { A: numbers(400).map((cid) => 2 * cid), B: numbers(300).map((cid) => 2 * cid + 1) };
    const answer = (id, { offset = 0, limit }) => {
        const connections = all[id].slice(offset, offset + limit).map((cid) => ({ cid }));
        const data = { total: all[id].length, offset, num_connections: connections.length, connections };
        return { server: { id, name: id }, data };
    };
    const link = {
        askAll: async (subject, options) => Object.keys(all).map((id) => answer(id, options)),
        askJson: async (subject, options) => answer(subject.split(".")[3], options),
    };
    const compare = (a, b) => a.cid - b.cid;
    const pages = [];
    let offsets = undefined;
    do {
        const page = await it.clientsOfAll(link, {}, { offsets, compare });
        pages.push(page.clients.map((client) => client.cid));
        offsets = page.next;
    } while (offsets && pages.length < 10);
    return pages;
"""


def test_pages_of_two_servers_have_each_connection_once_in_their_order() -> None:
    pages = evaluate("nats/connections.js", PAGES)
    assert [len(page) for page in pages] == [256, 256, 188]
    everybody = [cid for page in pages for cid in page]
    assert everybody == sorted({*range(0, 800, 2), *range(1, 600, 2)})


def test_order_of_merging_is_that_of_the_servers() -> None:
    client = {
        "in_msgs": 0,
        "out_msgs": 0,
        "in_bytes": 0,
        "out_bytes": 0,
        "subscriptions": 0,
        "pending_bytes": 0,
    }
    few, many = {**client, "cid": 1, "pending_bytes": 5}, {**client, "cid": 2, "pending_bytes": 50}
    body = "return [it.comparison('pending')(few, many) > 0, it.comparison('cid')(few, many) < 0]"
    assert evaluate("pages/connections/orders.js", body, few=few, many=many) == [True, True]
