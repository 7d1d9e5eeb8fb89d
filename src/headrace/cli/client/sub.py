"""`headrace sub`: messages of subjects as they come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.client.headers import Headers, parse_headers

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.codec import Head


def subscribe(call: Call) -> None:
    """Listen and print. Raises: CommandError, ClientError."""
    options = call.options
    from headrace.subjects.grammar import matches

    shown = _Shown(call)
    with call.reconnecting() as connection:
        for subject in options.subject:
            connection.subscribe(subject, options.queue)
        connection.flush(call.timeout)
        call.out.note(f"listening on {', '.join(options.subject)}")
        began = last = time.monotonic()
        while True:
            batch = connection.receive(_left(options, began, last))
            if not batch:
                return
            last = time.monotonic()
            for head, block, payload in zip(batch.heads, batch.header_blocks(), batch.payloads, strict=True):
                subject = head[0]
                if any(matches(pattern.encode(), subject) for pattern in options.ignore or ()):
                    continue
                if options.grep is not None and options.grep.encode() not in payload:
                    continue
                shown.show(head, block, payload)
                if options.count is not None and shown.count >= options.count:
                    return


def _left(options: object, began: float, last: float) -> float | None:
    """Return the seconds until it ends by itself; None if it does not."""
    now = time.monotonic()
    for_ns, idle_ns = getattr(options, "for"), getattr(options, "idle")  # noqa: B009 - `for` is a keyword
    ends = [start + limit / 1e9 for start, limit in ((began, for_ns), (last, idle_ns)) if limit is not None]
    return max(min(ends) - now, 0.0) if ends else None


class _Shown:
    """The messages that were printed."""

    def __init__(self, call: Call) -> None:
        self._out = call.out
        self._options = call.options
        self.count = 0

    def show(self, head: Head, block: bytes | None, payload: bytes) -> None:
        """Print a message."""
        from headrace.cli.json_keys import message_document

        self.count += 1
        headers = {} if block is None else parse_headers(block)
        reply = None if head[2] is None else head[2].decode("utf-8", "backslashreplace")
        subject = head[0].decode("utf-8", "backslashreplace")
        document = message_document(
            subject,
            payload,
            reply=reply,
            headers=headers,
            header_bytes=0 if block is None else len(block),
            received_ns=time.time_ns(),
        )
        if self._options.headers_only:
            document.pop("data", None)
            document.pop("data_base64", None)
        self._out.event(
            document, lambda: self._print(subject, reply, headers, payload), quiet=document.get("data")
        )

    def _print(self, subject: str, reply: str | None, headers: Headers, payload: bytes) -> None:
        out = self._out
        if self._options.raw:
            out.body(payload, raw=not out.is_terminal)
            return
        if self._options.subjects_only:
            out.line(subject)
            return
        out.line(f"[#{self.count}] {subject}{'' if reply is None else f' reply {reply}'}", "bold")
        for name, values in headers.items():
            for value in values:
                out.line(f"{name}: {value}", "dim")
        if not self._options.headers_only:
            if headers:
                out.line()
            out.body(payload)
            out.line()
