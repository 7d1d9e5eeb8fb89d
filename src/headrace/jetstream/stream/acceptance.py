"""Acceptance of publications: one path for all kinds, which walks the rows of a table (`checks`).

A row is a `Check`: the error, the kinds of publications, streams and headers that it concerns, whether it
reads the log, whether compiled code does the same. Everything else is derived from the rows: the walk of a
message, whether what was gathered is appended first, which streams the publish lane may serve. Never here:
what a check compares (`checks`), the append (`ingest`). Two limits are judged when a run is appended, and not
here: the room of an account, and the limits of a log that refuses what is new.
"""

from __future__ import annotations

import re
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from headrace.jetstream.stream.dedupe import MSG_ID
from headrace.jetstream.stream.extensions import payload_judge
from headrace.jetstream.stream.publication import Duplicate, PublicationKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.jetstream.ports import AccountPort, StreamPort
    from headrace.jetstream.stream.publication import Publication
    from headrace.log.port import StoredMessage
    from headrace.protocol.jetstream.configs import StreamConfig
    from headrace.schemas.payloads import PayloadJudge

_NAMES: Final = re.compile(rb"\r\n(Nats-[^:\r\n]+):")
_OURS: Final = b"Nats-"
_ONLY_ID: Final = frozenset([MSG_ID])
_NO_NAMES: Final[frozenset[bytes]] = frozenset()
MOST_WALKS: Final = 256
"""Walks that are kept, by the headers of messages: clients may combine those as they like."""


# -- what a publication meets --------------------------------------------------------------------------


class Before:
    """The state of a stream that a publication meets. In this class: of one that holds nothing."""

    def __init__(self, config: StreamConfig) -> None:
        self.config = config
        self._judge: tuple[StreamConfig, PayloadJudge] | None = None
        self.count = 0
        """Messages of the same batch that come before."""

    @property
    def judge_of_payloads(self) -> PayloadJudge:
        """The judge of payloads by the schemas of the stream, made once for a configuration.

        Raises: SchemaError where a package is not installed.
        """
        if self._judge is None or self._judge[0] is not self.config:
            self._judge = self.config, payload_judge(self.config.metadata)
        return self._judge[1]

    @property
    def last_sequence(self) -> int:
        return 0

    @property
    def last_id(self) -> bytes:
        """The id of the newest message; empty when it had none. Raises: StorageError."""
        return b""

    def last_of(self, subject: bytes) -> int:
        """The last sequence of a subject; 0 for none. Raises: ApiError 10164, StorageError."""
        return 0

    def last(self, subject: bytes) -> StoredMessage | None:
        """The last message of a subject. Raises: StorageError."""
        return None

    def is_of_batch(self, subject: bytes) -> bool:
        """True if a message of the same batch has this subject."""
        return False

    def find(self, msg_id: bytes) -> None:
        """Look for a stored message with this id.

        Raises: Duplicate if there is one; ApiError 10201 within a batch; StorageError.
        """

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        return 0

    def transformed(self, subject: bytes) -> bytes:
        """The subject that a message is stored with."""
        return subject

    def wants(self, subject: bytes) -> bool:
        """True if a message would be kept."""
        return True

    def refused(self, size: int) -> int:
        """The error that `size` more bytes are refused with; 0 when there is room."""
        return 0


class Stored(Before):
    """The state of a stream that is there."""

    def __init__(self, stream: StreamPort, account: AccountPort) -> None:
        super().__init__(stream.config)
        self._stream = stream
        self._account = account

    @property
    def last_sequence(self) -> int:
        return self._stream.last_sequence

    @property
    def last_id(self) -> bytes:
        return self._stream.dedupe.last_id

    def now_ns(self) -> int:
        return self._account.now_ns()

    def last_of(self, subject: bytes) -> int:
        return self._stream.log.last_of(subject)

    def last(self, subject: bytes) -> StoredMessage | None:
        return self._stream.log.last(subject)

    def find(self, msg_id: bytes) -> None:
        sequence = self._stream.dedupe.find(msg_id, self._account.now_ns())
        if sequence:
            raise Duplicate(sequence)

    def transformed(self, subject: bytes) -> bytes:
        transform = self._stream.transform
        return subject if transform is None else transform.match(subject) or subject

    def wants(self, subject: bytes) -> bool:
        return self._stream.wants(subject)

    def refused(self, size: int) -> int:
        return self._account.quota.refusal(self.config, size)


