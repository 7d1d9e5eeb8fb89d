"""Object stores: files that go up and come down, their digests and looks; hostile names."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zlib
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from console.questions import danger
from headrace.client.api import JetStreamAssets
from headrace.client.objects import ObjectBucket

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from harness.browser import Console
    from headrace.client.jetstream_api import JetStreamApi


def test_object_goes_up_is_renamed_linked_comes_down_and_is_deleted(
    any_console: Console, tmp_path: Path
) -> None:
    file = tmp_path / "report.txt"
    file.write_bytes(b"a line of the report\n" * 20_000)  # of several chunks
    page = any_console.open("#/objects", account="app")
    page.get_by_role("button", name="New bucket").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("round")
    dialog.get_by_role("button", name="Make the bucket").click()
    expect(page.get_by_text("This bucket has no objects yet.")).to_be_visible()
    upload(page, file)
    page.get_by_role("row", name="report.txt").click()
    digest = f"SHA-256={urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).decode()}"
    expect(page.get_by_text(digest)).to_be_visible()
    expect(page.get_by_text("4, each of at most 128 KiB")).to_be_visible()
    expect(page.locator("pre.code")).to_contain_text("a line of the report")

    page.get_by_role("button", name="Edit", exact=True).click()
    dialog.get_by_label("Name").fill("reports/März.txt")
    dialog.get_by_label("Description").fill("of March")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="reports/März.txt")).to_be_visible()
    expect(page.get_by_text("of March")).to_be_visible()
    expect(page.get_by_role("row", name="report.txt")).to_have_count(0)

    page.get_by_role("button", name="New link").click()
    dialog.get_by_label("Name").fill("latest")
    dialog.get_by_label("Object there").fill("reports/März.txt")
    dialog.get_by_role("button", name="Make the link").click()
    expect(page.get_by_text("leads to round / reports/März.txt")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "latest"
    assert download.value.path().read_bytes() == file.read_bytes()

    page.get_by_role("row", name="reports/März.txt").click()
    danger(page, "Delete", "reports/März.txt")
    expect(page.get_by_text("This object was deleted.")).to_be_visible()
    expect(page.locator(".bucket-list tbody tr[data-key]")).to_have_count(1)


def test_twenty_megabytes_go_up_and_down(console: Console, api: JetStreamApi, tmp_path: Path) -> None:
    store = ObjectBucket.create(api, "large")
    file = tmp_path / "large.bin"
    file.write_bytes(os.urandom(20 << 20))
    page = console.open("#/objects/large", account="app")
    upload(page, file)
    facts = store.verify("large.bin")
    assert (facts.size, facts.chunks) == (20 << 20, 160)
    page.get_by_role("row", name="large.bin").click()
    expect(page.get_by_text("Objects over 1 MiB are not shown here.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.path().read_bytes() == file.read_bytes()
    expect(transfer(page, "large.bin").first).to_contain_text("download done")


def test_stopped_upload_leaves_nothing(console: Console, api: JetStreamApi, tmp_path: Path) -> None:
    ObjectBucket.create(api, "stopped")
    file = tmp_path / "endless.bin"
    with file.open("wb") as made:
        made.truncate(1 << 30)
    page = console.open("#/objects/stopped", account="app")
    page.locator("input[type=file]").set_input_files(file)
    going = transfer(page, "endless.bin")
    expect(going).to_contain_text("upload runs")
    expect(going.get_by_role("progressbar")).to_be_visible()
    page.get_by_label("Filter", exact=True).fill("typed meanwhile")
    going.get_by_role("button", name="Stop").click()
    expect(going).to_contain_text("upload stopped")
    assert JetStreamAssets(api).stream_info("OBJ_stopped")["state"]["messages"] == 0


def test_object_is_replaced_only_when_told(console: Console, api: JetStreamApi, tmp_path: Path) -> None:
    store = ObjectBucket.create(api, "replaced")
    store.put("a.txt", io.BytesIO(b"old" * 50_000))
    file = tmp_path / "a.txt"
    file.write_bytes(b"new")
    page = console.open("#/objects/replaced/a.txt", account="app")
    expect(page.get_by_role("row", name="a.txt")).to_be_visible()
    page.locator("input[type=file]").set_input_files(file)
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    assert store.facts("a.txt").size == 150_000
    page.locator("input[type=file]").set_input_files(file)
    dialog.get_by_role("button", name="Replace").click()
    expect(page.locator("pre.code")).to_have_text("new")
    expect(transfer(page, "a.txt")).to_contain_text("upload done")
    assert JetStreamAssets(api).stream_info("OBJ_replaced")["state"]["messages"] == 2


def test_what_is_not_what_was_written_is_not_saved(console: Console, api: JetStreamApi) -> None:
    store = ObjectBucket.create(api, "broken")
    changed = store.put("changed", io.BytesIO(b"right" * 300_000))
    api.publish(f"$O.broken.C.{changed.nuid}", b"x", headers={"Nats-Rollup": "sub"})
    facts = store.put("cut", io.BytesIO(b"right"))
    api.publish(f"$O.broken.C.{facts.nuid}", b"wrong", headers={"Nats-Rollup": "sub"})
    page = console.open("#/objects/broken/changed", account="app")
    page.get_by_role("button", name="Download").click()
    failed = transfer(page, "changed")
    expect(failed).to_contain_text("download failed")
    expect(failed).to_contain_text("The digest is wrong")
    page.get_by_role("row", name="cut").click()
    expect(page.locator(".bucket-side")).to_contain_text("The digest is wrong")


def test_images_are_drawn_and_documents_are_text(console: Console, api: JetStreamApi) -> None:
    store = ObjectBucket.create(api, "looks")
    store.put("dot.png", io.BytesIO(png(3, 2)))
    store.put("broken.png", io.BytesIO(png(3, 2)[:20]))
    store.put("page.html", io.BytesIO(b"<script>document.title = 'owned'</script>"))
    store.put("picture.svg", io.BytesIO(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"))
    store.put("../..\u202egnp.exe", io.BytesIO(b"\x89PNG"), metadata={"<b>": "\u202ex"})
    page = console.open("#/objects/looks/dot.png", account="app")
    expect(page.get_by_text("3 × 2 pixels")).to_be_visible()
    for name, shown in (("page.html", "<script>"), ("picture.svg", "<svg ")):
        page.get_by_role("row", name=name).click()
        expect(page.locator("pre.code")).to_contain_text(shown)
        expect(page.locator(".bucket-side img")).to_have_count(0)
    page.get_by_role("row", name="broken.png").click()
    expect(page.get_by_text("The browser cannot read this image.")).to_be_visible()
    page.get_by_role("row", name="exe").click()
    expect(page.locator(".facts")).to_contain_text("<b>: \\u{202e}x")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "gnp.exe"
    assert "owned" not in page.title()


def test_sealed_bucket_and_viewer_change_nothing(console: Console, api: JetStreamApi) -> None:
    ObjectBucket.create(api, "kept").put("a", io.BytesIO(b"content"))
    page = console.open("#/objects/kept/a", account="app")
    expect(page.locator("pre.code")).to_have_text("content")
    page.get_by_role("button", name="More", exact=True).click()
    danger(page, "Seal", "kept")
    expect(page.locator(".figure", has_text="State")).to_contain_text("sealed")
    expect(page.get_by_role("button", name="Upload").first).to_be_disabled()
    page = console.open("#/objects/kept/a", account="viewer")
    expect(page.get_by_text("Your user may not watch this bucket.")).to_be_visible()
    expect(page.get_by_role("row", name="a").last).to_contain_text("7 B")
    expect(page.locator("pre.code")).to_have_text("content")
    for name in ("Upload", "New link", "Edit", "Delete"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_disabled()


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("plain", "JetStream is not enabled in this account."),
        ("other", "There are no object buckets in this account yet."),
        ("nobody", "Your user has no right to this."),
    ],
)
def test_empty_states_say_what_to_do(console: Console, user: str, words: str) -> None:
    page = console.open("#/objects", account=user)
    expect(page.get_by_text(words)).to_be_visible()


def test_missing_object_is_told(console: Console, api: JetStreamApi) -> None:
    ObjectBucket.create(api, "there")
    page = console.open("#/objects/there/none", account="app")
    expect(page.get_by_text("This bucket has no such object.")).to_be_visible()


def test_digest_in_parts_is_that_of_the_whole(console: Console) -> None:
    page = console.open()
    lengths = [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1_000]
    digests = page.evaluate(
        """async (lengths) => {
            const { Sha256 } = await import("./data/sha256.js");
            return lengths.map((length) => {
                const digest = new Sha256();
                const data = new Uint8Array(length).map((_, place) => place * 7);
                for (let at = 0; at < length; at += 13) digest.update(data.subarray(at, at + 13));
                return [...digest.digest()];
            });
        }""",
        lengths,
    )
    right = [list(hashlib.sha256(bytes(n * 7 % 256 for n in range(length))).digest()) for length in lengths]
    assert digests == right


def upload(page: Page, file: Path) -> None:
    page.locator("input[type=file]").set_input_files(file)
    expect(transfer(page, file.name)).to_contain_text("upload done", timeout=60_000)


def transfer(page: Page, name: str) -> Locator:
    return page.locator(".transfers > li", has_text=name)


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x10\x80\x70" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
