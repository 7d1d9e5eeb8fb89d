"""A tab that stays open for an hour: when it is measured, what ends the run, what the page says of it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bench.console_hour import SECTION, _moments, _watch
from bench.errors import BenchError
from bench.progress import Progress


class FakePage:
    """A page whose memory grows with each question, and that never rests."""

    def __init__(self):
        self.asked = 0
        self.walked = []

    def wait_for(self, selector):
        pass

    def rest(self, ms):
        pass

    def touch(self):
        self.walked.append("touched")

    def scroll(self, selector):
        pass

    def shown_after(self, address, selector):
        self.walked.append(address)
        return 1.0

    def memory(self):
        self.asked += 1
        return {"heap_mib": 4.0, "nodes": 900, "listeners": 100, "private_mib": 50.0 * self.asked}

    def kept_heap_mib(self):
        return 3.0


def process(code):
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, encoding="utf-8")


def result(*private_mib):
    samples = [
        {"minute": 5 * place, "heap_mib": 4, "nodes": 1200, "listeners": 9, "private_mib": private}
        for place, private in enumerate(private_mib)
    ]
    for place in (0, -1):
        samples[place]["kept_heap_mib"] = 3
    return {"minutes": 60, "many": 10_000, "rate": 2_000, "samples": samples}


def test_tab_is_measured_before_and_after_a_walk_that_ends_at_the_messages(capsys):
    page = FakePage()
    with process("import time; time.sleep(60)") as load:
        samples = _watch(page, load, 0, Progress(2))
        load.kill()
    assert [sample["private_mib"] for sample in samples] == [50.0, 100.0]
    assert all("kept_heap_mib" in sample for sample in samples)
    assert page.walked[:3] == ["touched", "#/streams", "#/connections"]
    assert page.walked[-1] == "#/live?subject=load.%3E"


def test_tab_is_measured_every_five_minutes_and_at_its_end():
    assert _moments(60) == [60]
    assert _moments(600) == [300, 600]
    assert _moments(3600)[-2:] == [3300, 3600]
    assert _moments(700) == [300, 600, 700]


def test_load_that_ends_too_early_is_an_error_with_its_words(capsys):
    with process("import sys; sys.exit('no such server')") as load:
        load.wait()
        with pytest.raises(BenchError, match="ended too early: no such server"):
            _watch(FakePage(), load, 0, Progress(2))


def test_page_says_the_most_memory_and_whether_it_is_under_the_bar():
    words = SECTION.words(result(50, 190, 60))
    assert "at most 199 MB: under 200 MB" in words
    assert words.splitlines()[3] == "| 5 | 4.0 MiB | 1,200 | 9 | 190 MiB |"


def test_page_says_that_a_tab_was_over_the_bar():
    assert "at most 201 MB: **over 200 MB**" in SECTION.words(result(50, 192, 60))
