"""`headrace errors`: the errors of JetStream by number and by text, and what to do about each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.client.error_explanations import EXPLANATIONS
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.protocol.jetstream.errors import ERRORS

if TYPE_CHECKING:
    from headrace.cli.call import Call


def list_all(call: Call) -> ExitCode | None:
    """List all errors."""
    return _list(call, "")


def find(call: Call) -> ExitCode | None:
    """List the errors that have a text in theirs or in the explanation, in letters of any case."""
    return _list(call, call.options.text.lower())


def look_up(call: Call) -> None:
    """Show one error. Raises: CommandError if no error has the number."""
    number = call.options.number
    if number not in ERRORS:
        raise CommandError(f"JetStream has no error {number}", ExitCode.NOT_THERE)
    found = _document(number)
    call.out.document(found, lambda: call.out.facts(found.items()), quiet=found["description"])


def _list(call: Call, text: str) -> ExitCode | None:
    items = [
        _document(number)
        for number in sorted(ERRORS)
        if text in ERRORS[number][1].lower() or text in EXPLANATIONS[number].lower()
    ]

    def show() -> None:
        from headrace.cli.text_table import ColumnKind, TextColumn

        columns = (
            TextColumn("Number", ColumnKind.TEXT),
            TextColumn("Code", ColumnKind.TEXT),
            TextColumn("Text"),
        )
        call.out.table(
            columns, [(str(each["err_code"]), str(each["code"]), each["description"]) for each in items]
        )

    call.out.listing(items, show, name="err_code")
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def _document(number: int) -> dict[str, Any]:
    code, text = ERRORS[number]
    return {"err_code": number, "code": code, "description": text, "explanation": EXPLANATIONS[number]}
