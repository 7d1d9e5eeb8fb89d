"""How commands end: their exit codes, and what is said of an error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_FAILURE: Final = 1
"""Not done; the message says why."""
EXIT_DAMAGED: Final = 3
"""Done, as far as damage lets it; what is damaged is listed."""
EXIT_INTERRUPTED: Final = 130


def exit_code(name: str, call: Callable[[], int], *, again: str = "") -> int:
    """What `call` gives, or the code of its error, which is one line under the command's name.

    `again`: what to do after an interruption. Raises: BrokenPipeError; the program knows what it means.
    """
    try:
        return call()
    except BrokenPipeError:
        raise
    except (HeadraceError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt:
        print(f"{name}: interrupted{'; ' if again else ''}{again}", file=sys.stderr)
        return EXIT_INTERRUPTED
