"""A syslog that is slow: lines wait, then they are dropped and counted, and the server never waits."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from harness.waiting import wait_until
from headrace.conf.options import Options
from headrace.server import syslog
from headrace.server.logs import SyslogFormatter

if TYPE_CHECKING:
    import pytest


def test_lines_that_syslog_does_not_take_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, has_begun = threading.Event(), threading.Event()
    sent: list[str] = []

    class Slow(logging.Handler):
        def __init__(self, url: str | None) -> None:
            super().__init__()

        def emit(self, record: logging.LogRecord) -> None:
            has_begun.set()
            goes_on.wait(10)
            sent.append(record.getMessage())

    monkeypatch.setattr(syslog, "_Sender", Slow)
    monkeypatch.setattr(syslog, "WAITING", 3)
    handler = syslog.SyslogHandler(Options(syslog=True))
    handler.setFormatter(SyslogFormatter())

    def say(text: str) -> None:
        handler.handle(logging.LogRecord("name", logging.INFO, "file", 1, text, None, None))

    say("first")
    assert has_begun.wait(10)
    for number in range(10):
        say(str(number))
    goes_on.set()
    wait_until(handler.queue.empty, "room")
    say("last")
    handler.close()
    handler.close()
    assert sent == [
        *("first\n", "0\n", "1\n", "2\n", "last\n"),
        "7 lines were dropped: syslog did not take them in time\n",
    ]
