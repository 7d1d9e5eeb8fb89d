"""Times as the JSON of the API shows them: without the zeros that a fraction would end with."""

from __future__ import annotations

from headrace.protocol.rfc3339 import format_time


def shown_time(ns: int) -> str:
    return format_time(ns)
