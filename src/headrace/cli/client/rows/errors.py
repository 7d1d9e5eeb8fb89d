"""The rows of `errors`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument

_KEYS: Final = (
    JsonKey("err_code", "JetStream's number of the error"),
    JsonKey("code", "its kind, as in HTTP"),
    JsonKey("description", "its text, with braces where a server puts something in"),
    JsonKey("explanation", "a sentence: what happened, and what to do"),
)

ROWS: Final = (
    CommandRow(
        words=("errors", "ls"),
        summary="List the errors of JetStream",
        run="api_errors:list_all",
        aliases=("list", "l"),
        connects=False,
        lists=True,
        json=JsonForm.LISTING,
        keys=_KEYS,
    ),
    CommandRow(
        words=("errors", "lookup"),
        summary="Show what an error number of JetStream means",
        run="api_errors:look_up",
        aliases=("get", "show", "view"),
        connects=False,
        arguments=(WordArgument("number", "the number, such as 10059", ValueKind.NUMBER),),
        keys=_KEYS,
        examples=("errors lookup 10059",),
    ),
    CommandRow(
        words=("errors", "find"),
        summary="Find errors of JetStream by their text or explanation",
        run="api_errors:find",
        connects=False,
        lists=True,
        arguments=(WordArgument("text", "a part of the text"),),
        json=JsonForm.LISTING,
        keys=_KEYS,
        examples=("errors find 'not found'",),
    ),
)
