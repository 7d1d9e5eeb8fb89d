"""Counts of messages that arrive: by subject, or by the first tokens of subjects, and rates of all.

Here live the counters and how they are shown. Never lives here: where messages come from.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.cli.call import Call

_MOST: Final = 100_000
"""Subjects that are counted apart, so that others cannot fill the memory."""
_OTHERS: Final = "(others)"
_EVERY_S: Final = 1.0


class ArrivalReport:
    """The messages and bytes since the beginning. `depth`: tokens of a subject that count, 0 for all."""

    def __init__(self, call: Call, depth: int) -> None:
        self._out = call.out
        self._depth = depth
        self._counts: dict[str, list[int]] = {}
        self._began = self._said = time.monotonic()
        self._messages = self._bytes = 0
        self._said_messages = self._said_bytes = 0

    def count(self, subject: str, size: int) -> None:
        """Count a message; `size` in bytes."""
        self._messages += 1
        self._bytes += size
        found = self._counts.get(key := self._key(subject))
        if found is None:
            if len(self._counts) >= _MOST:
                key = _OTHERS
            found = self._counts.setdefault(key, [0, 0])
        found[0] += 1
        found[1] += size

    def tick(self) -> None:
        """Print the rates, if a second has passed since the last time."""
        now = time.monotonic()
        took = now - self._said
        if took < _EVERY_S:
            return
        messages, size = self._messages - self._said_messages, self._bytes - self._said_bytes
        self._said, self._said_messages, self._said_bytes = now, self._messages, self._bytes
        document = {
            "messages": messages,
            "size_bytes": size,
            "messages_per_second": round(messages / took, 3),
            "bytes_per_second": round(size / took, 3),
        }

        def show() -> None:
            from headrace.cli.values import shown_size

            self._out.line(
                f"{self._messages:,} messages, {messages / took:,.0f} a second, "
                f"{shown_size(round(size / took))} a second"
            )

        self._out.event(document, show)

    def show(self, top: int) -> None:
        """Print the subjects with the most messages, a line of JSON each."""
        took = max(time.monotonic() - self._began, 1e-9)
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1][0], item[0]))
        documents: list[dict[str, Any]] = [
            {
                "subject": subject,
                "messages": messages,
                "size_bytes": size,
                "messages_per_second": round(messages / took, 3),
                "bytes_per_second": round(size / took, 3),
            }
            for subject, (messages, size) in ordered[:top]
        ]
        if self._out.is_for_people:
            self._table(documents, len(ordered) - len(documents))
        else:
            for document in documents:
                self._out.event(document, lambda: None, quiet=document["subject"])

    def _table(self, documents: list[dict[str, Any]], left_out: int) -> None:
        from headrace.cli.text_table import ColumnKind, TextColumn

        number, size = ColumnKind.NUMBER, ColumnKind.SIZE
        columns = (
            TextColumn("Subject"),
            TextColumn("Messages", number),
            TextColumn("Bytes", size),
            TextColumn("Messages a second", number),
        )
        self._out.table(
            columns,
            [
                (each["subject"], each["messages"], each["size_bytes"], round(each["messages_per_second"]))
                for each in documents
            ],
        )
        if left_out > 0:
            self._out.note(f"{left_out} more subjects; --top says how many are shown")

    def _key(self, subject: str) -> str:
        if not self._depth:
            return subject
        tokens = subject.split(".")
        if len(tokens) <= self._depth:
            return subject
        return ".".join([*tokens[: self._depth], ">"])
