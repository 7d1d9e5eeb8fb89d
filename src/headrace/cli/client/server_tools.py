"""`headrace server mapping` and `passwd`: tools for who writes a configuration. They need no server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call

_LEAST: Final = 10
"""Characters of a password below which it is too easily guessed."""
_MOST: Final = 72
"""Bytes that bcrypt takes; what is behind them would not count."""
_GENERATED: Final = 24


def mapping(call: Call) -> None:
    """Print what becomes of a subject. Raises: CommandError for a mapping that is none, or does not match."""
    from headrace.subjects.transform import SubjectTransform, TransformError

    options = call.options
    try:
        transform = SubjectTransform(options.source.encode(), options.destination.encode())
    except TransformError as error:
        raise CommandError(str(error), ExitCode.WRONG_USE) from error
    found = {"source": options.source, "destination": options.destination}
    if options.subject is not None:
        mapped = transform.match(options.subject.encode())
        if mapped is None:
            text = f"{options.subject!r} does not match {options.source!r}"
            raise CommandError(text, ExitCode.NOT_THERE)
        found |= {"subject": options.subject, "mapped": mapped.decode("utf-8", "backslashreplace")}
    shown = found.get("mapped", "the mapping is right")
    call.out.document(found, lambda: call.out.line(shown), quiet=found.get("mapped"))


def passwd(call: Call) -> None:
    """Print the bcrypt hash of a password. Raises: CommandError for one that is too short or too long."""
    import bcrypt

    cost = call.options.cost
    if not 4 <= cost <= 31:
        raise CommandError("--cost is between 4 and 31", ExitCode.WRONG_USE)
    password = _password(call)
    count = len(password.encode())
    if len(password) < _LEAST or count > _MOST:
        raise CommandError(
            f"a password has at least {_LEAST} characters, and at most {_MOST} bytes", ExitCode.WRONG_USE
        )
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost, b"2a")).decode()
    found = {"hash": hashed, **({"password": password} if call.options.generate else {})}

    def show() -> None:
        if call.options.generate:
            call.out.facts((("password", password), ("hash", hashed)))
        else:
            call.out.line(hashed)

    call.out.document(found, show, quiet=hashed)


def _password(call: Call) -> str:
    """Return the password: made, read from a pipe, or asked for twice."""
    if call.options.generate:
        if call.options.password is not None:
            raise CommandError("--generate makes the password", ExitCode.WRONG_USE)
        import secrets

        return secrets.token_urlsafe(_GENERATED)
    given: str | None = getattr(call.options, "pass", None)
    if given is not None:
        call.out.warn("--pass can be seen by others on this machine")
        return given
    if call.options.password == "-":
        return sys.stdin.readline().rstrip("\r\n")
    if call.options.password is not None:
        raise CommandError("a password is asked for, or - reads it from a pipe", ExitCode.WRONG_USE)
    from headrace.cli.confirm import ask_hidden

    first = ask_hidden(call.shared.no_interaction, "password: ")
    if ask_hidden(call.shared.no_interaction, "again: ") != first:
        raise CommandError("these are two passwords; nothing was done", ExitCode.WRONG_USE)
    return first
