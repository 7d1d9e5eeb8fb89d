"""Spark's scans: the rows that are written, and what is said about the result."""

import json

import pytest
from bench.__main__ import parse_arguments
from bench.render import PAGE, RESULTS, replace_section
from bench.spark_scan import ROW_BYTES, fill, payload, scan_text

from headrace.log.view import LogView, read_slice

RESULT = {
    "created": "2026-01-01 00:00 UTC",
    "machine": {"cpu": "x", "cores": 2, "memory_gib": 4},
    "command": "python -m bench spark-scan",
    "rows": 10,
    "reps": 3,
    "load": 2.0,
}


def test_rows_are_json_of_their_size_and_all_different():
    rows = [payload(number) for number in (1, 2, 99, 4_000_000, 99_999_999)]
    assert {len(row) for row in rows} == {ROW_BYTES}
    assert len({json.loads(row)["user"] for row in rows}) == len(rows)


def test_log_is_filled_with_so_many_rows(tmp_path):
    fill(tmp_path, 12_001)
    view = LogView(tmp_path / "logs" / "bench")
    found = [m.payload for part in view.slices(1, 99_999, 1) for page, _ in read_slice(part) for m in page]
    assert found == [payload(number) for number in range(1, 12_002)]


@pytest.mark.parametrize(
    ("rates", "verdicts"),
    [
        ({"path": 2e6, "parquet": 4e6, "server": 3e6, "pull": 1e5}, ["0.50× Parquet", "30× nats-py"]),
        ({"path": 1.9e6, "parquet": 4e6, "server": 2e6, "pull": 1e5}, ["0.47× Parquet", "20× nats-py"]),
    ],
)
def test_text_says_which_targets_are_met(rates, verdicts):
    text = scan_text({**RESULT, "rates": {name: [rate, rate, rate * 9] for name, rate in rates.items()}})
    assert all(verdict in text for verdict in verdicts)
    assert text.count("**met**") == (3 if rates["server"] == 3e6 else 0)


def test_page_of_the_project_is_what_its_result_renders():
    path = RESULTS / "spark-scan.json"
    page = PAGE.read_text(encoding="utf-8")
    text = scan_text(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else "Not measured yet.\n"
    assert replace_section(page, "spark-scan", text) == page


def test_command_line_takes_rows_and_repetitions():
    options = parse_arguments(["spark-scan", "--rows", "9", "--reps", "2"])
    assert (options.verb, options.rows, options.reps, options.name) == ("spark-scan", 9, 2, "spark-scan")
