"""The difference of two texts: from its lines both can be read again, and it is as short as it can be."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harness.browser import Console

DIFFERENCES = """async (pairs) => {
    const { lineDifference } = await import("./data/lines.js");
    const rows = (lines) => lines.map(({ kind, text }) => [kind, text]);
    return pairs.map(([before, after]) => rows(lineDifference(before, after)));
}"""


def test_both_texts_can_be_read_from_their_difference(console: Console) -> None:
    draw = random.Random(19)
    texts = [[draw.choice("abc") for _ in range(draw.randint(1, 9))] for _ in range(400)]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    asked = [["\n".join(before), "\n".join(after)] for before, after in pairs]
    for (before, after), lines in zip(pairs, console.open().evaluate(DIFFERENCES, asked), strict=True):
        assert [text for kind, text in lines if kind != "new"] == before
        assert [text for kind, text in lines if kind != "gone"] == after
        assert sum(kind == "same" for kind, _ in lines) == longest_common(before, after)


@pytest.mark.parametrize(("before", "after"), [("", "a"), ("a", ""), ("", ""), ("a\r\nb", "a\nb")])
def test_empty_texts_and_line_ends(console: Console, before: str, after: str) -> None:
    [lines] = console.open().evaluate(DIFFERENCES, [[before, after]])
    assert [text for kind, text in lines if kind != "new"] == before.splitlines()
    assert [text for kind, text in lines if kind != "gone"] == after.splitlines()


def test_texts_that_have_nothing_in_common_cost_little(console: Console) -> None:
    before = "\n".join(f"a{number}" for number in range(3_000))
    after = "\n".join(f"b{number}" for number in range(3_000))
    [lines] = console.open().evaluate(DIFFERENCES, [[before, after]])
    assert len(lines) == 6_000


def longest_common(before: list[str], after: list[str]) -> int:
    """Return how many lines two lists can have in common, in order."""
    row = [0] * (len(after) + 1)
    for line in before:
        last = row
        row = [0]
        for place, other in enumerate(after):
            row.append(last[place] + 1 if line == other else max(last[place + 1], row[place]))
    return row[-1]
