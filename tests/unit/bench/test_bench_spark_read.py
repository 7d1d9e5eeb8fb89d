"""Spark's reading of JetStream beside nats-py: the command line, and what is said about the result."""

import json

import pytest
from bench.__main__ import OWN, parse_arguments
from bench.render import PAGE, RESULTS, replace_section
from bench.spark_read import read_text

RESULT = {
    "created": "2026-01-01 00:00 UTC",
    "machine": {"cpu": "x", "cores": 2, "memory_gib": 4},
    "command": "python -m bench spark-read",
    "rows": 10,
    "reps": 3,
}


@pytest.mark.parametrize(
    ("spark", "verdict"), [(8e5, "8.0× nats-py (target ≥ 8×: **met**)"), (7e5, "**missed**")]
)
def test_text_says_whether_the_target_is_met(spark, verdict):
    rates = {"reader": 5e5, "pull": 1e5, "spark": spark, "spark-pull": 1e5}
    text = read_text({**RESULT, "rates": {name: [rate, rate, rate * 9] for name, rate in rates.items()}})
    assert verdict in text
    assert "5.0× nats-py" in text


def test_page_of_the_project_is_what_its_result_renders():
    path = RESULTS / "spark-read.json"
    page = PAGE.read_text(encoding="utf-8")
    text = read_text(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else "Not measured yet.\n"
    assert replace_section(page, "spark-read", text) == page


def test_command_line_takes_rows_and_repetitions():
    options = parse_arguments(["spark-read", "--rows", "9", "--reps", "2"])
    assert (options.verb, options.rows, options.reps, options.name) == ("spark-read", 9, 2, "spark-read")
    assert options.verb in OWN
