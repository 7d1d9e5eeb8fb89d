"""What is held, reserved and asked: of one account, and of all accounts of a server together.

Bytes are those of the logs, counted when a stream was touched and not per message. What follows from the
figures (a publication or a stream that is refused) is said by who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from headrace.protocol.jetstream.configs import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.jetstream.stream import Stream
    from headrace.protocol.jetstream.configs import StreamConfig


class ApiCounters(Struct):
    """Requests since the start; `inflight`: not answered yet."""

    total: int = 0
    errors: int = 0
    inflight: int = 0


class Held(Struct):
    """Bytes of messages, by storage."""

    memory: int = 0
    storage: int = 0

    def add(self, storage: Storage, size: int) -> None:
        if storage is Storage.MEMORY:
            self.memory += size
        else:
            self.storage += size

    def of(self, storage: Storage) -> int:
        return self.memory if storage is Storage.MEMORY else self.storage


class Usage(Struct):
    """Of one account; `server` is the sum over all of them."""

    server: Held
    held: Held = field(default_factory=Held)
    _streams: dict[str, int] = field(default_factory=dict)

    def measure(self, stream: Stream) -> None:
        """Counts a stream anew. Cheap: no message is read."""
        self._set(stream, stream.log.size)

    def forget(self, stream: Stream) -> None:
        self._set(stream, 0)
        self._streams.pop(stream.name, None)

    def _set(self, stream: Stream, size: int) -> None:
        change = size - self._streams.get(stream.name, 0)
        if change:
            self._streams[stream.name] = size
            self.held.add(stream.config.storage, change)
            self.server.add(stream.config.storage, change)

    def end(self) -> None:
        """The account is gone from this server: what it holds counts no more."""
        self.server.memory -= self.held.memory
        self.server.storage -= self.held.storage
        self.held = Held()
        self._streams.clear()


def reserved(configs: Iterable[StreamConfig], storage: Storage) -> int:
    """Bytes that streams of a storage may grow to, as far as they are bounded."""
    return sum(one.max_bytes for one in configs if one.storage is storage and one.max_bytes > 0)