# -- the table -----------------------------------------------------------------------------------------


def every(_config: StreamConfig) -> bool:
    """The streams that a check concerns when it does not say which: all."""
    return True


class Check(Struct, frozen=True):
    """A row of the table: one check of publications.

    `errors`: the numbers that it refuses with; none for a row that only notes something in the publication.
    `judge` raises them, or Duplicate or StorageError.
    """

    name: str
    kinds: PublicationKind
    judge: Callable[[Before, Publication], None]
    errors: tuple[int, ...] = ()
    headers: tuple[bytes, ...] = ()
    """The names of headers: the check concerns messages with one of these; empty: all."""
    streams: Callable[[StreamConfig], bool] = every
    """The streams that it concerns."""
    reads_log: bool = False
    """Messages that were gathered are appended before it."""
    is_compiled: bool = False
    """The publish lane does the same, or is given nothing that it concerns."""

    @property
    def is_asked_for(self) -> bool:
        """True if headers say which messages it concerns, with names that compiled code leaves to Python."""
        return bool(self.headers) and all(name.startswith(_OURS) for name in self.headers)


class Walk(NamedTuple):
    """The checks that a message passes, in order."""

    checks: tuple[Check, ...]
    reads_log: bool
    is_plain: bool
    """True if nothing follows from the headers of the message but that it is stored once."""

    def judge(self, before: Before, p: Publication) -> None:
        """Say in `p` what is to be stored and how. Raises: ApiError, Duplicate, StorageError."""
        for check in self.checks:
            check.judge(before, p)


class Rows:
    """The rows that concern streams of one kind of configuration, and the walks over them.

    `judges_all`: a message needs a look at by Python although it has no header of ours. `is_compiled`: the
    publish lane may take messages without headers of ours, or with an id alone.
    """

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks
        self._known = frozenset(name for check in checks for name in check.headers)
        self._walks: dict[tuple[PublicationKind, frozenset[bytes]], Walk] = {}
        self.judges_all: Final = not _are_compiled(self._chosen(PublicationKind.SINGLE, _NO_NAMES))
        self.is_compiled: Final = _are_compiled(self._chosen(PublicationKind.SINGLE, _ONLY_ID))

    def _chosen(self, kind: PublicationKind, names: frozenset[bytes]) -> tuple[Check, ...]:
        return tuple(
            check
            for check in self._checks
            if kind in check.kinds and (not check.is_asked_for or not names.isdisjoint(check.headers))
        )

    def walk(self, kind: PublicationKind, headers: bytes) -> Walk:
        """Find the checks that concern a message with these headers."""
        names = self._known.intersection(_NAMES.findall(headers)) if headers else _NO_NAMES
        walk = self._walks.get((kind, names))
        if walk is None:
            checks = self._chosen(kind, names)
            walk = Walk(checks, any(check.reads_log for check in checks), names <= _ONLY_ID)
            if len(self._walks) >= MOST_WALKS:
                self._walks.clear()
            self._walks[kind, names] = walk
        return walk


def _are_compiled(checks: Iterable[Check]) -> bool:
    return all(check.is_compiled for check in checks)


class CheckTable:
    """The table of checks. Streams that the same rows concern share their walks."""

    def __init__(self, *checks: Check) -> None:
        self.checks: Final = checks
        self._rows: dict[tuple[bool, ...], Rows] = {}

    def rows(self, config: StreamConfig) -> Rows:
        """Choose the rows that concern a stream of this configuration."""
        concerned = tuple(check.streams(config) for check in self.checks)
        rows = self._rows.get(concerned)
        if rows is None:
            rows = self._rows[concerned] = Rows(list(compress(self.checks, concerned)))
        return rows


class Acceptance:
    """The checks of one stream. `before`: what it has stored, and its configuration."""

    def __init__(self, table: CheckTable, before: Before) -> None:
        self._table = table
        self.before: Final = before
        self.rows = table.rows(before.config)

    def configure(self, config: StreamConfig) -> None:
        """Judge by another configuration from now on."""
        self.before.config = config
        self.rows = self._table.rows(config)

    def judge(self, kind: PublicationKind, p: Publication, before: Before | None = None) -> None:
        """Say in `p` what is to be stored and how. `before`: what a message of a batch meets.

        Raises: ApiError, Duplicate, StorageError.
        """
        self.rows.walk(kind, p.headers).judge(before or self.before, p)
