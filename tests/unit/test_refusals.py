"""Publications that cannot be stored are a line, then a count: of a stream, of a channel."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from harness.js_account import Place
from headrace.log.store import FileStore
from headrace.refusals import REPORT_S, Refusals
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class Log:
    """The lines, and the timers that wait."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.timers: list[Callable[[], object]] = []
        self.refusals = Refusals(self._later, lambda form, text: self.lines.append(form % text))

    def _later(self, seconds: float, function: Callable[[], object]) -> None:
        assert seconds == REPORT_S
        self.timers.append(function)

    def pass_time(self) -> None:
        """Have the interval end."""
        timers, self.timers = self.timers, []
        for function in timers:
            function()


def test_the_first_refusal_is_a_line_and_the_others_are_counted() -> None:
    log = Log()
    log.refusals.refused("stream S", "full", 2)
    for _ in range(1000):
        log.refusals.refused("stream S", "still full", 3)
    assert log.lines == ["stream S: 2 messages could not be stored: full"]
    log.pass_time()
    assert log.lines[1:] == ["stream S: 3,000 more could not be stored: still full"]
    log.refusals.refused("stream S", "full to the end")
    log.pass_time()
    assert log.lines[2:] == ["stream S: 1 more could not be stored: full to the end"]
    log.pass_time()
    assert len(log.lines) == 3
    assert not log.timers, "nothing is counted, and nothing is kept"


def test_what_refuses_again_later_is_told_at_once_and_others_are_told_beside_it() -> None:
    log = Log()
    log.refusals.refused("stream S", "full")
    log.refusals.refused("stream T", "full")
    log.pass_time()
    log.refusals.refused("stream S", "full again")
    assert log.lines == [
        "stream S: a message could not be stored: full",
        "stream T: a message could not be stored: full",
        "stream S: a message could not be stored: full again",
    ]


def test_a_stream_whose_disk_fails_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFileSystem(MemoryFileSystem())
    place = Place(file=FileStore(Path("/store"), filesystem=files, remembers=False))
    place.stream("S", subjects=["s"])
    place.publish("s", b"stored")
    files.fail_at, files.failures = files.calls + 1, 1_000_000
    with caplog.at_level(logging.ERROR):
        for _ in range(50):
            place.publish("s", b"refused")
        place.host.pass_time(REPORT_S + 1)
    first, last = (line for line in caplog.messages if "could not be stored" in line)
    assert first.startswith("stream S: a message could not be stored: ")
    assert last.startswith("stream S: 49 more could not be stored: ")
