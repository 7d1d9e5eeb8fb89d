"""Replays stored messages to whoever asks over plain NATS: which, in which order, and how fast.

A replay is about what was visible when it was asked for. It goes on page by page, all replays taking turns
within a bounded share of each tick; one waits while its reader has much unread, and ends when its reader is
gone. So neither an outbox nor this process fills up, whatever is asked for. What is sent has the shapes of
`protocol.replay`; nothing is remembered of a replay that has ended: one that was asked for in parts goes on
from the cursor its reader got.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.engine.columns import ColumnsBuilder
from headrace.engine.replay import send
from headrace.errors import LogClosed, LogError, ProtocolError
from headrace.protocol import columns
from headrace.protocol.durations import parse_duration
from headrace.protocol.replay import (
    ARROW,
    EOB,
    Cursor,
    End,
    ReplayRequest,
    add_damage,
    message_rest,
    message_start,
)
from headrace.streaming.naming import is_publishable, shown
from headrace.streaming.spans import LATEST, PAGE, PAGE_BYTES, SendBudget, Span, by_channel, by_time
from headrace.subjects.grammar import has_wildcard, is_valid_subject

if TYPE_CHECKING:
    from headrace.core.service import Delivery, Host, Timer
    from headrace.engine.messages import StoredMessages
    from headrace.log.port import StoredMessage
    from headrace.protocol.replay import Ranges
    from headrace.streaming.channels import Channel, Channels
    from headrace.streaming.context import Context, Counters

MOST_REPLAYS: Final = 256
"""The most replays at a time; one more is refused with 429."""
UNREAD_MARK: Final = 1 << 20
"""Bytes in the reader's outbox from which on its replay waits."""
COLUMNS_UNREAD_MARK: Final = 4 << 20
"""The same where a page is a large frame: its reader would be done with one before the next look, which is a
millisecond later at the earliest."""
TURN_MESSAGES: Final = 1024
TURN_BYTES: Final = 1 << 20
"""Bytes that all replays together send in one tick, and one page more."""
COLUMNS_PAGE: Final = 1 << 14
"""Messages of a page that goes out as columns; its bytes are three quarters of what one frame may have, so
that a page is one frame: what columns add to a message is a third of the rest at most, mostly far less."""
UNSEEN_BYTES: Final = 8 << 20
"""Bytes of one request, where the host does not see how much its reader has unread: it asks for the rest
itself.
"""
_FIRST_WAIT: Final = 0.001
_LONGEST_WAIT: Final = 0.032
"""Seconds between two looks at readers that all have much unread; doubled from look to look."""


