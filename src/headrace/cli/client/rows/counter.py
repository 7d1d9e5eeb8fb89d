"""The rows of `counter`: sums that anybody adds to."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag

_SUBJECT: Final = WordArgument("subject", "the subject of the counter", ValueKind.SUBJECT)
_AMOUNT: Final = WordArgument("amount", "how much (1)", ValueKind.NUMBER, "?")
_STREAM: Final = WordFlag(
    ("--stream",), "the stream that has it (the one that takes the subject)", ValueKind.STREAM
)
_KEYS: Final = (
    JsonKey("stream", "the stream"),
    JsonKey("subject", "the subject"),
    JsonKey("value", "the value, as a text: it may be larger than what programs read as a number"),
    JsonKey("sequence", "the sequence of its last message"),
)
_ALL_KEYS: Final = (
    *_KEYS,
    JsonKey("time", "the time at which it was last added to"),
    JsonKey("increment", "what was added then, as a text"),
    JsonKey("sources", "to each stream that is counted here, too, what its subjects came to; or absent"),
)
_ADDED_KEYS: Final = (*_KEYS, JsonKey("changes", "with --dry-run: `value` with `before` and `after`"))

ROWS: Final = (
    CommandRow(
        words=("counter", "ls"),
        summary="List counters",
        run="counter:list_all",
        aliases=("list", "l"),
        arguments=(WordArgument("subject", "their subjects, with * and > (all)", ValueKind.SUBJECT, "?"),),
        flags=(
            WordFlag(("--stream",), "those of a stream (of all that have counters)", ValueKind.STREAM),
            WordFlag(("--limit",), "list so many", ValueKind.NUMBER, default=1000),
        ),
        lists=True,
        json=JsonForm.LISTING,
        keys=_ALL_KEYS,
        examples=("counter ls 'hits.>'",),
    ),
    CommandRow(
        words=("counter", "get"),
        summary="Show the value of a counter",
        run="counter:get",
        aliases=("g",),
        arguments=(_SUBJECT,),
        flags=(_STREAM,),
        keys=_ALL_KEYS,
        examples=("counter get hits.home", "counter get hits.home -q"),
    ),
    CommandRow(
        words=("counter", "incr"),
        summary="Add to a counter",
        description="The stream of the subject has to allow counters: stream add S --allow counter.",
        run="counter:increase",
        aliases=("add", "increment", "inc", "i"),
        arguments=(_SUBJECT, _AMOUNT),
        changes=True,
        keys=_ADDED_KEYS,
        examples=("counter incr hits.home", "counter incr hits.home 5"),
    ),
    CommandRow(
        words=("counter", "decr"),
        summary="Take from a counter",
        run="counter:decrease",
        aliases=("decrement", "dec", "d"),
        arguments=(_SUBJECT, _AMOUNT),
        changes=True,
        keys=_ADDED_KEYS,
        examples=("counter decr stock.apples 3",),
    ),
)
