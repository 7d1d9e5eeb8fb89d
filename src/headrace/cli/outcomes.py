"""The outcomes of commands: exit codes, and what becomes of errors.

Here lives which error ends a command with which code. Never lives here: questions (`confirm`), what commands
print (`output`).
"""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable


class ExitCode(IntEnum):
    """The exit codes of commands; a code means the same for each of them."""

    DONE = 0
    FAILED = 1
    """Failure; the message says why."""
    WRONG_USE = 2
    """The command line cannot be obeyed; nothing was done."""
    WRONG = 3
    """Done, and something that was checked is wrong or damaged; what it is was listed."""
    NOT_THERE = 4
    """A stream, key, context or the like of that name is not there."""
    NO_RESPONDERS = 5
    """No client is subscribed to the subject, or JetStream is not there."""
    REFUSED = 6
    """The service or the server answered with an error."""
    NO_CONNECTION = 7
    """No server can be reached, or it does not take these credentials."""
    TIMED_OUT = 8
    NOT_PERMITTED = 9
    """The user has no permission for the subject."""
    EXISTS = 10
    """A thing of that name is there already, or has other settings."""
    INTERRUPTED = 130


KINDS: Final = {
    ExitCode.FAILED: "failed",
    ExitCode.WRONG_USE: "wrong_use",
    ExitCode.WRONG: "wrong",
    ExitCode.NOT_THERE: "not_there",
    ExitCode.NO_RESPONDERS: "no_responders",
    ExitCode.REFUSED: "refused",
    ExitCode.NO_CONNECTION: "no_connection",
    ExitCode.TIMED_OUT: "timed_out",
    ExitCode.NOT_PERMITTED: "not_permitted",
    ExitCode.EXISTS: "exists",
    ExitCode.INTERRUPTED: "interrupted",
}
"""The names of codes in errors that are JSON."""


class CommandError(HeadraceError):
    """A command that ends with a certain exit code; the text is one line."""

    def __init__(self, text: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(text)
        self.exit_code = code


def code_of(error: BaseException) -> ExitCode:
    """Return the exit code of an error that ends a command."""
    if isinstance(error, CommandError):
        return error.exit_code
    for kind in type(error).__mro__:
        code = _CODES.get(kind.__name__)
        if code is not None:
            return code
    return code_of_name(type(error).__name__, getattr(error, "text", ""))


def code_of_name(kind: str, text: str) -> ExitCode:
    """Return the exit code of an error of this class, which another process has met; `text` is its text."""
    if kind == "ServerError":
        return ExitCode.NOT_PERMITTED if "Permissions Violation" in text else ExitCode.NO_CONNECTION
    return _CODES.get(kind, ExitCode.FAILED)


# By name: no error's module is loaded for an error that did not happen.
_CODES: Final = {
    "UsageError": ExitCode.WRONG_USE,
    "KeyNameError": ExitCode.WRONG_USE,
    "ObjectNameError": ExitCode.WRONG_USE,
    "DigestError": ExitCode.WRONG,
    "AddressError": ExitCode.WRONG_USE,
    "LoadOptionsError": ExitCode.WRONG_USE,
    "ContextMissingError": ExitCode.NOT_THERE,
    "CredentialsError": ExitCode.NO_CONNECTION,
    "TLSFileError": ExitCode.NO_CONNECTION,
    "ConnectError": ExitCode.NO_CONNECTION,
    "ConnectionLostError": ExitCode.NO_CONNECTION,
    "ClientTimeoutError": ExitCode.TIMED_OUT,
    "NoRespondersError": ExitCode.NO_RESPONDERS,
    "JetStreamMissingError": ExitCode.NOT_THERE,
    "JetStreamExistsError": ExitCode.EXISTS,
    "JetStreamError": ExitCode.REFUSED,
    "SystemRequestError": ExitCode.REFUSED,
    "ServerSourceError": ExitCode.NOT_PERMITTED,
    "PublishRefusedError": ExitCode.REFUSED,
    "StreamingRefusedError": ExitCode.REFUSED,
    "BackupDamagedError": ExitCode.WRONG,
}


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
        return error.exit_code if isinstance(error, CommandError) else ExitCode.FAILED
    except KeyboardInterrupt:
        print(f"{name}: interrupted{'; ' if again else ''}{again}", file=sys.stderr)
        return ExitCode.INTERRUPTED
