"""Stored messages of a stream, read one after the other without a consumer.

    for message in ReadableStream(assets, "ORDERS").forward(subject="orders.eu.>"):
        print(message.sequence, message.data)

Nothing is taken from a work queue by that, and nothing is left behind. Where the stream allows direct gets,
messages come in batches; elsewhere one request asks for one message. Never lives here: messages as they come
(`consuming`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from headrace.client.api import stored_message
from headrace.client.errors import JetStreamMissingError, NoRespondersError
from headrace.client.headers import DESCRIPTION, STATUS, parse_headers
from headrace.client.jetstream_api import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.api import JetStreamAssets, StreamMessage

_BATCH: Final = 256
_BATCH_BYTES: Final = 4 << 20
"""Bytes after which the server ends a batch."""
_LARGEST_WINDOW: Final = 1 << 16
"""Sequences that reading backwards looks at in one step, at most; the messages there are kept meanwhile."""


class ReadableStream:
    """A stream whose stored messages are read, as it is when reading begins.

    Raises, from every method: as `JetStreamApi.ask`; JetStreamMissingError if there is no such stream.
    """

    def __init__(self, assets: JetStreamAssets, stream: str) -> None:
        self._assets = assets
        self._stream = stream
        info = assets.stream_info(stream)
        config, state = info["config"], info["state"]
        self._is_direct = bool(config.get("allow_direct"))
        self.first_sequence = int(state["first_seq"])
        self.last_sequence = int(state["last_seq"])

    def forward(
        self,
        *,
        first: int = 1,
        last: int | None = None,
        since_ns: int | None = None,
        subject: str | None = None,
        batch: int = _BATCH,
    ) -> Iterator[StreamMessage]:
        """Yield messages with rising sequences: from `first` to `last` (those that are there now), from a
        time on (ns since 1970 UTC), of subjects that match. `batch`: how many are asked for at once.
        """
        end = self.last_sequence if last is None else min(last, self.last_sequence)
        position = max(first, self.first_sequence)
        if since_ns is not None:
            found = self._first_since(since_ns)
            if found is None:
                return
            position = max(position, found)
        while position <= end:
            page = self._page(position, min(batch, end - position + 1), subject)
            for message in page:
                if message.sequence > end:
                    return
                yield message
            if not page:
                return
            position = page[-1].sequence + 1

    def backward(
        self,
        *,
        first: int = 1,
        since_ns: int | None = None,
        subject: str | None = None,
        window: int = _BATCH,
    ) -> Iterator[StreamMessage]:
        """Yield messages with falling sequences, from the last one down to `first` or a time. `window`: the
        sequences that are looked at in the first step; where few are found the steps become larger.
        """
        lowest = max(first, self.first_sequence)
        if since_ns is not None:
            found = self._first_since(since_ns)
            if found is None:
                return
            lowest = max(lowest, found)
        end = self.last_sequence
        while end >= lowest:
            start = max(end - window + 1, lowest)
            messages = list(self.forward(first=start, last=end, subject=subject))
            yield from reversed(messages)
            if len(messages) < window // 4:
                window = min(window * 4, _LARGEST_WINDOW)
            end = start - 1

    def _first_since(self, since_ns: int) -> int | None:
        try:
            return self._assets.message(self._stream, since_ns=since_ns).sequence
        except JetStreamMissingError:
            return None

    def _page(self, position: int, count: int, subject: str | None) -> list[StreamMessage]:
        """The next messages from a sequence on, at least one if there is one."""
        if self._is_direct and count > 1:
            return self._batch(position, count, subject)
        try:
            wanted = subject or ">"
            found = self._assets.message(self._stream, position, next_of=wanted, direct=self._is_direct)
        except JetStreamMissingError:
            return []
        return [found]

    def _batch(self, position: int, count: int, subject: str | None) -> list[StreamMessage]:
        request: dict[str, Any] = {"seq": position, "batch": count, "max_bytes": _BATCH_BYTES}
        if subject is not None:
            request["next_by_subj"] = subject
        api = self._assets.api
        found: list[StreamMessage] = []
        with api.inbox() as inbox:
            asked = inbox.ask(api.subject(f"DIRECT.GET.{self._stream}"), json.dumps(request).encode())
            for arrived in asked:
                for block, payload in zip(arrived.header_blocks(), arrived.payloads, strict=True):
                    headers = {} if block is None else parse_headers(block)
                    status = headers.get(STATUS, [""])[0]
                    if not status:
                        found.append(stored_message(headers, payload))
                    elif status in ("204", "404"):
                        return found
                    elif status == "503":
                        raise NoRespondersError(f"no server answers direct gets of {self._stream}")
                    else:
                        code = int(status) if status.isdigit() else 500
                        raise refusal(code, 0, " ".join(headers.get(DESCRIPTION, [status])).lower())
        raise AssertionError("an inbox ends by an error only")
