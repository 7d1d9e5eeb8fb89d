"""Mistakes of our own as one log line: what was raised, and the way there, innermost call first.

A peer that finds a request which makes one can send it again and again, so a whole traceback each time would
be his to fill a disk with. Errors raised on purpose (`errors`) are words already and have no business here.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import Final

INTERNAL_ERROR: Final = "internal error"
"""What a peer is told of one: nothing that it could use."""
_MOST_CALLS: Final = 8
"""Of the way, the innermost ones."""
_MOST_TEXT: Final = 300
"""Characters of an exception's own text, which may quote what a peer sent."""


def in_one_line(error: BaseException) -> str:
    """For example `TypeError: unorderable (requests.py:254 in _checked < backup.py:180 in restore)`.

    A group of exceptions is all of them, one after the other.
    """
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(in_one_line(one) for one in error.exceptions)
    calls = reversed(traceback.extract_tb(error.__traceback__)[-_MOST_CALLS:])
    way = " < ".join(f"{PurePath(call.filename).name}:{call.lineno} in {call.name}" for call in calls)
    text = " ".join(str(error).split())[:_MOST_TEXT]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{said} ({way})" if way else said
