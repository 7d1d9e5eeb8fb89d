"""Payloads as they are shown: exact numbers, a form chosen while another is read, what is cut or packed."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.javascript import evaluate

if TYPE_CHECKING:
    from harness.browser import Console

LARGE: Final = 12345678901234567891
"""No number of JavaScript: it would be 12345678901234567000."""

VIEW: Final = """async (asked) => {
    const { payloadView } = await import(`${location.pathname}ui/payload.js`);
    const found = [];
    const turn = () => new Promise((resolve) => requestAnimationFrame(resolve));
    for (const [written, forms, isWhole, awaited] of asked) {
        const data = Uint8Array.from(atob(written), (letter) => letter.charCodeAt(0));
        const view = payloadView(data);
        document.querySelector("main").append(view);
        const body = view.lastElementChild;
        for (const form of forms) view.querySelector(`[data-value="${form}"]`).click();
        while (!body.childNodes.length) await turn();
        if (isWhole) body.querySelector("button").click();
        while (!body.querySelector(awaited)) await turn();
        for (let left = 20; left > 0; left -= 1) await turn();
        found.push(body.textContent.slice(0, 200));
        view.remove();
    }
    return found;
}"""
TREE: Final = ".json-tree"
TEXT: Final = "pre"


def test_payloads_are_shown_as_they_are(console: Console) -> None:
    """Large numbers exactly, the beginning of JSON as text, gzip of any size; what was chosen last stays."""
    numbers = json.dumps({"id": LARGE, "ns": -LARGE}).encode()
    long = json.dumps(["x" * 100] * 4_000).encode()
    for_worker = json.dumps({"id": LARGE, "rest": "x" * 1_100_000}).encode()
    digits = "".join(f"{number * number * 7919 % 1_000_003}\n" for number in range(150_000)).encode()
    packed = gzip.compress(digits, 1)
    assert len(packed) > 1 << 18, "more than is shown at first"
    cases: list[tuple[bytes, list[str], bool, str, str]] = [
        (numbers, [], False, TREE, f"{{2}}id: {LARGE}ns: {-LARGE}"),
        (long, [], False, TEXT, '["xxx'),
        (long, [], True, TREE, "[4000]"),
        (for_worker, [], True, TREE, f"{{2}}id: {LARGE}rest"),
        (packed, [], False, TEXT, "0\n7919\n"),
        (gzip.compress(b"inside " * 200_000), ["hex", "gzip", "base64"], False, TEXT, "H4sI"),
    ]
    asked = [[base64.b64encode(data).decode(), *rest] for data, *rest, _ in cases]
    found = console.open().evaluate(VIEW, asked)
    for text, (*_, beginning) in zip(found, cases, strict=True):
        assert text.startswith(beginning)
        assert "no JSON" not in text


@pytest.mark.parametrize(
    ("written", "exactly"),
    [("9007199254740993", "9007199254740993"), ("[-9007199254740993]", "-9007199254740993"), ("12", 12),
     ("1234567890.1234567890", 1234567890.1234567), ('"12345678901234567890"', "12345678901234567890")],
)  # fmt: skip
def test_json_is_read_exactly(written: str, exactly: Any) -> None:
    body = "const [one] = [it.readExactly(written)].flat(); return typeof one == 'bigint' ? String(one) : one"
    assert evaluate("data/exact_json.js", body, written=written) == exactly


def test_json_that_is_tidied_keeps_its_numbers() -> None:
    written = '{"id":12345678901234567891,"pi":3.14159265358979323846,"huge":1e400}'
    told = evaluate("data/exact_json.js", "return it.indented(written)", written=written)
    assert told.replace("\n", "").replace(" ", "") == written
    wrong = "try { it.indented('[1,'); return 'no error' } catch (error) { return error.name }"
    assert evaluate("data/exact_json.js", wrong) == "SyntaxError"


def test_conditions_compare_large_numbers_exactly() -> None:
    body = """
        const data = new TextEncoder().encode(`{"id":12345678901234567891}`);
        return typed.map((condition) => it.readFilter(condition).accepts(data));
    """
    typed = [f"id={LARGE}", f"id={LARGE - 1}", f"id>{LARGE - 1}", "id<1e30", "id!=5"]
    assert evaluate("pages/live/filter.js", body, typed=typed) == [True, False, True, True, True]


@pytest.mark.parametrize(
    ("text", "visible"),
    [("a\r\nb\tc", "a\r\nb\tc"), ("a\rb", "a\\u{d}b"), ("\u061ca\u202eb", "\\u{61c}a\\u{202e}b"),
     ("soft\u00adly", "soft\\u{ad}ly"), ("tag\U000e0041", "tag\\u{e0041}"), ("Zürich 東京", "Zürich 東京")],
)  # fmt: skip
def test_marks_that_nobody_sees_are_shown(text: str, visible: str) -> None:
    assert evaluate("dom/element.js", "return it.visible(text)", text=text) == visible
