"""Key-value buckets: keys made, changed, compared, brought back, removed; conflicts; hostile keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from console.questions import danger, figure
from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.keyvalue import KeyValueBucket

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from harness.browser import Console


def test_key_is_made_changed_compared_brought_back_and_removed(any_console: Console) -> None:
    page = any_console.open("#/keyvalue", account="app")
    page.get_by_role("button", name="New bucket").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("no such name")
    dialog.get_by_role("button", name="Make the bucket").click()
    expect(dialog.get_by_text("letters, digits, - and _ only")).to_be_visible()
    dialog.get_by_label("Name").fill("round")
    dialog.get_by_label("Revisions kept of a key").fill("5")
    dialog.get_by_label("Keys may have a time of their own").fill("1h")
    dialog.get_by_role("button", name="Make the bucket").click()
    expect(page.get_by_text("This bucket has no keys yet.")).to_be_visible()

    page.get_by_role("button", name="New key").first.click()
    dialog.get_by_label("Key", exact=True).fill("shop..colour")
    dialog.get_by_label("Value", exact=True).fill('{\n  "name": "red"\n}')
    dialog.get_by_label("This key goes after").fill("2h")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_text("Clients take no such key.")).to_be_visible()
    dialog.get_by_label("Key", exact=True).fill("shop.colour")
    dialog.get_by_role("button", name="Set").click()
    expect(page.get_by_role("heading", name="shop.colour")).to_be_visible()
    expect(page.get_by_text("goes in 1h 59m")).to_be_visible()
    expect(page).to_have_url(f"{any_console.url}#/keyvalue/round/shop.colour")
    expect(page.get_by_role("row", name="shop.").first).to_be_visible()

    part(page, "Edit").click()
    page.get_by_label("Value", exact=True).fill('{\n  "name": "blue",\n')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("This is no JSON").first).to_be_visible()
    page.get_by_label("Value", exact=True).fill('{\n  "name": "blue"\n}')
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".json-tree")).to_contain_text("blue")

    part(page, "History").click()
    page.locator(".kv-history summary").first.click()
    expect(page.locator(".difference .gone")).to_contain_text('"name": "red"')
    expect(page.locator(".difference .new")).to_contain_text('"name": "blue"')
    page.locator(".kv-history summary").nth(1).click()
    page.get_by_role("button", name="Bring back").click()
    dialog.get_by_role("button", name="Bring back").click()
    expect(page.locator(".kv-history > li")).to_have_count(3)
    part(page, "Value").click()
    expect(page.locator(".json-tree")).to_contain_text("red")

    danger(page, "Delete", "shop.colour")
    expect(page.get_by_text("This key was removed.")).to_be_visible()
    page.get_by_role("button", name="More", exact=True).click()
    danger(page, "Delete the bucket", "round")
    expect(page).to_have_url(f"{any_console.url}#/keyvalue")


def test_conflict_shows_both_values_and_writes_only_when_told(console: Console, api: JetStreamApi) -> None:
    bucket = KeyValueBucket.create(api, "conflict", history=5)
    bucket.put("k", b"first")
    page = console.open("#/keyvalue/conflict/k", account="app")
    part(page, "Edit").click()
    page.get_by_label("Value", exact=True).fill("mine")
    theirs = bucket.put("k", b"theirs")
    expect(page.get_by_text(f"Revision {theirs} was written meanwhile.")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    conflict = page.locator(".kv-conflict")
    expect(conflict).to_contain_text("Somebody else wrote this key meanwhile.")
    expect(conflict.locator(".kv-sides")).to_contain_text("theirs")
    expect(conflict.locator(".kv-sides")).to_contain_text("mine")
    assert bucket.get("k").value == b"theirs"
    conflict.get_by_role("button", name="Write mine").click()
    expect(conflict).to_have_count(0)
    expect(page.locator("pre.code")).to_have_text("mine")
    assert bucket.get("k").value == b"mine"


def test_changes_of_others_are_seen_as_they_come(console: Console, api: JetStreamApi) -> None:
    bucket = KeyValueBucket.create(api, "live")
    bucket.put("a", b"one")
    page = console.open("#/keyvalue/live/a?view=changes", account="app", clock=True)
    page.reload()
    expect(page.get_by_text("Nothing has changed since you opened the bucket.")).to_be_visible()
    expect(page.locator("pre.code")).to_have_text("one")
    bucket.put("a", b"two")
    bucket.put("b", b"new")
    bucket.delete("a")
    expect(page.get_by_role("row", name="deleted")).to_contain_text("a")
    expect(page.get_by_text("This key was removed.")).to_be_visible()
    page.get_by_role("button", name="List", exact=True).click()
    expect(page.locator("tbody tr[data-key]")).to_have_count(1)
    page.get_by_label("Filter keys").fill("zzz")
    expect(page.get_by_text("No key matches “zzz”.")).to_be_visible()
    page.get_by_label("Filter keys").fill("")
    JetStreamAssets(api).purge_stream("KV_live", subject="$KV.live.b")  # as an age does: without a message
    page.clock.fast_forward(10_000)
    expect(page.get_by_text("This bucket has no keys yet.")).to_be_visible()


def test_many_keys_are_a_tree_and_only_rows_in_view_are_in_the_document(
    console: Console, api: JetStreamApi
) -> None:
    KeyValueBucket.create(api, "many", storage="memory")
    for number in range(6_000):
        api.connection.publish(f"$KV.many.group{number % 3}.key{number}", b"v")
    api.publish("$KV.many.last", b"v")
    page = console.open("#/keyvalue/many", account="app")
    expect(figure(page, "Keys")).to_have_text("6,001")
    folder = page.get_by_role("row", name="group1.")
    expect(folder).to_contain_text("2,000 keys")
    folder.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("2,004 rows")).to_be_visible()
    assert page.locator("tbody tr").count() < 100
    page.get_by_label("Filter keys").fill("key5999")
    expect(page.locator("tbody tr[data-key]")).to_have_count(1)
    page.locator("tbody tr[data-key]").click()
    expect(page.get_by_role("heading", name="group2.key5999")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="group2.key5999")).to_have_count(0)


def test_hostile_keys_and_values_are_text(any_console: Console, request: pytest.FixtureRequest) -> None:
    side = (
        "headrace_served"
        if request.node.callspec.params["any_console"] == "headrace"
        else "nats_server_served"
    )
    port = request.getfixturevalue(side).server.port
    with connect(f"nats://app:app@127.0.0.1:{port}") as connection:
        api = JetStreamApi(connection)
        KeyValueBucket.create(api, "hostile", history=2)
        api.publish("$KV.hostile.<img/src=x/onerror=alert(1)>", b"<img src=x onerror=alert(1)>\xff\xfe")
        api.publish("$KV.hostile.bidi\u202ecba", "\u202eturned".encode())
        api.publish("$KV.hostile.line", b"a" * 900_000)
    page = any_console.open("#/keyvalue/hostile?view=list", account="app")
    expect(page.get_by_text("<img/src=x/onerror=alert(1)>")).to_be_visible()
    expect(page.get_by_text("bidi\\u{202e}cba")).to_be_visible()
    page.get_by_role("row", name="<img").click()
    page.get_by_role("button", name="Text", exact=True).click()
    expect(page.locator("pre.code")).to_contain_text("<img src=x onerror=alert(1)>")
    part(page, "Edit").click()
    expect(page.get_by_text("it can be read and removed here, not written")).to_be_visible()
    page.get_by_role("row", name="bidi").click()
    expect(page.locator("pre.code")).to_have_text("\\u{202e}turned")
    danger(page, "Purge", "bidi\\u{202e}cba")  # as it is shown
    expect(page.get_by_text("This key was removed.")).to_be_visible()
    page.get_by_role("row", name="line").click()
    expect(page.get_by_text("Only the first 256 KiB are shown.")).to_be_visible()
    part(page, "Edit").click()
    expect(page.get_by_text("This value is no text, or too long to edit here.")).to_be_visible()
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_viewer_sees_keys_and_history_and_may_change_nothing(console: Console, api: JetStreamApi) -> None:
    bucket = KeyValueBucket.create(api, "viewed", history=3)
    bucket.put("k", b"one")
    bucket.put("k", b"two")
    page = console.open("#/keyvalue/viewed/k", account="viewer")
    expect(page.get_by_text("Your user may not watch this bucket.")).to_be_visible()
    expect(page.locator("pre.code")).to_have_text("two")
    page.get_by_role("button", name="More", exact=True).click()
    for name, right in (
        ("New key", "$KV.viewed.>"),
        ("Edit the bucket", "$JS.API.STREAM.UPDATE.KV_viewed"),
        ("Delete the bucket", "$JS.API.STREAM.DELETE.KV_viewed"),
        ("Purge", "$KV.viewed.k"),
    ):
        greyed = page.get_by_role("button", name=name, exact=True)
        expect(greyed).to_be_disabled()
        expect(greyed).to_have_attribute("title", f"Your user may not publish to {right}.")
    part(page, "History").click()
    expect(page.locator(".kv-history > li")).to_have_count(2)


def test_read_only_console_offers_nothing_that_changes(console: Console, api: JetStreamApi) -> None:
    KeyValueBucket.create(api, "curtain").put("k", b"v")
    page = console.open("#/overview", account="app")
    settings = {"version": "", "path": "/console", "socket": console.socket, "read_only": True}
    page.route("**/console.json", lambda route: route.fulfill(body=json.dumps(settings)))
    page.goto(f"{console.url}#/keyvalue/curtain/k")
    page.reload()
    expect(page.locator("pre.code")).to_have_text("v")
    for name in ("New key", "Edit", "Delete", "Purge", "More"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("plain", "JetStream is not enabled in this account."),
        ("other", "There are no key-value buckets in this account yet."),
        ("nobody", "Your user has no right to this."),
    ],
)
def test_empty_states_say_what_to_do(console: Console, user: str, words: str) -> None:
    page = console.open("#/keyvalue", account=user)
    expect(page.get_by_text(words)).to_be_visible()


def test_missing_bucket_and_key_are_told(console: Console, api: JetStreamApi) -> None:
    KeyValueBucket.create(api, "there")
    page = console.open("#/keyvalue/nowhere", account="app")
    expect(page.get_by_text("There is no bucket with this name.")).to_be_visible()
    page.goto(f"{console.url}#/keyvalue/there/none")
    expect(page.get_by_text("This bucket has no such key.")).to_be_visible()


def test_bucket_that_was_made_anew_is_read_anew(console: Console, api: JetStreamApi) -> None:
    bucket = KeyValueBucket.create(api, "anew")
    for _ in range(3):
        bucket.put("old", b"v")
    page = console.open("#/keyvalue/anew?view=list", account="app", clock=True)
    page.reload()
    expect(page.locator("tbody tr[data-key]")).to_contain_text("old")
    bucket.remove_bucket()
    KeyValueBucket.create(api, "anew").put("young", b"v")
    page.clock.fast_forward(10_000)
    expect(page.locator("tbody tr[data-key]")).to_contain_text("young")


def test_key_that_is_there_is_not_overwritten_by_a_new_one(console: Console, api: JetStreamApi) -> None:
    bucket = KeyValueBucket.create(api, "twice")
    bucket.put("k", b"old")
    bucket.put("gone", b"x")
    bucket.delete("gone")
    page = console.open("#/keyvalue/twice", account="app")
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key", exact=True).fill("k")
    dialog.get_by_label("Value", exact=True).fill("new")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_text("This key has a value already").first).to_be_visible()
    assert bucket.get("k").value == b"old"
    dialog.get_by_label("Key", exact=True).fill("gone")
    dialog.get_by_role("button", name="Set").click()
    expect(page.get_by_role("heading", name="gone")).to_be_visible()
    assert bucket.get("gone").value == b"new"


def test_bucket_is_changed_after_its_difference_was_seen(console: Console, api: JetStreamApi) -> None:
    KeyValueBucket.create(api, "edited", description="before")
    page = console.open("#/keyvalue/edited", account="app")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("button", name="Edit the bucket").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Nothing is changed.")).to_be_visible()
    dialog.get_by_label("Description").fill("after")
    dialog.get_by_label("Everything goes after").fill("soon")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("This is no time")).to_be_visible()
    dialog.get_by_label("Everything goes after").fill("1h")
    expect(dialog.locator(".changes del").first).to_contain_text("before")
    dialog.get_by_role("button", name="Save").click()
    expect(figure(page, "Values go after")).to_have_text("1h")
    config = KeyValueBucket(api, "edited").info["config"]
    assert (config["description"], config["max_age"]) == ("after", 3_600 * 10**9)


def test_keys_are_cut_into_folders(console: Console) -> None:
    page = console.open()
    keys = ["b.2", "b.10", "b", "a/x/y", "a/z", "only.one.leaf", "end.", "/"]
    rows = page.evaluate(
        """async (keys) => {
            const { treeOf, treeRows } = await import("./data/key_tree.js");
            return treeRows(treeOf(keys), () => true).map((row) => [row.depth, row.name, row.key, row.count]);
        }""",
        keys,
    )
    assert sorted(row[2] for row in rows if row[2] is not None) == sorted(keys)
    assert [0, "b.", None, 2] in rows
    assert rows.index([1, "2", "b.2", 0]) < rows.index([1, "10", "b.10", 0])  # as numbers
    assert [0, "only.one.leaf", "only.one.leaf", 0] in rows


def part(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name="Parts of the key").get_by_role("button", name=name, exact=True)


def test_question_before_a_loss_holds_a_long_name(console: Console, api: JetStreamApi) -> None:
    name = "L" * 100
    KeyValueBucket.create(api, name)
    page = console.open(f"#/keyvalue/{name}", account="app")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("button", name="Delete the bucket").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Type")).to_be_focused()
    assert dialog.evaluate("(dialog) => dialog.scrollWidth <= dialog.clientWidth")
