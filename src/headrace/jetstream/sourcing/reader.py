"""One source, or what a mirror mirrors, as it is followed: how far it is, what it waits for, what it says.

How messages come is for its two kinds to say: `local_source` reads the log of a stream of this account,
`remote_source` asks for a consumer through the API. Source: JetStream specification, 1 (StreamInfo) and 8.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Final

from headrace.jetstream.sourcing.ingest import MessageRefused, MirrorIngest, SourceIngest
from headrace.protocol.jetstream.configs import Storage
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.service import Timer
    from headrace.errors import StorageError
    from headrace.jetstream.ports import AccountPort, StreamPort
    from headrace.jetstream.sourcing.ingest import SourcedIngest
    from headrace.jetstream.sourcing.origin import SourceOrigin
    from headrace.log.port import StoredMessage

SECOND_NS: Final = 1_000_000_000
SOONEST_AGAIN_S: Final = 2.0
"""No origin is asked more often than this, but one that nobody has: asking for it costs nobody anything."""
_NOBODY_AGAIN_S: Final = 0.1
"""Seconds until an origin that nobody has is asked for again; doubled each time, up to the usual pause."""
_BACKOFF_S: Final = 10.0
_LONGEST_BACKOFF_S: Final = 120.0
_JITTER_S: Final = 0.1
_NOBODY_DOUBLINGS: Final = 8
_RECORD: Final = struct.Struct("<QQ")
"""`SourceReader.stored` and `here`; the origin's identity follows."""


def position_record(stored: int, here: int, identity: str) -> bytes:
    """Compose the journaled position of a source, as `SourceReader` has it."""
    return _RECORD.pack(stored, here) + identity.encode()


class SourceReader:
    """The reader of one origin. `position`: the last sequence of the origin that was taken or passed over."""

    def __init__(self, stream: StreamPort, origin: SourceOrigin, effects: AccountPort) -> None:
        self.stream: Final = stream
        self.effects: Final = effects
        self.origin: Final = origin
        self.position = 0
        self.identity = ""
        """The identity of the origin that the position is of."""
        self.seen = 0
        """The last sequence of the origin that came, or before which nothing is asked for; it is told."""
        self.stored = 0
        """The last sequence of the origin that is durable here."""
        self.here = 0
        """The last sequence of this stream at that time: messages behind it say where they come from."""
        self.error: ApiError | None = None
        self.lag = 0
        self.heard_ns = 0
        """The time at which the origin was last heard; 0: never."""
        self._ingest: SourcedIngest = (
            SourceIngest(stream, origin, effects)
            if stream.config.mirror is None
            else MirrorIngest(stream, origin)
        )
        self._fails = 0
        self._missed = 0
        """Times in a row that nobody had the origin."""
        self._timer: Timer | None = None
        self._told = ""

    # -- for its two kinds -----------------------------------------------------------------------------

    def start(self) -> None:
        """Ask for the messages after `position`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop reading the origin."""
        self.cancel()

    def take(self, messages: Sequence[StoredMessage]) -> bool:
        """Take messages into the stream; False when one is refused, which is tried again later, with those
        after it.
        """
        try:
            self._ingest.take(messages, self.identity)
        except MessageRefused as refused:
            self._taken(refused.sequence - 1)
            self.say(refused.reason if isinstance(refused.reason, ApiError) else None, str(refused))
            return False
        self._taken(messages[-1].sequence)
        self.seen = self.position
        return True

    def _taken(self, position: int) -> None:
        """Go on behind `position`, which is journaled once all up to it is durable here."""
        if position > self.position and self._is_journaled:
            here, identity = self.stream.last_sequence, self.identity
            self.effects.commit(self.stream.log, lambda error: self._durable(position, here, identity, error))
        self.position = max(position, 0)

    def pass_over(self, sequence: int) -> None:
        self._ingest.pass_over(sequence)
        self.position = self.seen = max(self.position, sequence)

    def heard(self) -> None:
        self.heard_ns = self.effects.now_ns()

    def well(self) -> None:
        """The origin answers."""
        self._fails = self._missed = 0
        self.error = None
        self._told = ""

    def say(self, error: ApiError | None, text: str) -> None:
        """Why it does not go on, once for each reason in the log."""
        self.error = error
        if text != self._told:
            self._told = text
            self.effects.note.warning(
                "stream %s > %s: %s is not followed: %s",
                self.effects.name, self.stream.name, self.origin.source.name, text,
            )  # fmt: skip

    def again(self, *, failed: bool = False) -> None:
        """Start anew after a while, which grows with failures that follow one another."""
        delay = SOONEST_AGAIN_S + random.uniform(0, _JITTER_S)
        if failed:
            self._fails += 1
            delay += min(self._fails * _BACKOFF_S, _LONGEST_BACKOFF_S)
        self._missed = 0
        self._later(delay)

    def again_soon(self) -> None:
        """Start anew soon: a link may have come up, or an account may be served that has the origin."""
        delay = min(_NOBODY_AGAIN_S * (1 << min(self._missed, _NOBODY_DOUBLINGS)), SOONEST_AGAIN_S)
        self._missed += 1
        self._later(delay)

    def _later(self, delay: float) -> None:
        self.cancel()
        self._timer = self.effects.later(delay, self._restart)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    def _restart(self) -> None:
        self._timer = None
        self.start()

    # -- what it is ------------------------------------------------------------------------------------

    def _durable(self, position: int, here: int, identity: str, error: StorageError | None) -> None:
        """Note that messages up to `position` of an origin are durable here, all of them up to `here`."""
        if error is None and identity == self.identity:  # else the origin is another stream by now
            self.stored = max(self.stored, position)
            self.here = max(self.here, here)
            self.journal()

    @property
    def _is_journaled(self) -> bool:
        """True of a source of a stream on disk: a mirror's position is the last sequence it has."""
        config = self.stream.config
        return config.mirror is None and config.storage is Storage.FILE

    def journal(self) -> None:
        if self._is_journaled:
            self.effects.journal.position(self.stream.name, self.origin.index_name, self.record())

    def record(self) -> bytes:
        """Return the position that a restart goes on from."""
        return position_record(self.stored, self.here, self.identity)

    def resume(self, record: bytes) -> None:
        """Go on from a journaled position. Raises: ValueError."""
        if len(record) < _RECORD.size:
            raise ValueError("the record of a source is cut off")
        self.stored, self.here = _RECORD.unpack_from(record)
        self.position = self.seen = self.stored
        self.identity = record[_RECORD.size :].decode()

    def info(self, *, with_sequence: bool) -> dict[str, object]:
        """Its part of StreamInfo."""
        source = self.origin.source
        said: dict[str, object] = {"name": source.name}
        if source.external is not None:
            said["external"] = {"api": source.external.api, "deliver": source.external.deliver}
        said["lag"] = self.lag
        if with_sequence and self.seen:
            said["seq"] = self.seen
        now_ns = self.effects.now_ns()
        said["active"] = max(now_ns - self.heard_ns, 0) if self.heard_ns else -1
        if self.error is not None:
            said["error"] = self.error.body()
        if source.subject_transforms:
            said["subject_transforms"] = [
                {"src": transform.src, "dest": transform.dest} for transform in source.subject_transforms
            ]
        elif source.filter_subject:
            said["filter_subject"] = source.filter_subject
        return said
