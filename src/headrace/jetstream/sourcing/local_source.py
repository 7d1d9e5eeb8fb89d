"""Reads a stream of this account: its log is read page by page, once something new is durable there.

No consumer, no copy through the wire: what a mirror or a source takes is what the origin has. Streams whose
messages are removed once they are consumed are not read this way but by `remote_source`: a reader counts
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import LogError
from headrace.jetstream.sourcing.origin import identity_of
from headrace.jetstream.sourcing.reader import SECOND_NS, SourceReader
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.times import to_ns

if TYPE_CHECKING:
    from headrace.jetstream.ports import StreamView

_PAGE: Final = 256


class LocalSource(SourceReader):
    """The origin calls `fresh` and `lost`; the account's rounds call `serve`."""

    _from: StreamView | None = None
    _is_stopped = True

    def start(self) -> None:
        """Begin with the next round: whoever made the stream is told first that it is empty."""
        self.cancel()
        self._is_stopped = False
        if self._from is not None:
            self.well()
        self.effects.wake(self)

    def _begin(self) -> StreamView | None:
        source = self._attach()
        if source is None:
            self.error = ApiError(10059)
            self.again()
            return None
        self.well()
        self._from = source
        source.followers[self] = None
        return source

    def stop(self) -> None:
        super().stop()
        self._is_stopped = True
        self._leave()

    def _leave(self) -> None:
        if self._from is not None:
            self._from.followers.pop(self, None)
            self._from = None

    def _attach(self) -> StreamView | None:
        """The origin, if it is there; says where in it to begin."""
        found = self.effects.streams.get(self.origin.source.name)
        if found is None or found is self.stream:
            return None
        identity = identity_of(found.created_ns)
        if self.identity and self.identity != identity and self.stream.config.mirror is None:
            self.position = self.seen = self.stored = 0  # another stream of that name
        self.identity = identity
        self.journal()
        if self.position == 0:
            self.position = self._beginning(found)
        first = found.log.state().first_sequence
        if first > self.position + 1:
            self.pass_over(first - 1)
        return found

    def _beginning(self, found: StreamView) -> int:
        """The sequence before the first one that is wanted."""
        source = self.origin.source
        if source.opt_start_seq > 0:
            beginning = source.opt_start_seq - 1
        elif source.opt_start_time is not None:
            beginning = found.log.sequence_at(to_ns(source.opt_start_time)) - 1
        else:
            return 0
        self.pass_over(beginning)
        return beginning

    def fresh(self) -> None:
        """The origin has more that is durable."""
        if not self.is_waiting:
            self.effects.wake(self)

    def lost(self) -> None:
        """The origin is removed."""
        self._leave()
        self.error = ApiError(10059)
        self.again()

    def serve(self) -> bool:
        """Take one page; return True if there is more."""
        if self.is_waiting or self._is_stopped:
            return False
        source = self._from or self._begin()
        if source is None:
            return False
        self.heard()
        end = source.visible + 1
        if self.position + 1 >= end:
            self.lag = 0
            return False
        try:
            page = source.log.read_from(
                self.position + 1, filters=self.origin.filters, max_messages=_PAGE, up_to=end
            )
        except LogError as error:
            self.say(None, str(error))
            self.again(failed=True)
            return False
        if len(page.messages) and not self.take(list(page.messages)):
            self.lag = self.left()
            self.again()
            return False
        self.position = max(self.position, page.next_sequence - 1)
        self.lag = self.left() if self.position + 1 < end else 0
        return self.position + 1 < end

    def left(self) -> int:
        """Messages of the origin that it has not taken yet."""
        return self._from.pending_count(self.position + 1, self.origin.filters) if self._from else 0

    def info(self, *, with_sequence: bool) -> dict[str, object]:
        if self._from is not None:
            self.lag = self.left()
            if not self.is_waiting:
                # The origin is always in sight; those who ask expect what a heartbeat a second shows.
                now_ns = self.effects.now_ns()
                self.heard_ns = max(self.heard_ns, now_ns - SECOND_NS) if self.heard_ns else 0
        return super().info(with_sequence=with_sequence)
