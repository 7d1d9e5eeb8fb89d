"""When something was said, as a line of the log begins: as the clock shows it, to the microsecond."""

from __future__ import annotations

import datetime
import logging

import pytest

from headrace.server.logs import LineFormatter

MOMENTS = [1_700_000_000.0, 1_700_000_000.25, 1_700_000_000.5, 1_700_000_001.75, 1_699_999_999.125]
"""Of one second, of the next, and of one before: a clock may be put back."""


@pytest.mark.parametrize("utc", [False, True])
def test_each_line_has_its_own_time(*, utc: bool) -> None:
    formatter = LineFormatter(utc=utc)
    zone = datetime.UTC if utc else None
    for moment in MOMENTS:
        record = logging.makeLogRecord({"msg": "said", "levelno": logging.INFO, "created": moment})
        shown = datetime.datetime.fromtimestamp(moment, zone).strftime("%Y/%m/%d %H:%M:%S.%f")
        assert f" {shown} [INF] said" in formatter.format(record)
