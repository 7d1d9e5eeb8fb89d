"""Pipelines: queries by what they report on a subject; what is no report; a run that fell silent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from harness.console_files import ConsoleFiles
from harness.javascript import evaluate
from headrace.client.blocking import connect
from headrace.spark.query_state import QueryState

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

    from console.conftest import Served

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp"


def progress(batch: int, rows: int, lag: int) -> dict[str, Any]:
    """What Spark says of a micro-batch, as far as it is read."""
    offsets = {"endOffset": {"ORDERS": rows}, "latestOffset": {"ORDERS": rows + lag}}
    source = {"description": "nats", "startOffset": {"ORDERS": 0}, "numInputRows": rows, **offsets}
    return {
        "batchId": batch, "numInputRows": rows, "processedRowsPerSecond": 512.3, "inputRowsPerSecond": 500,
        "durationMs": {"triggerExecution": 412}, "timestamp": "2026-11-29T08:10:00.000Z", "sources": [source],
    }  # fmt: skip


def report(*states: QueryState) -> bytes:
    return json.dumps({"pipeline": "orders", "queries": [state.document() for state in states]}).encode()


def publish(served: Served, subject: str, *payloads: bytes) -> None:
    with connect(f"nats://app:app@127.0.0.1:{served.server.port}") as connection:
        for payload in payloads:
            connection.publish(subject, payload)
        connection.flush()


def row(page: Page, words: str) -> Locator:
    return page.locator("tr[data-key]").filter(has_text=words)


def test_queries_are_shown_by_their_reports(console: Console, headrace_served: Served) -> None:
    page = console.open("#/pipelines", account="app")
    expect(page.get_by_text("The console does not know where pipelines report.")).to_be_visible()
    page.get_by_label("Subject of the reports").fill("two words")
    page.get_by_role("button", name="Listen").click()
    expect(page.get_by_text("A subject has no spaces.")).to_be_visible()
    page.get_by_label("Subject of the reports").fill("ops.shown")
    page.get_by_role("button", name="Listen").click()
    expect(page.get_by_text("No report has come yet.")).to_be_visible()

    good, bad = QueryState("table"), QueryState(HOSTILE)
    good.update([progress(0, 1000, 40)])
    bad.fail(f"{HOSTILE}\n at line 3")
    wait_for_listener(page, headrace_served, "ops.shown", report(good, bad))
    expect(row(page, "table")).to_contain_text("running")
    expect(row(page, "table")).to_contain_text("512/s")
    expect(row(page, "failed")).to_contain_text("<img src=x onerror=alert(1)> \\u{202e}gnp")
    assert page.locator("img[src=x]").count() == 0
    good.update([progress(1, 500, 7)])
    strange = (b"no report", b"\xff\xfe", b'{"pipeline": 7}', b"x" * 900_000)
    publish(headrace_served, "ops.shown", report(good), *strange)
    expect(row(page, "table")).to_contain_text("1,500")
    expect(page.get_by_text("4 messages on this subject are no reports")).to_be_visible()
    row(page, "table").get_by_text("table").click()
    expect(page.get_by_role("dialog")).to_contain_text("Messages that wait")
    page.keyboard.press("Escape")


def wait_for_listener(page: Page, served: Served, subject: str, payload: bytes) -> None:
    """Publish until the page has heard it: it may not listen yet."""
    for _ in range(100):
        publish(served, subject, payload)
        try:
            expect(page.locator("tr[data-key]").first).to_be_visible(timeout=500)
        except AssertionError:
            continue
        return
    raise AssertionError("the page heard no report")


def test_subject_of_the_configuration_is_listened_to(chromium: Browser, nats_server_served: Served) -> None:
    with ConsoleFiles(nats_server_served.socket, pipelines="ops.configured") as files:
        console = Console(chromium, files.url, nats_server_served.socket)
        page = console.open("#/pipelines", account="app")
        expect(page.get_by_text("What pipelines report on ops.configured")).to_be_visible()
        expect(page.get_by_text("No report has come yet.")).to_be_visible()
        console.close()


def test_user_who_may_not_listen_is_told_so(any_console: Console) -> None:
    page = any_console.open("#/pipelines?subject=ops.x", account="nobody")
    expect(page.get_by_text("Your user has no right to this.")).to_be_visible()


# -- what is not drawn -------------------------------------------------------------------------------------

TAKEN = """
const reports = new it.PipelineReports();
for (const text of texts) reports.take(new TextEncoder().encode(text), 0);
const shown = ({ pipeline, query }) => [pipeline, query.query, query.lag, query.failure];
return [[...reports.queries.values()].map(shown), reports.strange];
"""


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["", "null", "[]", "7", "{}", '{"pipeline": "p"}', '{"queries": []}'], [[], 7]),
        (['{"pipeline": "p", "queries": [null, 7, {}, {"query": 7}]}'], [[], 0]),
        (
            ['{"pipeline": "p", "queries": [{"query": "q", "lag": "7", "failure": {}}]}'],
            [[["p", "q", None, None]], 0],
        ),
        (
            [f'{{"pipeline": "p", "queries": [{{"query": "q", "lag": {lag}}}]}}' for lag in (1, 2)],
            [[["p", "q", 2, None]], 0],
        ),
    ],
    ids=["no reports", "no queries", "of other types", "the newest counts"],
)
def test_reports_of_any_shape_are_read(texts: list[str], expected: list[object]) -> None:
    assert evaluate("data/pipeline_reports.js", TAKEN, texts=texts) == expected


def test_names_without_end_are_not_kept() -> None:
    kept = evaluate(
        "data/pipeline_reports.js",
        """
        const reports = new it.PipelineReports();
        const queries = Array.from({ length: it.MOST + 50 }, (_, place) => ({ query: `q${place}` }));
        reports.take(new TextEncoder().encode(JSON.stringify({ pipeline: "p", queries })), 0);
        return [reports.queries.size, it.MOST];
        """,
    )
    assert kept[0] == kept[1]
