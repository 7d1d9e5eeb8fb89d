"""The live page: a tail of subjects, publishing, requests, traces; hostile text, rights, a gap."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from headrace.client.blocking import Connection, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from .conftest import Served


def _at(page: Page, address: str) -> Page:
    """Lead a page that is signed in to another address, as a link does."""
    page.goto(f"{page.url.partition('#')[0]}{address}")
    expect(page.get_by_role("heading", name="Live", level=1)).to_be_visible()
    return page


def _listening(page: Page, subject: str, **query: str) -> Page:
    """Have a page listen: what is published from now on comes."""
    _at(page, f"#/live?{urlencode({'subject': subject, **query})}")
    expect(page.get_by_label("Subjects", exact=True)).to_have_value(subject)
    expect(page.locator(".live-status")).to_contain_text("listening")
    # A request and its answer go the same way as the subscription: it is known by then.
    page.get_by_role("button", name="Publish", exact=True).click()
    _send(page, "$SYS.REQ.USER.INFO", ask=True)
    expect(page.locator(".answers > li")).to_have_count(1)
    page.get_by_role("button", name="Close the form").click()
    return page


def _send(page: Page, subject: str, payload: str = "", *, ask: bool = False) -> Locator:
    """Fill the form of a message and send it; gives the form."""
    form = page.locator("form.compose")
    form.get_by_role("group", name="What to do").get_by_role(
        "button", name="Ask" if ask else "Publish"
    ).click()
    form.get_by_label("Subject", exact=True).fill(subject)
    form.get_by_label("Payload", exact=True).fill(payload)
    form.locator("button[type=submit]").click()
    return form


def _rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Messages").locator("tbody tr[data-key]")


@pytest.fixture(scope="module")
def page(chromium: Browser, headrace_served: Served) -> Iterator[Page]:
    """One page of `app` for most tests, which lead it to addresses of their own."""
    console = Console(chromium, headrace_served.url, headrace_served.socket)
    yield console.open("#/live", account="app")
    console.close()


@pytest.fixture(scope="module")
def app(headrace_served: Served) -> Iterator[Connection]:
    """A client of the account of `app`, beside the page."""
    with connect(headrace_served.server.url.replace("//", "//app:app@")) as connection:
        yield connection


def test_published_message_comes_in_the_tail_and_is_published_again_edited(any_console: Console) -> None:
    page = any_console.open("#/live?subject=live.trip.%3E", account="app")
    expect(page.get_by_text("No message has come yet.")).to_be_visible()
    page.get_by_role("button", name="Publish", exact=True).click()
    page.locator("form.compose").get_by_label("Headers").fill("Kind: test\nKind: again")
    form = _send(page, "live.trip.one", '{"total": 5, "who": {"name": "Ana"}}')
    expect(form.get_by_text("Published 36 B to live.trip.one")).to_be_visible()
    expect(_rows(page)).to_have_count(1)
    _rows(page).first.click()
    panel = page.get_by_role("dialog")
    expect(panel.locator(".headers dd")).to_have_text(["test", "again"])
    expect(panel.locator(".json-tree")).to_contain_text('name: "Ana"')
    panel.get_by_role("button", name="Publish again, edited").click()
    expect(form.get_by_label("Headers")).to_have_value("Kind: test\nKind: again")
    expect(form.get_by_label("Payload", exact=True)).to_have_value('{"total": 5, "who": {"name": "Ana"}}')
    _send(page, "live.trip.two", "edited")
    expect(_rows(page).first).to_contain_text("live.trip.two")
    tree = page.locator(".subject-tree")
    expect(tree.locator("li", has_text="trip").first).to_contain_text("2")
    assert "#/live/publish?subject=live.trip." in page.url


def test_requests_show_their_answers_or_that_nobody_is_there(any_console: Console) -> None:
    page = any_console.open("#/live/publish?kind=request&to=%24SYS.REQ.USER.INFO", account="app")
    form = page.locator("form.compose")
    form.locator("button[type=submit]").click()
    expect(form.get_by_text("One answer on $SYS.REQ.USER.INFO.")).to_be_visible()
    expect(form.locator(".answers .json-tree")).to_contain_text("APP")
    _send(page, "live.nobody", ask=True)
    expect(form.get_by_role("alert").filter(has_text="Nobody answers there.")).to_be_visible()
    expect(form.locator(".answers > li")).to_have_count(0)
    expect(form.locator(".command")).to_contain_text("headrace request live.nobody")


def test_all_answers_of_a_request(page: Page, app: Connection) -> None:
    sid = app.subscribe("live.many")
    app.flush()
    _at(page, "#/live/publish?kind=request&to=live.many")
    form = page.locator("form.compose")
    form.get_by_role("group", name="Answers").get_by_role("button", name="All").click()
    form.locator("button[type=submit]").click()
    request = next(app.messages(10.0))
    assert request.reply is not None
    assert not request.headers, "a service sees what the person wrote, and no header of the console"
    for number in range(3):
        app.publish(
            request.reply, b"%d" % number, headers={"Nats-Service-Error-Code": "500"} if number == 2 else None
        )
    app.flush()
    app.unsubscribe(sid)
    expect(form.locator(".answers > li")).to_have_count(3)
    expect(form.locator(".answers > li").last).to_contain_text("The service answered with an error")


def test_trace_tells_the_hops_of_a_message(any_console: Console) -> None:
    page = any_console.open("#/live?subject=live.way.%3E", account="app")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_label("Show its way").check()
    form = _send(page, "live.way.one")
    trace = form.locator(".trace")
    expect(trace).to_contain_text("Server first")
    expect(trace).to_contain_text("came in from a client")
    expect(trace).to_contain_text("subscribed to live.way.>")
    expect(_rows(page)).to_have_count(1)
    page.get_by_label("Only trace it").check()
    _send(page, "live.way.two")
    expect(form.get_by_text("nobody got it")).to_be_visible()
    expect(trace).to_contain_text("subject live.way.two")
    page.get_by_label("Show its way").uncheck()
    _send(page, "live.way.three")
    expect(_rows(page)).to_have_count(2)
    expect(_rows(page).first).to_contain_text("live.way.three")


def test_filters_by_text_and_by_a_value(page: Page, app: Connection) -> None:
    _listening(page, "live.filter", filter="total>7")
    for number in range(10):
        app.publish("live.filter", json.dumps({"total": number, "tags": ["a", f"t{number}"]}).encode())
    app.publish("live.filter", b"total>7 but no JSON")
    app.flush()
    line = page.locator(".live-status")
    expect(line).to_contain_text("11 messages")
    expect(line).to_contain_text("2 match")
    typed = page.get_by_role("searchbox", name="Filter payloads")
    typed.fill('"total": 9')
    expect(_rows(page)).to_have_count(1)
    assert "filter=%22total" in page.url
    expect(page.locator(".on-command-line code")).to_have_text(
        "headrace sub live.filter --grep '\"total\": 9'"
    )


def test_filter_means_what_the_command_means(page: Page) -> None:
    from headrace.cli.conditions import FieldCondition

    documents = [
        {"a": 1}, {"a": 10}, {"a": 1.5}, {"a": "10"}, {"a": True}, {"a": None}, {"a": [1, "x"]},
        {"a": {"b": [5, 6]}}, {}, [1, 2], {"a": "x=y"},
    ]  # fmt: skip
    texts = [
        "a=1", "a!=1", "a>1", "a>=10", "a<2", "a<=1.5", "a=true", "a=null", "a=x", "a!=x", "a.b.1=6", "a.b=5",
        "1=2", "a=x=y", "a>x",
    ]  # fmt: skip
    found = page.evaluate(
        """async ([texts, documents]) => {
            const { readFilter } = await import("./pages/live/filter.js");
            const bytes = documents.map((each) => new TextEncoder().encode(JSON.stringify(each)));
            return texts.map((text) => bytes.map((each) => readFilter(text).accepts(each)));
        }""",
        [texts, documents],
    )
    assert found == [[FieldCondition(text).holds(document) for document in documents] for text in texts]


def test_patterns_cover_subjects_as_in_the_server(page: Page) -> None:
    cases = [
        (">", "a", True), (">", "a.b", True), ("a.>", "a", False), ("a.>", "a.b.c", True),
        ("a.>", "a.>", True), ("a.>", ">", False),
        ("a.*", "a.b", True), ("a.*", "a.>", False), ("a.*", "a.b.c", False), ("*.b", "a.*", False),
        ("a", "a", True),
    ]  # fmt: skip
    found = page.evaluate(
        """async (cases) => {
            const { covers, isSubject, withoutCovered } = await import("./nats/subjects.js");
            return [
                cases.map(([pattern, inner]) => covers(pattern, inner)),
                ["a", "a..b", "a.>.b", "a b", "", "a.*", ".a"].map((text) => isSubject(text)),
                withoutCovered(["a.b", "a.>", "a.>", "c"]),
            ];
        }""",
        [case[:2] for case in cases],
    )
    expected = [True, False, False, False, False, True, False]
    assert found == [[case[2] for case in cases], expected, ["a.>", "c"]]


def test_ring_keeps_the_last_messages_within_its_bytes(page: Page) -> None:
    found = page.evaluate("""async () => {
        const { Ring } = await import("./pages/live/ring.js");
        const rest = { subject: "a", reply: "", headers: [], status: "", isOdd: false, time: 0 };
        const message = (size) => ({ ...rest, data: new Uint8Array(size), size });
        const [few, small] = [new Ring(3, 1e6), new Ring(100, 5000)];
        for (let i = 0; i < 10; i += 1) { few.push(message(0)); small.push(message(1000)); }
        small.push(message(100_000));
        return [few.newest().map((row) => row.number), few.last, small.newest().map((row) => row.number)];
    }""")
    assert found == [[10, 9, 8], 10, [11]]


def test_subjects_beyond_the_limit_are_counted_together(page: Page) -> None:
    found = page.evaluate("""async () => {
        const { SubjectCounts } = await import("./pages/live/subject_counts.js");
        const counts = new SubjectCounts(4);
        for (const subject of ["a.b", "a.c", "a.d", "a.e", "a.b", "z"]) counts.add(subject, 1);
        const a = counts.root.children.get("a");
        const { root } = counts;
        const [below, b] = [[...a.children.keys()], a.children.get("b")];
        return [root.count, root.others, a.count, a.others, below, b.count];
    }""")
    assert found == [6, 1, 5, 1, ["b", "c", "d"], 2]


def test_hostile_text_is_shown_and_does_nothing(page: Page, app: Connection) -> None:
    _listening(page, "live.hostile.>")
    hostile = "<img/src=x/onerror=document.title='run'>"
    app.publish(
        f"live.hostile.{hostile}",
        "\u202eevil\u001b[31m, and some more words behind it".encode(),
        headers={"X<b>": hostile},
    )
    app.publish(b"live.hostile.\xff\xfe", b"\xff\xfe\x00\x80")
    app.publish("live.hostile.long", b"x" * 1_000_000)
    app.publish("live.hostile.json", b'{"__proto__": {"a": 1}, "<script>": "</script>"}')
    app.flush()
    expect(_rows(page)).to_have_count(4)
    expect(_rows(page).last).to_contain_text("\\u{202e}evil\\u{1b}[31m")
    _rows(page).last.click()
    expect(page.get_by_role("dialog").locator(".headers")).to_contain_text(hostile)
    page.keyboard.press("Escape")
    assert page.locator("img").count() == 1, "the logo alone"
    assert page.title().startswith("Live")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as JSON Lines").click()
    lines = [json.loads(line) for line in saved.value.path().read_text("utf-8").splitlines()]
    assert [line["subject"].removeprefix("live.hostile.")[:4] for line in lines] == [
        "<img",
        "��",
        "long",
        "json",
    ]
    assert lines[0]["headers"] == {"X<b>": [hostile]}
    assert lines[1]["data_base64"] == "//4AgA=="
    assert len(lines[2]["data"]) == 1_000_000
    assert re.fullmatch(r"live-live\.hostile\._\.jsonl", saved.value.suggested_filename)


def test_held_list_stays_and_tells_what_came(page: Page, app: Connection) -> None:
    _listening(page, "live.held")
    app.publish("live.held", b"first")
    app.flush()
    expect(_rows(page)).to_have_count(1)
    page.get_by_role("button", name="Hold").click()
    for _ in range(3):
        app.publish("live.held", b"later")
    app.flush()
    expect(page.get_by_text("Held while you read. 3 came meanwhile.")).to_be_visible()
    expect(_rows(page)).to_have_count(1)
    page.get_by_role("button", name="Show the newest").click()
    expect(_rows(page)).to_have_count(4)
    page.get_by_role("button", name="Clear").click()
    expect(_rows(page)).to_have_count(0)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".live-status")).to_contain_text("stopped")


def test_burst_is_windowed_and_told(page: Page, app: Connection) -> None:
    _listening(page, "live.burst.>")
    page.evaluate("""() => {
        window.painted = 0;
        new MutationObserver((all) => { for (const one of all) window.painted += one.addedNodes.length; })
            .observe(document.querySelector(".live-messages tbody"), { childList: true });
    }""")
    for number in range(8_000):
        app.publish(f"live.burst.{number % 7}", b"a message of the burst")
    app.flush(30.0)
    line = page.locator(".live-status")
    expect(line).to_contain_text("not shown")
    expect(page.get_by_text(re.compile(r"^[1-5],\d{3} rows$"))).to_be_visible()
    assert _rows(page).count() <= 60
    assert page.evaluate("window.painted") < 4_000
    app.publish("live.burst.last", b"behind it")  # it goes on behind the burst
    app.flush()
    expect(line).to_contain_text("listening")
    app.publish("live.burst.last", b"behind it")
    app.flush()
    expect(_rows(page).first).to_contain_text("live.burst.last")


FAKE_LINK = """
class FakeLink extends EventTarget {
    state = "connected"; stats = { inMsgs: 0 }; takes = []; listens = 0;
    listen(subject, take) { this.listens += 1; this.takes.push(take); return () => { this.takes = []; }; }
    async roundTrip() {}
    send(count, size = 10) {
        for (let i = 0; i < count; i += 1) {
            this.stats.inMsgs += 1;
            const message = { subject: `a.${i % 3}`, reply: "", data: new Uint8Array(size) };
            for (const take of this.takes) take(message);
        }
    }
}
const { Tail } = await import("./pages/live/tail.js");
const link = new FakeLink();
const end = new AbortController();
const ignore = () => {};
let clock = 1_000;
const now = () => clock;
const options = { patterns: ["a.>"], filter: null, signal: end.signal, came: ignore, failed: ignore, now };
const tail = new Tail(link, options);
const next = async () => {
    for (const now = link.listens; link.listens === now; ) await new Promise((done) => setTimeout(done, 5));
};
"""
"""A link of which a test sends what comes, and a tail over it."""


def test_tail_samples_above_its_rate_and_says_how_much_it_left_out(page: Page) -> None:
    found = page.evaluate(
        """async () => {"""
        + FAKE_LINK
        + """
        link.send(7_000);
        const cut = [tail.count, link.takes.length, tail.isSampling];
        await next();
        const after = [tail.count, link.takes.length, tail.skipped >= 2_000];
        link.send(3, 3 * 1_048_576);
        const heavy = [tail.count, link.takes.length];
        await next();
        link.send(10);
        end.abort();
        return [cut, after, heavy, tail.count, link.takes.length, tail.ring.count, tail.subjects.root.count];
    }"""
    )
    # Nine megabytes are more than a moment takes: they end it as 5,000 messages do.
    assert found == [[5000, 0, True], [5000, 1, True], [5003, 0], 5013, 0, 5000, 5013]


def test_tail_listens_again_when_all_has_come_and_to_less_where_that_takes_long(page: Page) -> None:
    found = page.evaluate(
        """async () => {"""
        + FAKE_LINK
        + """
        let arrived;
        link.roundTrip = () => new Promise((done) => { arrived = done; });
        link.send(7_000);
        await new Promise((done) => setTimeout(done, 600));
        const meanwhile = link.listens;
        clock += 600;
        arrived();
        await next();
        link.send(7_000);
        const less = tail.count;
        arrived();
        await next();
        clock += 600;  // the timer is late: no more of what comes
        link.send(7_000);
        end.abort();
        return [meanwhile, link.listens, less, tail.count];
    }"""
    )
    assert found == [1, 3, 7500, 7628]


def test_tail_tells_a_gap_with_what_it_cost(page: Page) -> None:
    found = page.evaluate(
        """async () => {"""
        + FAKE_LINK
        + """
        const turn = (state) => { link.state = state; link.dispatchEvent(new Event("state")); };
        turn("reconnecting");
        const lost = tail.isLost;
        turn("connected");
        link.send(4_000);
        clock += 250;
        while (tail.estimate < 5_000) await new Promise((done) => setTimeout(done, 5));
        turn("reconnecting");
        turn("connected");
        turn("closed");
        const notes = tail.ring.newest().map((row) => row.note).filter(Boolean);
        return [lost, tail.isLost, tail.isRunning, notes];
    }"""
    )
    assert found[:3] == [True, False, False]
    quick, slow = found[3]
    assert "cut this tab off as a slow consumer" in quick
    assert "What was sent meanwhile is missing." in slow


def test_lost_connection_is_a_gap_in_the_tail(page: Page, headrace_served: Served, app: Connection) -> None:
    _listening(page, "live.gap")
    with connect(headrace_served.server.url.replace("//", "//sys:sys@")) as operator:
        asked = operator.request(
            "$SYS.REQ.SERVER.PING.CONNZ", json.dumps({"acc": "APP", "subscriptions": True}).encode()
        )
        answer = json.loads(asked.data)
        (cid,) = [
            each["cid"]
            for each in answer["data"]["connections"]
            if "live.gap" in each.get("subscriptions_list", ())
        ]
        operator.request(f"$SYS.REQ.SERVER.{answer['server']['id']}.KICK", json.dumps({"cid": cid}).encode())
    expect(page.get_by_text("The connection was gone for")).to_be_visible()
    app.publish("live.gap", b"after it")
    app.flush()
    expect(_rows(page)).to_have_count(2)
    expect(_rows(page).first).to_contain_text("after it")


def test_refused_subjects_are_named_and_the_others_go_on(any_console: Console) -> None:
    page = any_console.open("#/live?subject=_INBOX.live.x+live.secret", account="nobody")
    expect(page.get_by_role("alert").filter(has_text="Your user has no right")).to_contain_text("live.secret")
    expect(page.locator(".live-status")).to_contain_text("listening")
    page.get_by_role("button", name="Publish", exact=True).click()
    form = _send(page, "live.secret")  # the server would not say what this user may: the refusal does
    expect(form.get_by_role("alert").filter(has_text="It may not publish to the subject")).to_contain_text(
        "live.secret"
    )


def test_viewer_sees_and_sends_nothing(console: Console, app: Connection) -> None:
    page = console.open("#/live/publish?subject=live.viewer&to=live.viewer", account="viewer")
    expect(page.locator(".live-status")).to_contain_text("listening")
    head = page.get_by_role("button", name="Publish", exact=True).first
    expect(head).to_be_disabled()
    expect(head).to_have_attribute("title", "Your user may not publish to anything.")
    expect(page.locator("form.compose button[type=submit]")).to_be_disabled()
    expect(
        page.locator("form.compose").get_by_text("Your user may not publish to live.viewer.")
    ).to_be_visible()


def test_read_only_console_offers_no_message_on_a_narrow_page_too(console: Console, app: Connection) -> None:
    page = console.open(
        "#/live/publish?subject=live.curtain",
        account="app",
        settings={"read_only": True},
        width=360,
        color_scheme="dark",
    )
    expect(page.locator(".live-status")).to_contain_text("listening")
    app.publish("live.curtain", b"a long payload " * 50)
    app.flush()
    expect(page.locator("form.compose")).to_have_count(0)
    expect(page.get_by_role("button", name="Publish", exact=True)).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_is_typed_wrong_is_told_at_its_field(page: Page) -> None:
    _at(page, "#/live")
    expect(page.get_by_text("Nothing is listened to yet.")).to_be_visible()
    page.get_by_label("Subjects", exact=True).fill("a..b")
    page.get_by_role("button", name="Listen").click()
    expect(page.get_by_role("alert").filter(has_text="“a..b” is no subject.")).to_be_visible()
    page.get_by_role("button", name="Publish", exact=True).click()
    form = page.locator("form.compose")
    for label, typed, words in (
        ("Subject", "a.*", "A message goes to one subject"),
        ("Headers", "no colon", "This is no header: “no colon”."),
        ("Reply subject", "a b", "A reply subject is one subject."),
    ):
        form.get_by_label(label, exact=True).fill(typed)
        form.locator("button[type=submit]").click()
        expect(form.get_by_role("alert").filter(has_text=words)).to_be_visible()
        form.get_by_label(label, exact=True).fill("live.wrong" if label == "Subject" else "")
    form.get_by_label("Payload", exact=True).fill('{"a": ')
    expect(form.get_by_text("It begins as JSON, and is none")).to_be_visible()
    form.get_by_role("button", name="Base64").click()
    form.get_by_label("Payload", exact=True).fill("%%%")
    form.locator("button[type=submit]").click()
    expect(form.get_by_role("alert").filter(has_text="This is no base64.")).to_be_visible()
    form.get_by_role("button", name="Text").click()
    form.get_by_label("Payload", exact=True).fill("x" * 1_100_000)
    form.locator("button[type=submit]").click()
    expect(form.get_by_role("alert").filter(has_text="This server takes 1 MiB at most.")).to_be_visible()


def test_hidden_subjects_are_told_and_shown_on_demand(page: Page) -> None:
    _at(page, "#/live")
    page.get_by_role("link", name="Everything").click()
    expect(page.locator(".live-status")).to_contain_text("hidden")  # the page's own requests
    page.get_by_role("button", name="Show them").click()
    expect(_rows(page).first).to_be_visible()
    assert "system=1" in page.url


def test_queue_group_says_that_it_takes(page: Page, app: Connection) -> None:
    _listening(page, "live.queue", queue="workers")
    expect(page.get_by_text("takes its share of the messages away")).to_be_visible()
    expect(page.locator(".on-command-line code")).to_have_text("headrace sub live.queue --queue workers")
    with_sid = app.subscribe("live.queue", "workers")
    app.flush()
    for _ in range(100):
        app.publish("live.queue", b"")
    app.flush()
    taken = sum(1 for _ in app.messages(0.2))
    app.unsubscribe(with_sid)
    expect(page.locator(".live-status")).to_contain_text(f"{100 - taken} messages")
    assert 0 < taken < 100
