"""What a stream takes from other streams: its mirror or its sources, started, stopped, and brought back.

A mirror goes on after the last sequence it has. How far a source is is journaled once its messages are
durable, with the sequence that the last of them has here; messages after that one say themselves how far it
was, so a restart neither loses nor repeats any. Source: JetStream specification, 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.jetstream.origins import Origin, noted
from headrace.protocol.jetstream.configs import Retention

if TYPE_CHECKING:
    from headrace.jetstream.feeds import Feed
    from headrace.jetstream.stream import Stream
    from headrace.protocol.jetstream.configs import StreamSource


class Sourcing:
    """Idle for a stream without mirror and sources."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._feeds: dict[str, Feed] = {}
        """By index name."""
        self._is_started = False

    def start(self) -> None:
        """After everything was recovered; `stream.positions` has what was journaled."""
        self._is_started = True
        self.configured()

    def configured(self) -> None:
        """Follows what the configuration says now; what it said before and says still goes on as it is."""
        if not self._is_started:
            return
        config = self._stream.config
        wanted = {origin.index_name: origin for origin in map(Origin, _all(config.mirror, config.sources))}
        for name in set(self._feeds) - set(wanted):
            self._feeds.pop(name).stop()
        added = {name: self._feed(origin) for name, origin in wanted.items() if name not in self._feeds}
        self._resume(added)
        self._feeds |= added
        for feed in added.values():
            feed.start()

    def stop(self) -> None:
        self._is_started = False
        for feed in self._feeds.values():
            feed.stop()

    def _feed(self, origin: Origin) -> Feed:
        is_near = origin.is_near and not self._counts_readers(origin)
        if is_near:
            from headrace.jetstream.near import NearFeed  # most streams take nothing from others

            return NearFeed(self._stream, origin)
        from headrace.jetstream.far import FarFeed

        return FarFeed(self._stream, origin)

    def _counts_readers(self, origin: Origin) -> bool:
        """Whether the origin removes what its consumers have had: then this stream must be one of them."""
        found = self._stream.account.streams.get(origin.source.name)
        return found is not None and found.config.retention is not Retention.LIMITS

    # -- what was taken before -------------------------------------------------------------------------

    def _resume(self, feeds: dict[str, Feed]) -> None:
        if self._stream.config.mirror is not None:
            for feed in feeds.values():
                feed.position = self._stream.last_sequence
            return
        for name, feed in feeds.items():
            record = self._stream.positions.get(name)
            try:
                if record is not None:
                    feed.resume(record)
            except ValueError as error:
                self._stream.account.note.error("stream %s: source %s: %s", self._stream.name, name, error)
        if feeds:
            self._read_on(feeds)

    def _read_on(self, feeds: dict[str, Feed]) -> None:
        """Messages after those that were journaled say themselves which of the origin's they were."""
        log = self._stream.log
        sequence = max(min(feed.here for feed in feeds.values()) + 1, log.state().first_sequence)
        while sequence <= self._stream.last_sequence:
            page = log.read_from(sequence)
            for message in page.messages:
                said = noted(message.headers) if message.headers else None
                feed = feeds.get(said.index_name) if said else None
                if feed is not None and said is not None:
                    feed.position = feed.seen = said.sequence
                    feed.identity = said.identity
                    feed.stored, feed.here = said.sequence, message.sequence
            sequence = page.next_sequence

    # -- what it says ----------------------------------------------------------------------------------

    def info(self) -> dict[str, object]:
        """What StreamInfo has of it: `mirror`, `sources` or nothing."""
        if self._stream.config.mirror is not None:
            feeds = list(self._feeds.values())
            return {"mirror": feeds[0].info(with_sequence=False)} if feeds else {}
        sources = [feed.info(with_sequence=True) for feed in self._feeds.values()]
        return {"sources": sources} if sources else {}

    def records(self) -> dict[str, bytes]:
        """What is journaled of each source."""
        if self._stream.config.mirror is not None:
            return {}
        return {name: feed.record() for name, feed in self._feeds.items()}


def _all(mirror: StreamSource | None, sources: list[StreamSource]) -> list[StreamSource]:
    return [mirror] if mirror is not None else list(sources)
