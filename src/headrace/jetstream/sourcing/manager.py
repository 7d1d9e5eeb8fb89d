"""The manager of a stream's mirror or sources: they are started, stopped, and brought back after a restart.

A mirror goes on after the last sequence it has. The position of a source is journaled once its messages are
durable, with the last sequence of this stream at that time; messages behind that one say themselves where
they come from, so a restart neither loses nor repeats any. Source: JetStream specification, 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.jetstream.sourcing.origin import SourceOrigin, noted
from headrace.protocol.jetstream.configs import RetentionPolicy

if TYPE_CHECKING:
    from headrace.jetstream.ports import AccountPort, StreamPort
    from headrace.jetstream.sourcing.reader import SourceReader
    from headrace.protocol.jetstream.configs import StreamSource


class SourceManager:
    """Idle for a stream without mirror and sources."""

    def __init__(self, stream: StreamPort, effects: AccountPort) -> None:
        self._stream = stream
        self._effects = effects
        self._readers: dict[str, SourceReader] = {}
        """The readers by index name."""
        self._is_started = False

    def start(self) -> None:
        """Begin to read, after everything was recovered; `stream.positions` has the journaled positions."""
        self._is_started = True
        self.configured()

    def configured(self) -> None:
        """Follow what the configuration says now; what it said before and says still goes on as it is."""
        if not self._is_started:
            return
        config = self._stream.config
        wanted = {
            origin.index_name: origin for origin in map(SourceOrigin, _all(config.mirror, config.sources))
        }
        for name in set(self._readers) - set(wanted):
            self._readers.pop(name).stop()
        added = {name: self._reader(origin) for name, origin in wanted.items() if name not in self._readers}
        self._resume(added)
        self._readers |= added
        for reader in added.values():
            reader.start()

    def stop(self) -> None:
        self._is_started = False
        for reader in self._readers.values():
            reader.stop()

    def _reader(self, origin: SourceOrigin) -> SourceReader:
        is_local = origin.is_local and not self._counts_readers(origin)
        if is_local:
            from headrace.jetstream.sourcing.local_source import (
                LocalSource,  # most streams take nothing from others
            )

            return LocalSource(self._stream, origin, self._effects)
        from headrace.jetstream.sourcing.remote_source import RemoteSource

        return RemoteSource(self._stream, origin, self._effects)

    def _counts_readers(self, origin: SourceOrigin) -> bool:
        """True if the origin removes messages that its consumers have got: then this stream must be one of
        them.
        """
        found = self._effects.streams.get(origin.source.name)
        return found is not None and found.config.retention is not RetentionPolicy.LIMITS

    # -- what was taken before -------------------------------------------------------------------------

    def _resume(self, readers: dict[str, SourceReader]) -> None:
        if self._stream.config.mirror is not None:
            for reader in readers.values():
                reader.position = self._stream.last_sequence
            return
        for name, reader in readers.items():
            record = self._stream.positions.get(name)
            try:
                if record is not None:
                    reader.resume(record)
            except ValueError as error:
                self._effects.note.error("stream %s: source %s: %s", self._stream.name, name, error)
        if readers:
            self._read_on(readers)

    def _read_on(self, readers: dict[str, SourceReader]) -> None:
        """Messages after those that were journaled say themselves which of the origin's they were."""
        log = self._stream.log
        sequence = max(min(reader.here for reader in readers.values()) + 1, log.state().first_sequence)
        while sequence <= self._stream.last_sequence:
            page = log.read_from(sequence)
            for message in page.messages:
                said = noted(message.headers) if message.headers else None
                reader = readers.get(said.index_name) if said else None
                if reader is not None and said is not None and message.sequence > reader.here:
                    reader.position = reader.seen = said.sequence
                    reader.identity = said.identity
                    reader.stored, reader.here = said.sequence, message.sequence
            sequence = page.next_sequence

    # -- what it says ----------------------------------------------------------------------------------

    def info(self) -> dict[str, object]:
        """Return the part of StreamInfo about other streams: `mirror`, `sources` or nothing."""
        if self._stream.config.mirror is not None:
            readers = list(self._readers.values())
            return {"mirror": readers[0].info(with_sequence=False)} if readers else {}
        sources = [reader.info(with_sequence=True) for reader in self._readers.values()]
        return {"sources": sources} if sources else {}

    def records(self) -> dict[str, bytes]:
        """Return the journaled position of each source."""
        if self._stream.config.mirror is not None:
            return {}
        return {name: reader.record() for name, reader in self._readers.items()}


def _all(mirror: StreamSource | None, sources: list[StreamSource]) -> list[StreamSource]:
    return [mirror] if mirror is not None else list(sources)
