"""Spans of stored messages: what of each channel a replay is about, and the two orders of several channels.

Reading only: nothing is sent or waited for here. Memory: one page for channels one after the other; for
several merged by time a bounded look ahead in each (`LOOK_AHEAD`), shared between them.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from headrace.engine.messages import StoredMessages
from headrace.log.port import LARGEST_SEQUENCE, LARGEST_TIME, StoredMessage, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.protocol.replay import ReplayRequest
    from headrace.streaming.channels import Channel

    Run = tuple["Span", StoredMessages[StoredMessage]]
    Pages = Iterator[list[Run]]
    """Pages of runs: messages of one channel that follow each other. An empty page was work too."""

PAGE: Final = 256
PAGE_BYTES: Final = 256 << 10
"""Bytes of one page; one message is more than that if it is larger."""
LOOK_AHEAD: Final = 1 << 20
SMALLEST_SHARE: Final = 1 << 10
"""Bytes that a merge holds of all its channels together, and of each at least; a message that is larger than
its channel's share is read a second time when it is due."""
LATEST: Final = LARGEST_SEQUENCE
_WIDEST_LOOK_BACK: Final = 1 << 16


class SendBudget:
    """The number of messages and bytes that may still be sent; no page is larger.

    The sender subtracts what it has sent.
    """

    __slots__ = ("_largest", "_most", "messages", "size")

    def __init__(self, messages: int, size: int, most: int = PAGE, largest: int = PAGE_BYTES) -> None:
        """Begin a page. `most` messages and `largest` bytes are a page."""
        self.messages = messages
        self.size = size
        self._most = most
        self._largest = largest

    def page(self) -> tuple[int, int]:
        """Messages and bytes of the next page."""
        return min(self.messages, self._most), min(self.size, self._largest)


class Span:
    """The part of one channel that a replay is about: from `position` on, which moves, to before `stop`."""

    def __init__(self, channel: Channel, request: ReplayRequest, now_ns: int, bound_ns: int) -> None:
        """Begin the span of one channel.

        `now_ns` is what time deltas are from; nothing newer than `bound_ns` belongs to it.

        What is visible at this moment belongs to it; its other limits are found by `settle`, which reads.
        """
        self.channel: Final = channel
        self.damaged: list[int] = []
        self.position = 1
        self.held = 0
        """The first message that was read and not sent; 0: all were."""
        self.stop = channel.visible + 1
        """The first sequence behind it."""
        self._request = request
        self._now_ns = now_ns
        self._bound_ns = bound_ns

    @property
    def pending(self) -> int:
        """The number of sequences that were not sent and not passed over: an upper bound of the messages."""
        return max(self.stop - (self.held or self.position), 0)

    def settle(self, *, is_timed: bool) -> None:
        """Find the first sequence of the span and the one behind its last. Raises: LogError."""
        request, log = self._request, self.channel.log
        state = log.state()
        self.stop = min(self.stop, (request.end_sequence or LATEST) + 1)
        until = self._bound_ns if request.end_time_ns is None else min(self._bound_ns, request.end_time_ns)
        if until < state.last_time_ns:
            self.stop = min(self.stop, log.sequence_at(_clamped(until + 1)))
        since = request.start_time_ns
        if request.start_delta_ns is not None:
            since = self._now_ns - request.start_delta_ns
        start = request.start_sequence if since is None else log.sequence_at(_clamped(since))
        self.position = max(start, 1)
        if request.after is not None:
            self._skip(is_timed=is_timed)
        if request.last_only:
            self._keep_last()

    def _skip(self, *, is_timed: bool) -> None:
        """Go on behind the message that an earlier part of the replay ended with."""
        after = self._request.after
        if after is None:
            return
        name = self.channel.name
        if name == after.channel:
            self.position = max(self.position, after.sequence + 1)
        elif is_timed:
            time_ns = after.time_ns + (name < after.channel)
            self.position = max(self.position, self.channel.log.sequence_at(_clamped(time_ns)))
        elif name < after.channel:
            self.position = self.stop

    def _keep_last(self) -> None:
        """Move the beginning to the last message that is there; look further and further back."""
        width = 1
        while self.position < self.stop:
            start = max(self.position, self.stop - width)
            page = self.channel.log.read_from(start, max_messages=width, up_to=self.stop)
            found = page.messages[-1].sequence if page.messages else 0
            while page.next_sequence < self.stop:
                page = self.channel.log.read_from(page.next_sequence, max_messages=width, up_to=self.stop)
                found = page.messages[-1].sequence if page.messages else found
            if found or start == self.position:
                self.position = found or self.stop
                return
            self.stop, width = start, min(4 * width, _WIDEST_LOOK_BACK)

    def read(self, most: int, size: int) -> StoredMessages[StoredMessage]:
        """The next page; empty at the end, or where there is nothing. Notes damage. Raises: LogError."""
        if self.position >= self.stop:
            return StoredMessages(StoredMessage)
        page = self.channel.log.read_from(self.position, max_messages=most, max_bytes=size, up_to=self.stop)
        for sequence in page.damaged:
            self.channel.report_damage(sequence, "unreadable")
        self.damaged += page.damaged
        self.position = max(page.next_sequence, self.position + 1)
        return page.messages

    def hold(self, sequence: int) -> None:
        """Messages from this one on were read, and stay pending."""
        self.held = min(sequence, self.held or sequence)


