"""The log on disk: all of the contract over segments of records.

Here lives `FileLog`, which puts the parts together: `segments` (files), `ledger` (what is known), `reader`,
`lookup`, `counting`, `retention` (limits), `recovery` (opening), `checkpoints`, `compaction`. Never here:
bytes of a format, system calls.

On the heap, whatever the number of messages: some 100 bytes and the text per subject (1 million subjects of
30 bytes: about 100 MB), 32 bytes per 64 KB of records (100 million messages of 150 bytes: 8 MB), one bit per
sequence around removed ones (at most 12.5 MB per 100 million), and at most 30 MB of remembered outlines where
a subject has a limit. While a log is opened without a checkpoint, one segment is in memory; while one is
made, so is it. Measured (`python -m bench storage`, docs/durability.md): 96 bytes a subject, 0.05 a message.

What changes a log is written first and counted then; an error on the way leaves both as they were. Removals
by limits, which follow from these, are counted at once and written in front of the next append, with it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.engine.log_core import LogAppends, LogCore
from headrace.engine.log_reading import FileReads
from headrace.engine.messages import NewMessages, StoredMessages
from headrace.engine.records import HEADER_BYTES as RECORD_HEADER_BYTES
from headrace.engine.records import LARGEST_BODY, Scan, encode, encode_removal, erased
from headrace.errors import LogClosed, LogError, StorageError
from headrace.log.checkpoints import Checkpoints
from headrace.log.closing import ClosedLogState, Left
from headrace.log.compaction import Compaction
from headrace.log.counting import Counting
from headrace.log.damage import DamageNotes
from headrace.log.encryption import OVERHEAD
from headrace.log.filesystem import RealFileSystem, make_directory, storage_errors
from headrace.log.filters import SubjectFilter
from headrace.log.ledger import Ledger, add_to_ranges
from headrace.log.lookup import Lookup
from headrace.log.port import (
    LONGEST_SUBJECT,
    NO_LIMITS,
    Limits,
    LogDiscard,
    LogState,
    NewMessage,
    Page,
    StoredMessage,
    SubjectState,
    SyncPolicy,
    same_weights,
)
from headrace.log.reader import SegmentReader
from headrace.log.recovery import DAMAGED_BODY, Found, LogRecovery
from headrace.log.retention import LogRetention
from headrace.log.segment import CEILING
from headrace.log.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from headrace.engine.syncer import SyncJob
    from headrace.log.damage import Report
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.outline import Outline
    from headrace.log.port import Submit

SEGMENT_BYTES: Final = 64 << 20
READ_PER_CALL: Final = 8 << 20
"""Bytes of records that one filtered read looks at; then its page ends, empty or not."""
PURGED_AT_ONCE: Final = 10_000
"""Messages that one write of a purge removes; one of more is not all or nothing."""


class FileLog:
    """A `MessageLog` in a directory of its own, which is created when it is missing.

    What is in a directory that was there is durable with the first sync: until then a power loss may leave no
    trace of it. `make`: a log that is not there yet, and until something is written nothing is; then it is
    called, and makes what the directory needs. `left`: how it was closed, if nothing was done to it since
    (`log.closing`): then nothing waits to be synced, and where that says all that is asked of a log nobody
    uses, its files are opened with the first call that needs them.

    `clock`: wall clock in ns since 1970 UTC. `segment_bytes`: about how large one file becomes. `report`:
    called with what turns out to be unreadable, a few times at most. `cipher`: seals bodies and
    checkpoints; a log with plain segments goes on sealed. `checkpoint_bytes`: between two checkpoints.
    Raises: StorageError when the directory cannot be read or written; any call may that opens the files.
    """

    def __init__(
        self,
        directory: Path,
        *,
        limits: Limits = NO_LIMITS,
        clock: Callable[[], int] = time.time_ns,
        filesystem: FileSystem | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        sync: SyncPolicy = SyncPolicy.GROUP,
        cipher: Cipher | None = None,
        report: Report | None = None,
        make: Callable[[], object] | None = None,
        left: Left | None = None,
        checkpoint_bytes: int | None = None,
    ) -> None:
        self._make, self._checkpoint_bytes = make, checkpoint_bytes  # the first until something is written
        self._cipher: Final = cipher
        self._fs: Final[FileSystem] = filesystem if filesystem is not None else RealFileSystem()
        self._directory: Final = directory
        self._limits = limits
        self._clock = clock
        self._policy: Final = sync
        self._damage: Final = DamageNotes(report)
        self._closed = False
        self._is_open = False  # but closed, or asleep
        self._segment_bytes: Final = segment_bytes
        self._segments = self._new_segments()
        self._core: Final = LogCore(clock)
        self.appends: LogAppends = self._core
        self._changes = 0
        self.may_end_torn: Final = left is None and make is None
        self.left = left
        """The durable end of the closed log; None while its files are open."""
        self._held = None if left is None else left.held
        """The contents of a log that is asleep: its files are opened by the first call that needs them."""
        self._when_opened: list[Callable[[], object]] = []
        self.cut_bytes = 0
        """Bytes of a write that was cut off, found behind the last whole record and cut away."""
        self.opened_from_checkpoint = False
        self.opened_by_reading = 0
        """Bytes of records that were read when it was opened."""
        if self._held is None or cipher is not None or not self._held.answers(limits, clock()):
            self._open(fits=False)

    def _new_segments(self) -> Segments:
        where = self._directory, self._fs, self._policy, self._segment_bytes, self._cipher
        return Segments(*where, weights=self._limits.weights)

    def _open(self, *, fits: bool) -> None:
        """Open the files; `fits`: the limits hold already. Raises: StorageError; it may be tried again."""
        directory, cipher, segments = self._directory, self._cipher, self._segments
        with storage_errors(f"cannot make the directory {directory.name}"):
            if self._make is None and not self._fs.is_directory(directory):
                make_directory(self._fs, directory)
        recovery = LogRecovery(directory, self._fs, cipher, self._limits.weights)
        from_disk = self.left is None and self._policy is not SyncPolicy.NEVER
        found = Found(Ledger()) if self._make is not None else recovery.run(from_disk=from_disk)
        self._ledger = ledger = found.ledger
        self._reader = SegmentReader(segments, ledger, self._found_damage, cipher)
        self._reads = FileReads(self._reader.points, ledger)
        self._retention = LogRetention(segments, ledger, self._reader)
        self._counting = Counting(ledger, self._reader)
        self._lookup = Lookup(segments, ledger, self._reader, self._retention)
        self._compaction = Compaction(segments, ledger, self._fs, self._segment_bytes, cipher)
        self._checkpoints = Checkpoints(
            *(directory, self._fs, segments, ledger, self._compaction),
            policy=self._policy,
            cipher=cipher,
            write_news=self._write_news,
            every=self._checkpoint_bytes,
        )
        if found.from_checkpoint:
            self._checkpoints.read_bytes = found.read_bytes
        self.cut_bytes = found.cut_bytes
        self.opened_from_checkpoint = found.from_checkpoint
        self.opened_by_reading = found.read_bytes
        left, held = self.left, self._held
        self.left, self._held, self._is_open = None, None, True
        self._core.open(ledger, segments, self._reader.cursors, self._tidy, seals=cipher is not None)
        self._obey(self._limits)
        try:
            self._adopt(found, is_durable=left is not None)
            if not fits and self._make is None:
                self._fit_all()
            for function in self._when_opened:
                function()
            self._when_opened.clear()
        except BaseException:
            self._is_open, self._held = False, held
            self._core.close()
            segments.close()
            self._segments = self._new_segments()
            raise

    def _begin(self) -> None:
        """Make what is not there as long as nothing is written. Raises: StorageError."""
        if self._make is not None:
            with storage_errors(f"cannot make the log in {self._directory.name}"):
                self._make()
            self._segments.begin(1, 0, self._ledger.floor)
            self._make = None

    def _adopt(self, found: Found, *, is_durable: bool) -> None:
        if found.segments:  # what they say is durable before anything is unlinked
            self._segments.adopt(found.segments, is_durable=is_durable)
        self._damage.add_headers(found.headless)
        self._segments.files.restore_headers(found.headless)
        with storage_errors("cannot remove a segment whose messages are gone"):
            for path in found.obsolete:
                self._fs.unlink(path)
        ledger = self._ledger
        if self._make is not None:
            return
        if not found.segments or found.segments[-1].packed is not None:  # the one behind it is lost
            self._segments.begin(ledger.last_sequence + 1, ledger.last_time, ledger.floor)
        elif self._cipher is not None and not self._segments.active.is_sealed:
            self._go_on_sealed()
        if not found.from_checkpoint and found.read_bytes:
            self._checkpoints.write()
        self._damage.add(found.damaged, DAMAGED_BODY)

    def when_opened(self, function: Callable[[], object]) -> None:
        if self._asleep() is None:
            function()
        else:
            self._when_opened.append(function)

    # ---- properties -------------------------------------------------------------------------

    @property
    def limits(self) -> Limits:
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        asleep = self._asleep()
        if asleep is not None and asleep.answers(limits, self._clock()):
            return
        self._check_open()
        before = self._limits
        self._obey(same_weights(before, limits))
        try:
            self._fit_all()
        except StorageError:
            self._obey(before)
            raise

    def _obey(self, limits: Limits) -> None:
        self._limits = limits
        self._compaction.obey(limits)
        self._core.obey(limits)

    @property
    def written(self) -> int:
        return self._segments.written + self._changes

    @property
    def size(self) -> int:
        asleep = self._asleep()
        return self._ledger.bytes if asleep is None else asleep.state.bytes

    @property
    def unsynced(self) -> int:
        return self._segments.unsynced

    @property
    def sync_policy(self) -> SyncPolicy:
        return self._policy

    # ---- append -----------------------------------------------------------------------------

    def append(self, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
        self._check_open()
        messages = batch if isinstance(batch, NewMessages) else NewMessages(NewMessage, batch)
        if not first_sequence and (appended := self._core.append(messages)):
            return appended  # else something is out of the ordinary
        first, size = self._admit(messages, first_sequence)
        if not size:
            if first_sequence:
                self._leave_gap(first)
            return first
        ledger, segments = self._ledger, self._segments
        segments.check()
        if self._make is not None:
            self._begin()
        self._make_room(size, first)
        salt = segments.active.salt
        lead = ledger.removal_records(salt)
        data = encode(
            messages, first, ledger.last_time, self._clock(), salt, ledger.table, lead, *self._sealer()
        )
        offset = segments.append(data)
        ledger.noted()
        self._core.count(messages, offset + len(lead), first, OVERHEAD if self._cipher else 0)
        if segments.written > segments.checkpoint_at:
            self._checkpoints.write_if_due()
        self._tidy(messages.subjects())
        self._core.is_quiet = self._compaction.is_idle and not segments.after_sync.has_doomed
        return first

    def _tidy(self, subjects: Iterable[bytes]) -> None:
        """Remove what is over the limits after messages of these subjects were appended."""
        limits = self._limits
        if limits.max_messages or limits.max_bytes or limits.max_messages_per_subject:
            with suppress(StorageError):  # the batch is in the log; what is over is removed with the next one
                self._retention.make_fit(limits, subjects)
            self._clean_up()

    def _admit(self, batch: NewMessages[NewMessage], first_sequence: int) -> tuple[int, int]:
        """The first sequence of a batch that may be appended, and about the bytes of its records."""
        last = self._ledger.last_sequence
        if first_sequence and first_sequence <= last:
            raise ValueError(f"sequence {first_sequence} is not above the last one, {last}")
        first = first_sequence or last + 1
        if first < 0 or first + len(batch) > CEILING:
            raise LogError(f"no sequences for {len(batch)} messages from {first}")
        limits = self._limits
        size = batch.measure(limits.max_message_size, LONGEST_SUBJECT, LARGEST_BODY - LONGEST_SUBJECT)
        if limits.discard is LogDiscard.NEW:
            self._retention.check_room(limits, batch)
        besides = RECORD_HEADER_BYTES + (OVERHEAD if self._cipher is not None else 0)
        return first, size + besides * len(batch)

    def _sealer(self) -> tuple[Callable[[bytes, bytes], bytes], int] | tuple[()]:
        active = self._segments.active
        return (self._cipher.segment(active.salt, active.base).seal, OVERHEAD) if self._cipher else ()

    def _leave_gap(self, first: int) -> None:
        """The last sequence becomes one below `first`, with no message."""
        ledger, segments = self._ledger, self._segments
        segments.check()
        self._begin()
        self._make_room(RECORD_HEADER_BYTES, first)
        data = encode_removal([], ledger.floor, first - 1, ledger.last_time, segments.active.salt)
        segments.append(2 * data)
        ledger.last_sequence = first - 1
        self._settle()

    def _make_room(self, size: int, base: int) -> None:
        """Begin a new segment when the active one has no room. Raises StorageError."""
        if not self._compaction.is_idle:
            self._compact_on()
            self._segments.check()
        if not self._segments.is_full(size, base):
            return
        self._write_news()
        self._segments.roll(base, self._ledger.last_time, self._ledger.floor)
        self._checkpoints.write_if_due()

    def _go_on_sealed(self) -> None:
        """Begin a sealed segment: no record is added to a plain one once there is a key."""
        ledger = self._ledger
        if self._segments.active.base > ledger.last_sequence:
            # A segment is named by its base: the next needs another.
            self._leave_gap(ledger.last_sequence + 2)
        self._segments.roll(ledger.last_sequence + 1, ledger.last_time, ledger.floor)

    # ---- read -------------------------------------------------------------------------------

    def read(self, sequence: int) -> StoredMessage | None:
        self._check_open()
        return self._reader.message(sequence)

    @property
    def reads(self) -> FileReads | None:
        return self._reads if self._is_open else None

    def read_from(
        self,
        sequence: int,
        *,
        filters: Sequence[bytes] = (),
        max_messages: int = 256,
        max_bytes: int = 1 << 20,
        up_to: int | None = None,
    ) -> Page:
        self._check_open()
        ledger = self._ledger
        end = ledger.last_sequence + 1 if up_to is None else min(up_to, ledger.last_sequence + 1)
        start, stop, wanted = self._lookup.span_of(filters, max(sequence, ledger.floor), end)
        out = StoredMessages(StoredMessage)
        if start >= stop:
            return Page(out, max(sequence, end), ledger.unreadable_between(sequence, end))
        room = max_bytes

        def step(scan: Scan, data: bytes, final: bool) -> bool:
            nonlocal room
            left = scan.messages_in(
                *(data, final, start, stop - 1, wanted, ledger.removed, ledger.floor),
                *(out, max(max_messages, 1), room),
            )
            room = max(left, 0)
            return left < 0

        following, _ = self._reader.walk(start, self._reader.window_for(max_messages), step, READ_PER_CALL)
        following = max(end if following >= stop else following, sequence)
        return Page(out, following, ledger.unreadable_between(sequence, following))

    def count_from(self, sequence: int, filters: Sequence[bytes] = ()) -> int:
        self._check_open()
        return self._counting.between(sequence, self._ledger.last_sequence + 1, filters)

    def gone(self, sequence: int, most: int = 10_000) -> tuple[list[int], int]:
        self._check_open()
        return self._counting.gone(sequence, most)

    def absent(self, sequences: Iterable[int]) -> list[int]:
        self._check_open()
        return [sequence for sequence in sequences if not self._ledger.is_live(sequence)]

    def sequence_at(self, time_ns: int) -> int:
        self._check_open()
        return self._lookup.at_time(time_ns)

    def last(self, subject: bytes | None = None) -> StoredMessage | None:
        self._check_open()
        if self._ledger.messages == 0:
            return None
        if subject is None:
            return self._lookup.newest()
        newest = self._lookup.last_of(subject)
        return self._reader.message(newest) if newest else None

    def last_of(self, subject: bytes) -> int:
        self._check_open()
        return self._lookup.last_of(subject)

    def subjects(self, subject: bytes = b">") -> Iterator[tuple[bytes, SubjectState]]:
        self._check_open()
        return self._lookup.states(subject)

    def totals(self, subject: bytes = b">") -> Iterator[tuple[bytes, int]]:
        self._check_open()
        return self._lookup.totals(subject)

    # ---- removal ----------------------------------------------------------------------------

    def delete(self, sequence: int, *, erase: bool = False) -> bool:
        self._check_open()
        if self._make is not None:
            return False
        ledger = self._ledger
        if not ledger.floor <= sequence <= ledger.last_sequence or sequence in ledger.removed:
            if erase:  # an earlier call may have removed it and failed to overwrite it
                self._erase(sequence)
            return False
        unreadable = ledger.is_unreadable(sequence)
        outline = None if unreadable else self._reader.record(sequence)
        if outline is None and not ledger.is_unreadable(sequence):
            return False
        self._write_removal([(sequence, sequence)])
        if outline is None:
            ledger.drop_unreadable(sequence)
        else:
            ledger.forget(outline, is_first=False)
        ledger.noted()
        self._settle()
        if erase:
            self._erase(sequence)
        self._clean_up()
        return True

    def _erase(self, sequence: int) -> None:
        """Overwrite what is left of a removed message, unless its record is damaged already."""
        outline = self._reader.record(sequence)
        if outline is None:
            if self._segments.after_sync.has_doomed:  # it may be in a segment that is to be unlinked
                self._checkpoints.write()
                self.sync()
            return
        segment = self._segments.all[self._segments.at(sequence)]
        with storage_errors("cannot take back a copy of a message"):
            self._compaction.erase(segment)
            self._checkpoints.supersede()
        record = self._segments.files.pread(segment, outline.length, outline.offset)
        self._segments.files.overwrite(segment, outline.offset, erased(record, segment.salt))

    def purge(self, subject: bytes | None = None, *, up_to: int | None = None, keep: int = 0) -> int:
        self._check_open()
        ledger = self._ledger
        if subject is None and up_to is None and keep <= 0:
            return self._purge_all()
        end = ledger.last_sequence + 1 if up_to is None else min(up_to, ledger.last_sequence + 1)
        wanted = SubjectFilter(chosen := () if subject is None else (subject,))
        filters = None if wanted.everything else [*wanted.literals, *wanted.patterns]
        excess = self._counting.between(ledger.floor, end, chosen) - max(keep, 0)
        if excess <= 0:
            return 0
        removed = 0
        known = None if subject is None or wanted.patterns else self._retention.all_of(subject)
        while removed < excess:
            if known is None:
                found = self._reader.outlines(ledger.floor, end - 1, filters)
            else:
                found = (o for o in known[removed:] if o.sequence < end)
            some = list(islice(found, min(excess - removed, PURGED_AT_ONCE)))
            if not some:
                break  # the rest cannot be read
            self._take_out(some, some[-1].sequence + 1 if filters is None else 0)  # and what is damaged
            removed += len(some)
        self._retention.forget_front()
        self._clean_up()
        return removed

    def remove(self, sequences: Iterable[int]) -> int:
        self._check_open()
        wanted = sorted({s for s in sequences if self._ledger.floor <= s <= self._ledger.last_sequence})
        removed = 0
        for place in range(0, len(wanted), PURGED_AT_ONCE):
            some = self._reader.these(wanted[place : place + PURGED_AT_ONCE])
            if some:
                self._take_out(some, some[-1].sequence + 1 if self._ledger.is_front(some) else 0)
                removed += len(some)
        self._clean_up()
        return removed

    def _take_out(self, some: list[Outline], floor: int) -> None:
        """Remove live messages, ascending; with a `floor` they are all that is below it."""
        ledger = self._ledger
        ranges: list[tuple[int, int]] = []
        for outline in () if floor else some:
            add_to_ranges(ranges, outline.sequence, outline.sequence)
        self._write_removal(ranges, floor)
        if floor:
            ledger.forget_below(floor, some)
        for outline in () if floor else some:
            ledger.forget(outline, is_first=False)
        ledger.noted()
        self._settle()

    def _purge_all(self) -> int:
        ledger = self._ledger
        removed = ledger.messages
        if not removed and not ledger.unreadable:
            return 0
        segments, last = self._segments, ledger.last_sequence
        segments.check()
        segments.append(2 * encode_removal([], last + 1, last, ledger.last_time, segments.active.salt))
        ledger.forget_all()
        ledger.noted()
        self._retention.forget_front()
        self._clean_up()
        return removed

    def expire(self, now_ns: int) -> int:
        asleep = self._asleep()
        if asleep is not None and not asleep.has_over(now_ns):
            return 0
        self._check_open()
        removed = self._retention.expire(self._limits, now_ns)
        self._changes += bool(removed)
        self._settle()
        self._write_and_clean_up()
        return removed

    def expired(self, now_ns: int) -> Iterator[tuple[int, bytes]]:
        asleep = self._asleep()
        if asleep is not None and not asleep.has_over(now_ns):
            return iter(())
        self._check_open()
        return self._retention.expired(self._limits, now_ns)

    def next_expiry(self) -> int | None:
        asleep = self._asleep()
        return self._retention.next_expiry(self._limits) if asleep is None else asleep.next_expiry

    def _fit_all(self) -> None:
        """Apply the limits to everything."""
        limits = self._limits
        removed = 0
        if limits.max_messages_per_subject:
            for subjects in self._lookup.pages():
                removed += self._retention.make_fit(limits, subjects)
        removed += self._retention.make_fit(limits, ())
        now = self._clock()
        has_expired = limits.max_age_ns or any(s.index.next_expiry <= now for s in self._segments.all)
        if has_expired and not limits.waits_for_expire:
            removed += self._retention.expire(limits, now)
        self._changes += bool(removed)
        self._settle()
        self._write_and_clean_up()

    def _write_removal(self, ranges: list[tuple[int, int]], floor: int = 0) -> None:
        """Write a removal, and those by limits that wait. Raises StorageError; then nothing has changed.

        It is there twice: if it were lost, all that it removes would come back. Limits remove again.
        """
        ledger, segments = self._ledger, self._segments
        segments.check()
        salt = segments.active.salt
        news = ledger.removal_records(salt)
        removal = encode_removal(ranges, floor, ledger.last_sequence, ledger.last_time, salt)
        segments.append(news + 2 * removal)
        ledger.noted()

    def _write_news(self) -> None:
        """Write the removals that wait. Raises StorageError."""
        if self._ledger.has_news:
            self._segments.check()
            self._segments.append(self._ledger.removal_records(self._segments.active.salt))
            self._ledger.noted()

    def _settle(self) -> None:
        """Raise the floor to the first message that is left; if that cannot be read, it stays."""
        with suppress(StorageError):
            self._retention.first()

    def _write_and_clean_up(self) -> None:
        try:
            self._write_news()
        except StorageError:
            return  # removed all the same; the next append writes it in front, or tells its caller why not
        self._clean_up()

    def _clean_up(self) -> None:
        """Give up segments in which nothing is left, and do a slice of `compaction`."""
        ledger, segments = self._ledger, self._segments
        if segments.count_below(ledger.floor_written):
            for segment in segments.give_up(ledger.floor_written):
                with suppress(OSError):
                    self._compaction.erase(segment)
                ledger.occupancy.drop(segment.base)
            self._reader.cursors.clear()
        self._compact_on()

    def _compact_on(self) -> None:
        self._compaction.keep_up()
        if self._segments.after_sync.doomed_bytes or self._compaction.waiting_bytes:
            self._checkpoints.write_if_due()
        self._core.is_quiet = self._compaction.is_idle and not self._segments.after_sync.has_doomed

    # ---- damage -----------------------------------------------------------------------------

    def _found_damage(self, ranges: list[tuple[int, int]]) -> None:
        """Note messages that were counted when the log was opened and cannot be read now."""
        new = self._ledger.add_unreadable(ranges)
        self._ledger.messages = max(self._ledger.messages - sum(b - a + 1 for a, b in new), 0)
        self._damage.add(new, DAMAGED_BODY)

    # ---- state, durability ------------------------------------------------------------------

    def state(self) -> LogState:
        asleep = self._asleep()
        return self._state() if asleep is None else asleep.state

    def _state(self) -> LogState:
        ledger = self._ledger
        first = self._retention.first()
        return LogState(
            messages=ledger.messages,
            bytes=ledger.bytes,
            first_sequence=ledger.floor,
            first_time_ns=first.time_ns if first else 0,
            last_sequence=ledger.last_sequence,
            last_time_ns=ledger.last_time,
            deleted=ledger.last_sequence - ledger.floor + 1 - ledger.messages - ledger.unreadable_count(),
            subjects=len(ledger.table),
            damaged=tuple(self._damage.sequences),
        )

    def begin_sync(self, submit: Submit) -> SyncJob | None:
        return self._segments.begin_sync(submit) if self._is_open and self._make is None else None

    def end_sync(self, job: SyncJob) -> StorageError | None:
        return self._segments.end_sync(job)

    def sync(self) -> int:
        if self._asleep() is not None or self._make is not None:
            return self._changes
        return self._changes + self._segments.sync()

    def close(self) -> None:
        if self._closed:
            return
        was_open, self._closed, self._is_open = self._is_open, True, False
        self._core.close()
        if not was_open or self._make is not None:
            return
        try:
            self._write_news()
            self._compaction.close()
            self._checkpoints.write_if_changed()
            if self._policy is not SyncPolicy.NEVER:
                self._segments.check()  # a start that trusts the mark reads no refused batch behind it
                self._segments.sync()
                self.left = Left(self._segments.active.base, self._holds())
        finally:
            self._compaction.close()  # also when the removals could not be written
            self._segments.close()

    def _holds(self) -> ClosedLogState | None:
        """Return the contents for a start that reads nothing; None if it must look, at a key or at damage."""
        with suppress(StorageError):
            held = ClosedLogState(self._limits, self._state(), self._retention.next_expiry(self._limits))
            if self._cipher is None and not held.state.damaged and not self._ledger.unreadable:
                return held
        return None

    def _asleep(self) -> ClosedLogState | None:
        """Return the contents if the files are not open yet. Raises: LogClosed."""
        if self._closed:
            raise LogClosed("the log is closed")
        return self._held

    def _check_open(self) -> None:
        """Open the files if they are not yet. Raises: LogClosed, StorageError."""
        if not self._is_open:
            self._asleep()
            self._open(fits=True)
