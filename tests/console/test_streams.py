"""The pages of streams: the list, browsing, searching, publishing, changing, backup; rights, hostile text."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from console.questions import confirm, pick

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from harness.browser import Console
    from headrace.client.jetstream_api import JetStreamApi


HOSTILE = "odd.<img/src=x/onerror=alert(1)>"


@pytest.fixture(scope="module")
def stream(api: JetStreamApi) -> str:
    """A stream of 300 messages with a gap of 100 sequences, and one with a rare subject."""
    schema = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "minimum": 1}}}
    metadata = {"headrace.schema": json.dumps(schema), "headrace.schema.type": "json"}
    make(api, "BROWSED", subjects=["browsed.>"], metadata=metadata)
    for number in range(1, 301):
        subject = "browsed.rare" if number == 7 else f"browsed.{'eu' if number % 2 else 'us'}"
        api.connection.publish(
            subject.encode(), json.dumps({"id": number, "who": "ann" if number == 42 else "bob"}).encode()
        )
    api.connection.flush()
    for number in range(201, 301):
        api.ask("STREAM.MSG.DELETE.BROWSED", {"seq": number})
    store(api, "browsed.eu", b"no json")
    return "BROWSED"


def make(api: JetStreamApi, name: str, **config: Any) -> None:
    api.ask(f"STREAM.CREATE.{name}", {"name": name, "allow_direct": True, **config})


def store(api: JetStreamApi, subject: str, payload: bytes, headers: bytes = b"") -> int:
    answer = api.connection.request(subject.encode(), payload)
    return int(json.loads(answer.data)["seq"])


def rows(page: Page, table: str = "Messages of the stream") -> Locator:
    return page.get_by_role("table", name=table).locator("tbody tr[data-key]")


def test_stream_is_made_published_to_browsed_and_deleted(any_console: Console) -> None:
    page = any_console.open("#/streams", account="app", clock=True)
    page.get_by_role("button", name="New stream").first.click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("two words")
    form.get_by_role("button", name="Make the stream").click()
    expect(form.get_by_text("A name without spaces")).to_be_visible()
    form.get_by_label("Name", exact=True).fill("TRIP")
    form.get_by_label("Subjects").fill("trip.>")
    form.get_by_label("For at most").fill("7d")
    form.get_by_role("button", name="Make the stream").click()
    expect(page.get_by_role("heading", name="TRIP", level=1)).to_be_visible()

    page.get_by_role("button", name="Publish").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Subject", exact=True).fill("elsewhere")
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_text("The stream does not take this subject. It takes trip.>.")).to_be_visible()
    form.get_by_label("Subject", exact=True).fill("trip.one")
    form.get_by_label("Payload").fill('{"total": 5}')
    form.get_by_label("Headers").fill("Kind: test\nKind: again")
    form.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Stored as 1.")).to_be_visible()

    page.get_by_role("link", name="Messages").first.click()
    rows(page).first.click()
    panel = page.get_by_role("dialog")
    expect(panel.locator("dl.mono dd")).to_have_text(["test", "again"])
    expect(panel.locator(".json-tree")).to_contain_text("total: 5")
    panel.get_by_role("button", name="Delete").click()
    confirm(page, "1")
    expect(page.get_by_text("The message is deleted.")).to_be_visible()
    page.clock.fast_forward(2_000)
    expect(page.get_by_text("The stream has no messages.")).to_be_visible()

    pick(page, "Edit")
    form = page.get_by_role("dialog")
    form.get_by_label("Bytes at most").fill("10MB")
    form.get_by_role("button", name="Show the changes").click()
    changes = page.get_by_role("dialog").locator(".changes tbody tr")
    expect(changes).to_have_text(["max_bytes-110485760 (10 MiB)"])
    page.get_by_role("button", name="Change the stream").click()
    expect(page.get_by_text("Stream TRIP is changed.")).to_be_visible()

    pick(page, "Delete")
    expect(page.get_by_role("dialog")).to_contain_text("trip.>")
    confirm(page, "TRIP")
    expect(page.get_by_role("heading", name="Streams", level=1)).to_be_visible()
    page.goto(f"{any_console.url}#/streams/TRIP")
    expect(page.get_by_text("There is no stream with this name.")).to_be_visible()


def test_pages_of_messages_go_back_over_gaps_and_have_addresses(console: Console, stream: str) -> None:
    page = console.open(f"#/streams/{stream}/messages", account="app")
    first = rows(page).first.locator("td").first
    expect(first).to_have_text("301")
    expect(rows(page).nth(1).locator("td").first).to_have_text("200")
    page.get_by_role("button", name="Older").click()
    expect(first).to_have_text("151")
    expect(page).to_have_url(f"{console.url}#/streams/{stream}/messages?from=151")
    page.get_by_role("button", name="Newer").click()
    expect(first).to_have_text("301")
    page.get_by_role("button", name="Oldest").click()
    expect(first).to_have_text("50")
    page.go_back()
    expect(first).to_have_text("301")
    page.goto(f"{console.url}#/streams/{stream}?from=120")
    expect(first).to_have_text("120")
    page.get_by_label("Go to").fill("1h")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(first).to_have_text("50")
    page.get_by_label("Go to").fill("soon")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.get_by_text("Type a sequence, a time")).to_be_visible()
    page.get_by_label("Subject", exact=True).fill("browsed.rare")
    page.get_by_label("Subject", exact=True).press("Enter")
    page.get_by_role("button", name="Newest").click()
    expect(rows(page)).to_have_count(1)
    expect(first).to_have_text("7")


def test_new_messages_come_while_the_newest_are_shown(console: Console, api: JetStreamApi) -> None:
    make(api, "GROWS", subjects=["grows"])
    page = console.open("#/streams/GROWS/messages", account="app")
    expect(page.get_by_text("What is published to grows will be here.")).to_be_visible()
    store(api, "grows", b"here")
    expect(rows(page)).to_have_count(1)


def test_search_finds_texts_and_conditions_and_says_how_many_it_read(console: Console, stream: str) -> None:
    page = console.open(f"#/streams/{stream}/messages", account="app")
    search = page.get_by_label("Search the contents")
    search.fill("who=ann")
    search.press("Enter")
    expect(page.get_by_text("1 found in 201 messages.")).to_be_visible()
    expect(rows(page).locator("td").first).to_have_text("42")
    search.fill('"WHO": "ANN"')
    search.press("Enter")
    expect(rows(page)).to_have_count(1)
    search.fill("id>199")
    search.press("Enter")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).locator("td").first).to_have_text("200")
    search.fill("carol")
    search.press("Enter")
    expect(page.get_by_text("No message has “carol”.")).to_be_visible()
    page.get_by_role("button", name="Back to all messages").click()
    expect(rows(page).first.locator("td").first).to_have_text("301")


def test_message_is_judged_by_the_schema_and_has_its_own_address(console: Console, stream: str) -> None:
    page = console.open(f"#/streams/{stream}/messages?seq=42", account="app")
    panel = page.get_by_role("dialog")
    expect(panel.get_by_text("fits the schema", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(f"{console.url}#/streams/{stream}/messages")
    rows(page).first.focus()
    page.keyboard.press("Enter")
    expect(panel.get_by_text("does not fit the schema: ")).to_be_visible()
    expect(page).to_have_url(f"{console.url}#/streams/{stream}/messages?seq=301")
    page.goto(f"{console.url}#/streams/{stream}/messages?seq=250")
    expect(page.get_by_role("dialog").get_by_text("This message is not in the stream.")).to_be_visible()
    page.goto(f"{console.url}#/streams/{stream}/configuration")
    expect(page.get_by_text("the server takes what does not fit, too")).to_be_visible()


def test_subjects_have_counts_and_lead_to_their_messages(console: Console, stream: str) -> None:
    page = console.open(f"#/streams/{stream}", account="app")
    expect(rows(page, "Subjects").first).to_contain_text("browsed.eu")
    page.get_by_label("Only subjects that match").fill("browsed.r*")
    expect(page.get_by_text("No subject matches “browsed.r*”.")).to_be_visible()
    page.get_by_label("Only subjects that match").fill("browsed.rare")
    expect(rows(page, "Subjects")).to_have_count(1)
    page.get_by_role("link", name="browsed.rare").click()
    expect(rows(page).first.locator("td").first).to_have_text("7")


def test_purge_tells_what_is_lost_and_can_be_taken_back(console: Console, api: JetStreamApi) -> None:
    make(api, "PURGED", subjects=["purged.*"])
    for number in range(6):
        store(api, f"purged.{number % 2}", b"x")
    page = console.open("#/streams/PURGED", account="app", clock=True)
    for is_taken_back in (True, False):
        page.get_by_role("button", name="Purge").click()
        form = page.get_by_role("dialog")
        form.get_by_label("Only subjects that match").fill("purged.1")
        form.get_by_label("Remove").select_option("keep")
        form.get_by_label("Keep so many").fill("0")
        form.get_by_role("button", name="Go on").click()
        expect(form.get_by_text("A number from 1 on is needed.")).to_be_visible()
        form.get_by_label("Keep so many").fill("1")
        form.get_by_role("button", name="Go on").click()
        question = page.get_by_role("dialog")
        expect(question.get_by_text("3 messages match purged.1.")).to_be_visible()
        expect(question.get_by_role("button", name="Purge")).to_be_disabled()
        if is_taken_back:
            question.get_by_label("Type “PURGED” to go on").fill("PURGED")
            question.locator("button[type=submit]").click()
            page.get_by_role("button", name="Undo").click()
            expect(page.get_by_text("Nothing was sent.")).to_be_visible()
        else:
            confirm(page, "PURGED")
    expect(page.get_by_text("PURGED is purged.")).to_be_visible()
    assert api.ask("STREAM.INFO.PURGED", None)["state"]["messages"] == 4


def test_backup_is_one_file_that_is_restored_under_another_name(any_console: Console, tmp_path: Path) -> None:
    page = any_console.open("#/streams", account="app")
    page.get_by_role("button", name="New stream").first.click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("KEPT")
    form.get_by_label("Subjects").fill("kept")
    form.get_by_role("button", name="Make the stream").click()
    page.get_by_role("button", name="Publish").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Payload").fill("kept for long")
    form.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Stored as 1.")).to_be_visible()
    pick(page, "Backup")
    with page.expect_download() as found:
        page.get_by_role("button", name="Make the backup").click()
    path = tmp_path / found.value.suggested_filename
    found.value.save_as(path)
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["KEPT/backup.json", "KEPT/stream.tar.s2"]
        facts = archive.extractfile("KEPT/backup.json")
        assert facts is not None
        assert json.load(io.TextIOWrapper(facts))["config"]["name"] == "KEPT"
    page.keyboard.press("Escape")

    cut = tmp_path / "cut.tar"
    cut.write_bytes(path.read_bytes()[:1_500])
    page.goto(f"{any_console.url}#/streams")
    page.get_by_role("button", name="Restore").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Files").set_input_files(cut)
    expect(form.get_by_text("These files are no backup of a stream.")).to_be_visible()
    form.get_by_label("Files").set_input_files(path)
    form.get_by_role("button", name="Restore").click()
    expect(form.get_by_role("alert").filter(has_text="The server said no")).to_be_visible()
    form.get_by_label("Name of the stream").fill("KEPT2")
    form.get_by_label("Subjects").fill("kept2")
    form.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("KEPT2 is restored with 1 messages.")).to_be_visible()
    page.goto(f"{any_console.url}#/streams/KEPT2/messages")
    expect(rows(page)).to_contain_text("kept for long")


def test_sealed_stream_says_why_nothing_can_be_done(console: Console, api: JetStreamApi) -> None:
    make(api, "SEALED", subjects=["sealed"], sealed=False)
    page = console.open("#/streams/SEALED", account="app", clock=True)
    pick(page, "Seal")
    confirm(page, "SEALED")
    expect(page.get_by_text("SEALED is sealed.")).to_be_visible()
    publish = page.get_by_role("button", name="Publish")
    expect(publish).to_be_disabled()
    expect(publish).to_have_attribute("title", "The stream is sealed: nothing in it can change.")


def test_hostile_text_is_text(console: Console, api: JetStreamApi) -> None:
    make(api, "ODD", subjects=["odd.>"], description="<img src=x onerror=alert(1)> \u202eback")
    store(api, HOSTILE, b"<script>alert(1)</script> \xe2\x80\xae\xff\xfe")
    store(api, "odd.large", b"y" * 1_000_000)
    page = console.open("#/streams/ODD/messages", account="app")
    expect(rows(page)).to_have_count(2)
    expect(rows(page).nth(1)).to_contain_text(HOSTILE)
    expect(page.locator("main img, main script")).to_have_count(0)
    expect(page.locator("main .page-head")).to_contain_text("\\u{202e}back")
    rows(page).nth(1).click()
    page.get_by_role("dialog").get_by_role("button", name="Text").click()
    expect(page.get_by_role("dialog").locator("pre")).to_have_text(
        "<script>alert(1)</script> \\u{202e}\ufffd\ufffd"
    )
    page.keyboard.press("Escape")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for address in ("#/streams/%3E", "#/streams/a b", "#/streams/../messages", "#/consumers/%2A/%3E"):
        page.goto(console.url + address)
        expect(page.locator("main").get_by_text("There is no")).to_be_visible()
    expect(page.get_by_text("connected", exact=True)).to_be_visible()


def test_viewer_sees_everything_and_is_told_what_is_not_allowed(console: Console, stream: str) -> None:
    page = console.open("#/streams", account="viewer")
    expect(page.get_by_role("button", name="New stream")).to_be_disabled()
    page.goto(f"{console.url}#/streams/{stream}/messages")
    rows(page).first.click()
    remove = page.get_by_role("dialog").get_by_role("button", name="Delete")
    expect(remove).to_be_disabled()
    expect(remove).to_have_attribute(
        "title", f"Your user may not publish to $JS.API.STREAM.MSG.DELETE.{stream}."
    )
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Purge")).to_be_disabled()
    expect(page.get_by_role("button", name="Publish")).to_be_disabled()


def test_account_without_jetstream_is_told_so(any_console: Console) -> None:
    page = any_console.open("#/streams", account="plain")
    words = page.locator("main").get_by_text("JetStream is not enabled in this account.")
    expect(words).to_be_visible()
    page.goto(f"{any_console.url}#/consumers")
    expect(words).to_be_visible()


def test_user_without_rights_is_told_which(console: Console) -> None:
    page = console.open("#/streams", account="nobody")
    expect(page.locator("main").get_by_text("Your user has no right to this.")).to_be_visible()
    expect(page.locator("main").get_by_text("$JS.API.STREAM.LIST")).to_be_visible()


MODEL = """async ([seed, runs]) => {
  const { readBackward } = await import("./data/browse.js");
  let state = seed;
  const random = (most) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * most);
  };
  class Lines extends Map {
    code = 0;
    get(name) { return super.get(name)?.[0] ?? ""; }
  }
  const answer = (code, entries) => {
    const headers = new Lines(Object.entries(entries).map(([name, value]) => [name, [String(value)]]));
    headers.code = code;
    return { headers, data: code ? new Uint8Array() : new Uint8Array(1) };
  };
  const wrong = [];
  let most = 0;
  for (let run = 0; run < runs; run += 1) {
    const last = 1 + random([60, 3000, 200000][random(3)]);
    const sparse = [1, 2, 50, 5000][random(4)];
    const stored = [];
    for (let next = 1 + random(50); next <= last; next += 1 + random(sparse)) stored.push(next);
    if (random(2)) stored.splice(random(stored.length), random(stored.length)); // a gap
    let asked = 0;
    const link = { async eachAnswer(_subject, body, { take }) {
      asked += 1;
      const { seq, batch } = JSON.parse(body);
      const found = stored.filter((sequence) => sequence >= seq);
      if (!found.length) return take(answer(404, {}));
      const given = found.slice(0, Math.min(batch, 64)); // as a server does that comes to max_bytes
      for (const [place, sequence] of given.entries()) {
        const left = found.length - place - 1;
        if (take(answer(0, { "Nats-Sequence": sequence, "Nats-Num-Pending": left })) === false) return;
      }
      take(answer(204, { "Nats-Num-Pending": found.length - given.length }));
    } };
    const before = 1 + random(last + 1);
    const count = 5 + random(46);
    const config = { name: "S", allow_direct: true };
    const page = await readBackward(link, config, { before, first: stored[0] ?? 1, count });
    const wanted = stored.filter((sequence) => sequence < before).slice(-count).reverse();
    const found = page.map((one) => one.sequence);
    if (String(found) !== String(wanted)) wrong.push([run, last, sparse, before, count]);
    most = Math.max(most, asked);
  }
  return [wrong, most];
}"""


def test_pages_backwards_are_those_of_a_model_and_cost_few_requests(console: Console) -> None:
    page = console.open(account="app")
    wrong, most = page.evaluate(MODEL, [20, 150])
    assert wrong == []
    assert most < 100


def test_of_very_many_streams_names_come_first_and_figures_for_what_is_in_view(
    console: Console, api: JetStreamApi
) -> None:
    """The page with other limits in its own module: more than two streams are many."""
    for number in range(3):
        make(api, f"MANY{number}", subjects=[f"many.{number}"])
    store(api, "many.2", b"x")
    page = console.open("#/nowhere", account="app")
    page.route(
        "**/data/stream_list.js",
        lambda route: route.fulfill(
            response=(found := route.fetch()),
            body=found.text().replace("FEW = 1_000", "FEW = 2").replace("total <= PAGE", "total < 0"),
        ),
    )
    page.goto(f"{console.url}#/streams")
    table = page.get_by_role("table", name="Streams")
    row = table.locator("tr", has=page.get_by_role("link", name="MANY2", exact=True))
    expect(row.locator("td").nth(1)).to_have_text("1")
    page.get_by_role("button", name="Load the figures of all").click()
    table.get_by_role("button", name="Messages").click()
    expect(row).to_be_visible()