def _clamped(time_ns: int) -> int:
    return min(max(time_ns, 0), LARGEST_TIME)


def by_channel(spans: list[Span], room: SendBudget) -> Pages:
    """Channels one after the other. Raises: LogError."""
    for span in spans:
        span.settle(is_timed=False)
        while span.position < span.stop:
            yield [(span, span.read(*room.page()))]


def by_time(spans: list[Span], room: SendBudget) -> Pages:
    """Messages of all channels in the order of (time, channel, sequence). Raises: LogError."""
    share = max(LOOK_AHEAD // len(spans), SMALLEST_SHARE)
    heap: list[tuple[int, bytes, int, _Source]] = []
    for span in spans:
        source = _Source(span, share)
        span.settle(is_timed=True)
        yield from source.fill()
        source.enter(heap)
    page: list[Run] = []
    count = size = 0
    while heap:
        source = heapq.heappop(heap)[3]
        most, largest = room.page()
        run, length = source.take(heap[0] if heap else None, most - count, largest - size)
        if not source.has_more:
            yield from source.fill()
        source.enter(heap)
        page.append((source.span, run))
        count += len(run)
        size += length
        if count >= most or size >= largest or not heap:
            yield page
            page, count, size = [], 0, 0


class _Source:
    """One channel in a merge, with what was read of it ahead."""

    __slots__ = ("_ahead", "_place", "_share", "span")

    def __init__(self, span: Span, share: int) -> None:
        self.span = span
        self._share = share
        self._ahead: list[StoredMessage] = []
        self._place = 0

    @property
    def has_more(self) -> bool:
        return self._place < len(self._ahead)

    def fill(self) -> Pages:
        """Read ahead until there is a message or the end; a tick may end in between."""
        most = min(max(self._share // 64, 1), PAGE)
        self._ahead, self._place = [], 0
        while not self._ahead and self.span.position < self.span.stop:
            self._ahead = list(self.span.read(most, self._share))
            yield []
        if len(self._ahead) == 1 and size_of(self._ahead[0]) > self._share:
            self._ahead = [self._ahead[0]._replace(payload=b"", headers=_TO_BE_READ)]

    def enter(self, heap: list[tuple[int, bytes, int, _Source]]) -> None:
        """Put the source where its next message belongs; a source that is at its end stays out."""
        self.span.held = 0
        if self.has_more:
            message = self._ahead[self._place]
            self.span.held = message.sequence
            heapq.heappush(heap, (message.time_ns, self.span.channel.name, message.sequence, self))

    def take(
        self, other: tuple[int, bytes, int, _Source] | None, most: int, room: int
    ) -> tuple[StoredMessages[StoredMessage], int]:
        """Take the messages that come before the next one of any other source, and their bytes.

        It is one message at least, else no more than `most`, nor more than fill the room.
        """
        ahead, start, name = self._ahead, self._place, self.span.channel.name
        if ahead[start].headers is _TO_BE_READ:
            self._place = start + 1
            message = self.span.channel.stored(ahead[start].sequence)
            found = [] if message is None else [message]
            return StoredMessages(StoredMessage, found), sum(map(size_of, found))
        end, size = start + 1, size_of(ahead[start])  # the first one was the least of all
        last = min(len(ahead), start + most)
        bound = other[:2] if other is not None else (LARGEST_TIME + 1, b"")
        while end < last and size < room and (ahead[end].time_ns, name) < bound:
            size += size_of(ahead[end])
            end += 1
        self._place = end
        return StoredMessages(StoredMessage, ahead[start:end]), size


_TO_BE_READ: Final = bytes(bytearray(b"later"))
"""Stands for the headers of a message whose parts are read when it is due; told by its identity."""
