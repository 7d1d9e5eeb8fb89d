"""Lines that repeat: the first are written, the others counted, and the count is said."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from go_reference import RawClient

from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.options import Options
from headrace.server.log_limits import LINES, LINES_OF_KIND, LINES_OF_SOURCE, WINDOW, LogLimits
from headrace.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable


class Bench:
    """A limiter on a clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.limits = LogLimits(
            logging.getLogger("test.limits"),
            lambda: self.now,
            lambda seconds, work: self.due.append((self.now + seconds, work)),
        )

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due, self.due = self.due, []
        for moment, work in due:
            if moment <= self.now:
                work()
            else:
                self.due.append((moment, work))

    def admitted(self, text: str, count: int, source: str = "10.0.0.1") -> int:
        return sum(self.limits.admits(text, source) for _ in range(count))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_few_lines_are_all_written_and_nothing_is_said_of_them(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    assert bench.admitted("authentication error - User", LINES_OF_SOURCE) == LINES_OF_SOURCE
    bench.pass_time(WINDOW)
    assert bench.due == []
    assert bench.admitted("authentication error", 1) == 1
    assert said(caplog) == []


def test_lines_of_one_address_are_cut_and_counted(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    assert bench.admitted("authentication error - User", 1000) == LINES_OF_SOURCE
    assert said(caplog) == []
    bench.pass_time(WINDOW)
    assert said(caplog) == [
        f'{1000 - LINES_OF_SOURCE} more errors that begin with "authentication error" were not logged'
    ]
    assert bench.admitted("authentication error - User", 1000) == LINES_OF_SOURCE


def test_another_address_and_another_kind_are_still_heard(bench: Bench) -> None:
    bench.admitted("authentication error - User", 1000)
    assert bench.admitted("authentication error - User", 1, source="10.0.0.2") == 1
    assert bench.admitted("Publish Violation - Subject", 1) == 1


def test_many_addresses_share_what_their_kind_has(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    written = sum(bench.admitted("authentication error", 1, source=str(number)) for number in range(5000))
    assert written == LINES_OF_KIND
    bench.pass_time(WINDOW)
    assert said(caplog)[0].startswith(f"{5000 - LINES_OF_KIND} more ")


def test_all_kinds_together_are_limited_and_bounded(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    written = sum(bench.admitted(f"kind{number} of line", 1) for number in range(5000))
    assert written == LINES
    assert len(bench.limits._written) <= 2 * LINES
    bench.pass_time(WINDOW)
    assert said(caplog) == [f"{5000 - LINES} more errors of other kinds were not logged"]


def test_words_of_peers_make_no_kinds(bench: Bench) -> None:
    written = sum(bench.admitted(f"parse error: {number} {number}", 1) for number in range(100))
    assert written == LINES_OF_SOURCE


def test_count_is_said_even_when_nothing_follows_and_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.admitted("parse error", LINES_OF_SOURCE + 1)
    bench.pass_time(WINDOW / 2)
    bench.admitted("parse error", 1)
    bench.pass_time(WINDOW / 2)
    bench.pass_time(WINDOW)
    bench.limits.flush()
    assert said(caplog) == ['2 more errors that begin with "parse error" were not logged']


def test_log_at_the_end_of_a_server_is_complete(caplog: pytest.LogCaptureFixture) -> None:
    asked = LINES_OF_SOURCE + 5

    def connect(port: int) -> None:
        for _ in range(asked):
            with RawClient(port, lambda _: {"auth_token": "wrong"}) as client:
                client.sync()

    async def main() -> None:
        options = Options(host="127.0.0.1", port=-1, authorization=AuthorizationOptions(token="right"))
        async with Server(options) as server:
            await asyncio.to_thread(connect, server.port)

    with caplog.at_level(logging.INFO, "headrace.server"):
        asyncio.run(main())
    lines = said(caplog)
    assert sum('authentication error - Token "[REDACTED]"' in line for line in lines) == LINES_OF_SOURCE
    assert '5 more errors that begin with "authentication error" were not logged' in lines
