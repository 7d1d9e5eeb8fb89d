"""The outcomes of commands: exit codes, the texts of errors, the question before a removal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_FAILURE: Final = 1
"""Failure; the message says why."""
EXIT_DAMAGED: Final = 3
"""Done, as far as damage lets it; what is damaged is listed."""
EXIT_INTERRUPTED: Final = 130


def exit_code(name: str, call: Callable[[], int], *, again: str = "") -> int:
    """Return the exit code of `call`, or that of its error, which is printed in one line.

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


def confirmed(force: bool, question: str) -> bool:
    """Ask on the terminal; return True for yes, or if `force` is set. Without a terminal: False."""
    if force:
        return True
    if not sys.stdin.isatty():
        print(f"{question} Say so with --force.", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