class ServedReplay:
    """One request that is being answered."""

    def __init__(
        self, inbox: bytes, request: ReplayRequest, spans: list[Span], bound_ns: int, max_payload: int
    ) -> None:
        self.inbox: Final = inbox
        self.spans: Final = spans
        self._bound_ns = bound_ns
        self._columns = ColumnsBuilder() if request.format == ARROW else None
        self.unread_mark: Final = UNREAD_MARK if self._columns is None else COLUMNS_UNREAD_MARK
        self._frame = min(columns.FRAME_BYTES, max_payload)
        page = (PAGE, PAGE_BYTES) if self._columns is None else (COLUMNS_PAGE, max(3 * self._frame // 4, 1))
        self._room = room = SendBudget(request.max_messages or LATEST, request.max_bytes or LATEST, *page)
        self._last: tuple[Channel, StoredMessage] | None = None
        self._is_single = not has_wildcard(request.channel)
        is_timed = request.order == "time" if request.order else not self._is_single
        self._pages = by_time(spans, room) if is_timed and len(spans) > 1 else by_channel(spans, room)

    def send_page(self, host: Host) -> tuple[int, int] | None:
        """Send the next page; messages and bytes of it, 0 of what had none. None: that was all.

        Raises: LogError.
        """
        room = self._room
        if room.messages <= 0 or room.size <= 0:
            return None
        page = next(self._pages, None)
        if page is None:
            return None
        count = size = 0
        for span, messages in page:
            most = min(len(messages), room.messages)
            if most < len(messages):
                span.hold(messages[most].sequence)
            if most:
                size += self._send(host, span.channel.name, messages, most)
                self._last = span.channel, messages[most - 1]
                count += most
                room.messages -= most
        size += self._flush(host)
        host.announce()
        room.size -= size
        return count, size

    def _send(self, host: Host, name: bytes, messages: StoredMessages[StoredMessage], most: int) -> int:
        """Send the first `most` messages, or make columns of them; return bytes that were sent."""
        builder = self._columns
        if builder is None:
            start = message_start(name)
            return send(host.outgoing, self.inbox, start, messages, 0, most, message_rest)
        done = size = 0
        while True:
            done += builder.add(messages, done, most - done, name, self._frame - columns.BESIDES)
            if done == most:
                return size
            size += self._flush(host)

    def _flush(self, host: Host) -> int:
        """Send the columns that were begun."""
        builder = self._columns
        if builder is None or not builder.rows:
            return 0
        size = columns.send(builder, host.outgoing, self.inbox)
        builder.clear()
        return size

    def end(self) -> End:
        """Return the end of the replay: counts, damage, and where to go on."""
        last = self._last
        damaged: list[tuple[bytes, tuple[tuple[int, int], ...]]] = []
        for span in self.spans:
            if span.damaged:
                ranges: Ranges = []
                add_damage(ranges, sorted(set(span.damaged)))
                damaged.append((span.channel.name, tuple(ranges)))
        after = None
        if last is not None:
            after = Cursor(self._bound_ns, last[1].time_ns, last[1].sequence, last[0].name).text()
        return End(
            EOB,
            "EOB",
            sum(span.pending for span in self.spans),
            0 if last is None else last[1].sequence,
            self.spans[0].stop - 1 if self._is_single else None,
            after,
            tuple(damaged),
        )


class Replays:
    """All replays of a service."""

    def __init__(self, context: Context, channels: Channels, counters: Counters) -> None:
        self._context = context
        self._channels = channels
        self._counters = counters
        self._open: deque[ServedReplay] = deque()
        self._wait = 0.0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._open)

    def receive(self, delivery: Delivery) -> None:
        """Take a request; the first messages go out in the next tick."""
        if not is_publishable(delivery.reply):
            self._context.note.debug("Replay request without a reply subject ignored")
            return
        if not delivery.payload:
            self._finish(delivery.reply, End(408, "Empty Request"))
            return
        try:
            request = ReplayRequest.decode(delivery.payload, parse_duration)
            if not is_valid_subject(request.channel):
                raise ProtocolError("channel: no name of a channel, and no wildcard subject")
        except ProtocolError as error:
            self._finish(delivery.reply, End(400, f"Bad Request: {error}"))
            return
        found = self._channels.matching(request.channel)
        if not found:
            self._finish(delivery.reply, End(404, "No Channels"))
        elif len(self._open) >= MOST_REPLAYS:
            self._finish(delivery.reply, End(429, "Too Many Replays"))
        else:
            self._begin(delivery.reply, request, found)

    def stop(self) -> None:
        """Readers of what is under way learn that it is cut short."""
        for replay in self._open:
            self._finish(replay.inbox, End(409, "Server Shutdown"))
        self._open.clear()

    def _begin(self, inbox: bytes, request: ReplayRequest, found: list[Channel]) -> None:
        now = self._context.now_ns()
        bound = max(now, *(channel.last_time_ns for channel in found))
        if request.after is not None:
            bound = request.after.bound_ns
        if not self._context.host.sees_receivers:
            request = _capped(request)
        spans = [Span(channel, request, now, bound) for channel in found]
        self._open.append(ServedReplay(inbox, request, spans, bound, self._context.host.max_payload))
        self._context.note.debug("Replay of %s to %s", shown(request.channel), shown(inbox))
        if self._timer is not None and self._wait:
            self._timer.cancel()
            self._timer = None
        self._look_again(0.0)

    # -- turns -----------------------------------------------------------------------------------------

    def _look_again(self, seconds: float) -> None:
        if self._timer is None and self._open:
            self._wait = seconds
            self._timer = self._context.later(seconds, self._turn)

    def _turn(self) -> None:
        """Serve replays one page each in turn, until this tick's share is used or no reader can take more."""
        self._timer = None
        messages, room = TURN_MESSAGES, TURN_BYTES
        waiting = 0
        backlog = self._context.host.backlog
        while self._open and messages > 0 and room > 0 and waiting < len(self._open):
            replay = self._open.popleft()
            unread = backlog(replay.inbox)
            if unread is None:
                self._context.note.debug("Replay to %s: its reader is gone", shown(replay.inbox))
                continue
            if unread > replay.unread_mark:
                waiting += 1
                self._open.append(replay)
                continue
            waiting = 0
            sent = self._serve(replay)
            if sent is not None:
                self._open.append(replay)
                messages -= max(sent[0], 16)  # a page without messages was work too
                room -= sent[1]
        all_wait = waiting > 0 and waiting >= len(self._open)
        self._look_again(min(max(2 * self._wait, _FIRST_WAIT), _LONGEST_WAIT) if all_wait else 0.0)

    def _serve(self, replay: ServedReplay) -> tuple[int, int] | None:
        """Send a page, or the end and then return None."""
        try:
            sent = replay.send_page(self._context.host)
            end = replay.end() if sent is None else None
        except LogClosed:
            sent, end = None, End(404, "Channel Deleted")
        except LogError as error:
            self._context.note.error("replay to %s: %s", shown(replay.inbox), error)
            sent, end = None, End(500, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and the reader is told
            self._context.host.failed(error, f"replay to {shown(replay.inbox)}")
            sent, end = None, End(500, "Internal Server Error")
        if end is not None:
            self._finish(replay.inbox, end)
        elif sent is not None and sent[0]:
            self._counters.sent(*sent)
        return sent

    def _finish(self, inbox: bytes, end: End) -> None:
        self._context.host.publish(inbox, b"", headers=end.block())


def _capped(request: ReplayRequest) -> ReplayRequest:
    return replace(request, max_bytes=min(request.max_bytes or UNSEEN_BYTES, UNSEEN_BYTES))
