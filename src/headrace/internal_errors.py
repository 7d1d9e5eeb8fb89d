"""Internal errors (exceptions that nobody raised on purpose) as one log line: the error, then its calls.

A peer that finds a request which causes one can send it again and again, and would fill the disk with whole
tracebacks. Exceptions that are raised on purpose (`errors`) have a text of their own and are not handled
here.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import Final

INTERNAL_ERROR: Final = "internal error"
"""The text that a peer gets: it says nothing that an attacker could use."""
_MOST_CALLS: Final = 8
"""The number of calls that are named, innermost first."""
_MOST_TEXT: Final = 300
"""Characters of an exception's own text, which may quote what a peer sent."""


def in_one_line(error: BaseException) -> str:
    """Describe an exception, as in `TypeError: unorderable (requests.py:254 in _checked < backup.py:180 in
    restore)`.

    Of a group of exceptions every member is described, one after the other.
    """
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(in_one_line(one) for one in error.exceptions)
    calls = reversed(traceback.extract_tb(error.__traceback__)[-_MOST_CALLS:])
    way = " < ".join(f"{PurePath(call.filename).name}:{call.lineno} in {call.name}" for call in calls)
    text = " ".join(str(error).split())[:_MOST_TEXT]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{said} ({way})" if way else said
