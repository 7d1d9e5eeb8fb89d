"""Numbers for people, the bar, and plain lines without a terminal."""

import io

import pytest
from bench.progress import Progress, bar, cpu_text, duration, short_number


@pytest.mark.parametrize(
    ("value", "text"), [(8_412_345, "8.41 M"), (38_000, "38 k"), (512, "512"), (2.5e9, "2.5 G")]
)
def test_short_number_has_three_digits_and_a_unit(value, text):
    assert short_number(value) == text


@pytest.mark.parametrize(("ns", "text"), [(43.2, "43 ns"), (21_400, "21.4 µs"), (1_200_000, "1.20 ms")])
def test_cpu_text_chooses_its_unit(ns, text):
    assert cpu_text(ns) == text


def test_duration_has_minutes_and_seconds():
    assert duration(187.9) == "3:07"


@pytest.mark.parametrize(("done", "filled"), [(0, 0), (1, 5), (2, 10)])
def test_bar_is_filled_in_proportion(done, filled):
    assert bar(done, 2, 10) == "█" * filled + "░" * (10 - filled)


def test_progress_without_terminal_prints_one_plain_line_per_step():
    stream = io.StringIO()
    progress = Progress(2, stream)
    progress.begin("one")
    progress.step("one: 5/s")
    progress.step("two: 6/s")
    progress.close()
    assert stream.getvalue() == "[1/2] one: 5/s\n[2/2] two: 6/s\n"
