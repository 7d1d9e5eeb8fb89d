"""Imports msgspec, for commands whose values are its structures: without typing_extensions.

msgspec asks for that where it is installed. It imports `inspect` and the compiler's modules, which takes a
twentieth of a start, and has nothing for msgspec that `typing` of Python 3.11 lacks. Other modules can import
it as ever. Commands of the client do without msgspec: it is half of what their start may take.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

_SLOW: Final = "typing_extensions"

if "msgspec" not in sys.modules and _SLOW not in sys.modules:
    sys.modules[_SLOW] = None  # type: ignore[assignment]  # Python's way of saying: there is no such module
    try:
        import_module("msgspec")
    finally:
        del sys.modules[_SLOW]
