"""The bench of the sink believes no rate whose count is not exact."""

from __future__ import annotations

import json

import pytest
from bench.__main__ import OWN, parse_arguments
from bench.errors import BenchError
from bench.render import PAGE, RESULTS, replace_section
from bench.spark_sink import Side, loop, measure, sink_text, windowed

RESULT = {
    "created": "2026-01-01 00:00 UTC",
    "machine": {"cpu": "x", "cores": 2, "memory_gib": 4},
    "command": "python -m bench spark-sink",
    "rows": 1000,
    "reps": 3,
    "load": 2.0,
}


@pytest.mark.clients
@pytest.mark.parametrize("write", [loop, windowed])
def test_sides_of_nats_py_store_what_they_are_told(write: object) -> None:
    assert measure(Side("one", write, share=2), 40) > 0  # type: ignore[arg-type]


@pytest.mark.clients
def test_side_that_stores_too_few_is_an_error() -> None:
    with pytest.raises(BenchError, match="lazy: 19 messages stored, 20 were written"):
        measure(Side("lazy", lambda url, count: loop(url, count - 1)), 20)


def test_command_line_has_the_sink() -> None:
    options = parse_arguments(["spark-sink", "--count", "7"])
    assert (options.verb, options.count, options.reps) == ("spark-sink", 7, 3)
    assert options.verb in OWN


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [(5e4, "5.0× the loop (target ≥ 5×: **met**)"), (4.9e4, "4.9× the loop (target ≥ 5×: **missed**)")],
)
def test_text_says_whether_the_target_is_met(rate: float, verdict: str) -> None:
    rates = {"loop": 1e4, "windowed": 2e4, "exactly-once": rate, "at-least-once": 6e4}
    text = sink_text({**RESULT, "rates": {name: [one, one, one * 9] for name, one in rates.items()}})
    assert verdict in text
    assert "| 60 k to 540 k | 6.0× the loop |" in text
    assert "1,000 rows of 128 B into a new file stream of nats-server (50 for the loop)" in text


def test_page_of_the_project_is_what_its_result_renders() -> None:
    path = RESULTS / "spark-sink.json"
    page = PAGE.read_text(encoding="utf-8")
    text = sink_text(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else "Not measured yet.\n"
    assert replace_section(page, "spark-sink", text) == page
