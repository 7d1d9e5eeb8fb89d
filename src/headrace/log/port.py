"""The contract of a message log: what it stores, what it answers, what it promises.

Two logs keep it, `FileLog` and `MemoryLog`, and one test class holds both to it
(tests/unit/log/test_log_contract.py). Nothing here knows STAN, JetStream or Spark. A log belongs to one
thread; only `sync` may be called on another. Times are ns since 1970 UTC and never go backwards within a log.
Subjects match as `headrace.subjects.grammar.matches` says: one with an empty token is matched by no filter
and there for reads without one. A message that is over its age is there until `expire` took it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.engine.log_core import LogAppends
    from headrace.engine.log_reading import LogReads
    from headrace.engine.messages import StoredMessages
    from headrace.engine.syncer import SyncJob
    from headrace.errors import StorageError

Done: TypeAlias = "Callable[[StorageError | None], None]"
"""The callback of whoever waits for a sync; it is given the error, or None."""
Submit: TypeAlias = "Callable[[int], SyncJob]"
"""The function that has the file behind a descriptor synced; the descriptor stays open until the job is done.
"""

LARGEST_SEQUENCE: Final = (1 << 63) - 2
"""An append that would go beyond is a LogError."""
LARGEST_TIME: Final = (1 << 63) - 1
"""ns; a later time or a longer TTL is a ValueError."""
FOREVER: Final = LARGEST_TIME
"""The TTL of a message that stays whatever its age, until it is removed or count or bytes are over a limit.
"""
LONGEST_SUBJECT: Final = 65_535
"""Bytes of a subject, and of a reply subject; a message with a longer one is `MessageTooLarge`."""


class LogDiscard(Enum):
    """The messages that give way when a limit is reached: old ones or new ones."""

    OLD = "old"
    NEW = "new"


class SyncPolicy(Enum):
    """The policy of syncs. Only GROUP promises that an acknowledged message is on disk."""

    GROUP = "group"
    INTERVAL = "interval"
    NEVER = "never"


class NewMessage(NamedTuple):
    """A message to append. `time_ns` 0: the log's clock. `ttl_ns` 0: lives as long as the limits let it.

    A time before the last message's is stored as the last message's. A negative number is a ValueError.
    """

    subject: bytes
    payload: bytes
    reply: bytes = b""
    headers: bytes = b""
    time_ns: int = 0
    ttl_ns: int = 0


class StoredMessage(NamedTuple):
    """A message as it is read back; `headers` is the block of the wire, from NATS/1.0 to the empty line."""

    sequence: int
    time_ns: int
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


class Page(NamedTuple):
    """Messages of one read, ascending, and where the next read goes on.

    `damaged`: sequences in the span that was read which are on disk but unreadable.
    """

    messages: StoredMessages[StoredMessage]
    next_sequence: int
    damaged: list[int]


class SubjectState(NamedTuple):
    """The messages of one subject: their number, the first and the last sequence."""

    messages: int
    first_sequence: int
    last_sequence: int


class Weights(Struct, frozen=True):
    """Bytes that a message counts for in limits besides its parts, and more if it has headers."""

    besides: int = 32
    headed: int = 0


PLAIN: Final = Weights()


class Limits(Struct, frozen=True):
    """0 is no limit. `max_bytes` counts as `size_of` says, with the log's `weights`, which stay what they
    were when it was opened: others are a ValueError. Count and bytes never take the newest message.

    `max_message_size` counts headers and payload. With `LogDiscard.NEW` a message is refused that would bring
    the log over `max_messages` or `max_bytes`; the subject's limit makes room by taking that subject's
    oldest first, unless `discard_new_per_subject` refuses there too.
    """

    max_messages: int = 0
    max_bytes: int = 0
    max_age_ns: int = 0
    max_messages_per_subject: int = 0
    max_message_size: int = 0
    discard: LogDiscard = LogDiscard.OLD
    discard_new_per_subject: bool = False
    waits_for_expire: bool = False
    """True if messages go by their age or TTL through `expire` only, also when limits change or the log is
    opened.
    """
    weights: Weights = PLAIN
    compresses: bool = False
    """True if messages are compressed once there are enough; limits count the uncompressed bytes."""


NO_LIMITS: Final = Limits()


class LogState(Struct, frozen=True):
    """The state of a log. An empty log keeps its last sequence and time; its first sequence is then one more.

    `last_sequence` and `last_time_ns` are those of the last append, also when that message is gone.
    `first_time_ns` is that of the first message that is there, 0 when there is none.
    """

    messages: int
    bytes: int
    first_sequence: int
    first_time_ns: int
    last_sequence: int
    last_time_ns: int
    deleted: int
    """Sequences between first and last that are not there any more."""
    subjects: int
    damaged: tuple[int, ...]
    """Sequences found unreadable since the log was opened, the first thousand of them."""


class Syncable(Protocol):
    """The part of a log that makes it durable; whatever has it can be given to a `ThreadCommitter`."""

    @property
    def unsynced(self) -> int:
        """Bytes that the next `sync` has to force to disk, far more of them where it has other work too."""

    def begin_sync(self, submit: Submit) -> SyncJob | None:
        """Have `submit` do what `sync` would, if it is one sync of one file; None: `sync` is to be called.

        The owner's thread alone, and `end_sync` before the next one; anything else may be called meanwhile.
        """

    def end_sync(self, job: SyncJob) -> StorageError | None:
        """End a sync whose `job` is done: everything appended before `begin_sync` is durable, unless an error
        is returned.
        """

    def sync(self) -> int:
        """Force everything up to the `written` it read first to disk and return that. Any thread."""


class MessageLog(Syncable, Protocol):
    """The errors are kinds of `headrace.errors.LogError`: `MessageTooLarge`, `LogFull` (with the index of
    the one that was refused), `StorageError` (disk full, I/O error, permission), `LogClosed`.
    """

    appends: LogAppends
    """Appends in compiled code where `append` finds nothing out of the ordinary, else leaves a batch to it.
    Always the same one, also of a log that is closed or whose files are not open.
    """

    @property
    def limits(self) -> Limits: ...

    @limits.setter
    def limits(self, limits: Limits) -> None:
        """Take effect at once, as opening with limits does: what is over them is removed, oldest first, and
        what is over its age by the log's clock. With `LogDiscard.NEW` what is there may stay over
        `max_messages` and `max_bytes`; then nothing is taken that would make it more. Raises: StorageError;
        then those before hold, and some of what is over the new ones may be removed.
        """

    def append(self, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
        """All or nothing, in one write; returns the first sequence. Readable at once, durable after `sync`.

        `first_sequence` above the next one leaves a gap (import, mirror); below it is a ValueError. An empty
        batch changes nothing but that: with a `first_sequence` the last sequence becomes one below it.
        `LogDiscard.OLD` removes after the append: of a batch over the limit the last messages stay.
        """

    def read(self, sequence: int) -> StoredMessage | None:
        """Return a message; None when it is removed or was never there. Raises: MessageDamaged."""

    @property
    def reads(self) -> LogReads | None:
        """Read single messages in compiled code, until the log is closed; None: its files are not open."""

    def read_from(
        self,
        sequence: int,
        *,
        filters: Sequence[bytes] = (),
        max_messages: int = 256,
        max_bytes: int = 1 << 20,
        up_to: int | None = None,
    ) -> Page:
        """The next messages at or after `sequence` that match one of the filters (none: all).

        At least one message when there is one, whatever its size. A page may be empty and yet not the end:
        a filter looks at a bounded number of messages per call. `next_sequence` above the last is the end.
        `up_to` bounds as in `purge`: messages below it. `max_bytes` counts as `size_of` says. A page that
        ends for want of messages goes on at one above the last one or at `up_to`, and never below `sequence`.
        """

    def count_from(self, sequence: int, filters: Sequence[bytes] = ()) -> int:
        """Count the messages at or after `sequence` that match one of the filters (none: all).

        Without filters, and for a span with all messages of its subjects, it reads none of them.
        """

    def gone(self, sequence: int, most: int = 10_000) -> tuple[list[int], int]:
        """Return up to `most` sequences at or after `sequence` that `LogState.deleted` counts, ascending, and
        where to go on: above the last sequence at the end.
        """

    def absent(self, sequences: Iterable[int]) -> list[int]:
        """Return the sequences, of some that messages had, whose messages are removed. Reads no message."""

    def sequence_at(self, time_ns: int) -> int:
        """The first message that is there and whose time is `time_ns` or later; one above the last sequence
        when there is none.
        """

    def last(self, subject: bytes | None = None) -> StoredMessage | None:
        """The newest message, or the newest that matches a subject (wildcards allowed)."""

    def last_of(self, subject: bytes) -> int:
        """The sequence of the newest message that matches a subject (wildcards allowed), 0 when none does."""

    def subjects(self, subject: bytes = b">") -> Iterator[tuple[bytes, SubjectState]]:
        """Subjects that match and have messages, in no order. May be walked while the log changes."""

    def totals(self, subject: bytes = b">") -> Iterator[tuple[bytes, int]]:
        """Yield each matching subject with the number of its messages, in no order; no message is read."""

    def delete(self, sequence: int, *, erase: bool = False) -> bool:
        """Remove one message; erased: its bytes on disk are overwritten when this returns. False: absent."""

    def remove(self, sequences: Iterable[int]) -> int:
        """Remove these messages, those that are there; return how many. More than 10,000 of them are not
        all or nothing.
        """

    def purge(self, subject: bytes | None = None, *, up_to: int | None = None, keep: int = 0) -> int:
        """Remove what matches, below sequence `up_to`, but for the last `keep` of it; return how many.

        "It" is what matches and is below. A full purge keeps the last sequence.
        """

    def expire(self, now_ns: int) -> int:
        """Remove what is over its age or TTL, the newest message too; return how many.

        A message is over when `now_ns` is its time and its age, or later.
        """

    def expired(self, now_ns: int) -> Iterator[tuple[int, bytes]]:
        """(sequence, subject) of what `expire` would remove now, ascending. May be walked while the log
        changes; some may be removed by then.
        """

    def next_expiry(self) -> int | None:
        """The time in ns at which `expire` next has work; it may be early, and is never late.

        After `expire(now)` it is later than now. None: nothing that is there will expire.
        """

    def state(self) -> LogState: ...

    def when_opened(self, function: Callable[[], object]) -> None:
        """Call it before any other answer needs its messages, and before any change: at once, but for a
        log that opens its files when they are first needed. That call raises what the function raises.
        """

    @property
    def may_end_torn(self) -> bool:
        """True if the log was not closed before it was opened, so that its last append may be cut off."""

    @property
    def written(self) -> int:
        """A position that grows with every change (append, delete, purge)."""

    @property
    def size(self) -> int:
        """The `bytes` of `state`, which costs more."""

    def close(self) -> None:
        """Sync (but for `never`) and give everything back. Safe to call twice; other calls: LogClosed."""


def size_of(message: StoredMessage | NewMessage, weights: Weights = PLAIN) -> int:
    """Bytes a message counts for in limits and state: its parts, and about what storing it adds."""
    size = weights.besides + len(message.subject) + len(message.reply) + len(message.payload)
    return size + len(message.headers) + weights.headed if message.headers else size


def same_weights(limits: Limits, new: Limits) -> Limits:
    """Return `new` limits if they have the same weights.

    `new`. Raises: ValueError for other weights than before: what is held was counted with those.
    """
    if new.weights != limits.weights:
        raise ValueError("a log counts what it holds as it did when it was opened")
    return new
