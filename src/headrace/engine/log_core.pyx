# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The write end of a log on disk: what an append does where nothing is out of the ordinary, in one call.

Here live the numbers that every append reads and changes: `LogCounts` (what the log holds; `headrace.log.ledger`
has the rest of it), `WriteEnd` (the active segment; `headrace.log.segments`), `LiveRecords` of it
(`headrace.log.occupancy`) and `Cursors` (`headrace.log.reader`). `LogCore.append` makes the records of
a batch, writes them with one `pwrite` and counts them, as `FileLog.append` does for everything; it begins nothing
that it cannot finish, and says so with 0 while nothing has changed: no segment is begun here, nothing healed,
swept or sealed, and no limit judges a message.

A batch is counted from its messages and not from the records that were just written. The formats are
`records`'; the promise is that of `headrace.log.port`: what `append` returned for is with the system.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from posix.types cimport off_t

from headrace.engine.checksum cimport hr_crc_prepare
from headrace.engine.memory cimport buf_free, buf_reserve
from headrace.engine.messages cimport NewMessages, message_t
from headrace.engine.records cimport HEAD, body_size, has_one_subject, pack_message, previous_of
from headrace.engine.sequence_set cimport SequenceSet
from headrace.engine.structs cimport HR_GUARD
from headrace.engine.subject_index cimport SubjectIndex, subject_t

cdef extern from "<unistd.h>" nogil:
    ssize_t pwrite(int fd, const void *data, size_t n, off_t offset)

cdef enum:
    SEGMENT_HEAD = 64            # bytes of a segment's file in front of its records
    SPACING = 64 << 10           # bytes of records between two marks of the index: headrace.log.index.SPACING
    LONGEST_SUBJECT = 65535
    MOST_AT_ONCE = 64 << 20      # bytes of records that are written here; more is for Python to write
    KEPT = 4 << 10               # bytes of records for which memory is kept: there may be very many logs

cdef uint64_t CEILING = 0x7FFFFFFFFFFFFFFF
cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF

hr_crc_prepare()


cdef class LogCounts:
    """Counts of a log. All are kept by whoever appends and removes.

    table          messages by subject
    removed        sequences from `floor` on that are gone
    unreadable     runs of sequences whose records could not be read, ascending; not among `messages`
    ranges         removals that no record says yet
    expiring       messages with a TTL
    floor          every sequence below it is gone; `floor_written`: the one that records say
    """

    def __cinit__(self):
        self.table = SubjectIndex()
        self.removed = SequenceSet()
        self.unreadable = []
        self.ranges = []
        self.floor = self.floor_written = 1


cdef class WriteEnd:
    """The segment that is written, and what stands against writing to it.

    active         the `Segment`; `base` and `salt` are its
    active_descriptor  of its file; -1: it is written through the log's file system only
    written        bytes of records since the log was opened
    extent         bytes that its file may be long: what is behind its records reads as zeros
    drafted        the number of the last checkpoint that was made
    checkpoint_at  when more bytes than these are `written`, Python is to see whether another one is due
    reserves       its file is kept longer than its records
    is_begun       its header is durable, or no records need it to be
    is_uncut       a failed write may have left bytes behind the last whole record
    is_suspect     an fsync failed: what it was for may be lost
    abandoned      the path of a segment that was begun and failed; it must go before anything is written elsewhere
    """

    def __cinit__(self):
        self.active_descriptor = -1
        self.is_begun = True

    def write_to(self, active, int descriptor) -> None:
        """Appends to another segment from now on; None: to none."""
        self.active = active
        self.active_descriptor = descriptor
        if active is not None:
            self.base, self.salt = active.base, active.salt


cdef class LiveRecords:
    """Live messages of one segment, and the bytes of their records."""


cdef class Cursors:
    """Places at which records begin, by sequence: of the last appends, and where reads stopped.

    A place is a segment and an offset behind its header. The one that was noted first is forgotten for a new one.
    """

    def __cinit__(self):
        self._segments = []

    def __len__(self):
        return self._count

    def remember(self, uint64_t sequence, segment, int64_t offset) -> None:
        """Note where the record of a sequence is, or the first one behind it."""
        self.note(sequence, segment, offset)

    def find(self, uint64_t sequence):
        """The segment and the offset of a sequence; None: they were not noted, or are forgotten."""
        cdef uint32_t place = self._place_of(sequence)
        return None if place == self._count else (self._segments[place], self._offsets[place])

    def clear(self) -> None:
        """Forget all places."""
        self._segments.clear()
        self._count = self._oldest = 0

    cdef int note(self, uint64_t sequence, object segment, int64_t offset) except -1:
        """`remember`, for compiled code."""
        cdef uint32_t place = self._place_of(sequence)
        if place == CURSORS:
            place = self._oldest
            self._oldest = (self._oldest + 1) % CURSORS
        if place == self._count:
            self._segments.append(segment)
            self._count += 1
        HR_GUARD(place < self._count <= CURSORS)
        self._sequences[place] = sequence
        self._offsets[place] = offset
        self._segments[place] = segment
        return 0

    cdef uint32_t _place_of(self, uint64_t sequence) noexcept:
        """The place of a sequence's entry; the number of entries when it has none."""
        cdef uint32_t place
        for place in range(self._count):
            if self._sequences[place] == sequence:
                return place
        return self._count


cdef class LogAppends:
    """Appends to one log where nothing is out of the ordinary. This class: of a log that appends all by itself."""

    cpdef uint64_t append(self, NewMessages batch) except? 0:
        """Append; give the first sequence, or 0 when this is for the log's own `append`: nothing has changed."""
        return 0

    cdef int64_t bytes_held(self) noexcept:
        """The bytes of the log's messages, as its limits count them, once something was appended; -1: its `size`."""
        return -1


cdef class LogCore(LogAppends):
    """Appends to one log that is open. `is_quiet`: nothing waits to be swept or unlinked; its owner says so.

    `clock`: ns since 1970. Of what it was opened with it calls, besides what `LogCounts` and `WriteEnd` have:

        counts.removal_records(salt), noted(), raise_floor(floor)
        counts.occupancy.of_active(base)   the `LiveRecords` of the segment that is written
        end.append(data)           writes records where there is no descriptor; raises StorageError
        end.failed(error)          a write failed: raises StorageError
        end.reserve(n)             room for the next records is to be reserved, as after a write of n bytes
        end.active.size, end.active.index
        tidy(subjects)             after removals were written, or messages of subjects came over a limit
    """

    def __cinit__(self):
        memset(&self._records, 0, sizeof(buf_t))

    def __dealloc__(self):
        buf_free(&self._records)

    def __init__(self, clock):
        self._clock = clock

    def open(self, LogCounts counts not None, WriteEnd end not None, Cursors cursors not None, tidy, *, bint seals):
        """The log is open. `seals`: appends are for Python, and only counted here."""
        self._counts = counts
        self._end = end
        self._cursors = cursors
        self._tidy = tidy
        self._live = None
        self.is_open = not seals
        self.is_quiet = False

    def close(self):
        """Append no more messages in compiled code."""
        self.is_open = False
        self._tidy = None

    def obey(self, limits):
        """Keeps to other `Limits`; the next append is Python's."""
        self._max_messages = limits.max_messages
        self._max_bytes = limits.max_bytes
        self._max_per_subject = limits.max_messages_per_subject
        self._max_size = limits.max_message_size
        self._refuses = limits.discard.value == "new"
        self._besides = limits.weights.besides
        self._headed = limits.weights.headed
        self.is_quiet = False

    def count(self, NewMessages batch not None, int64_t offset, uint64_t first, int64_t besides) -> None:
        """Counts a batch that Python wrote to the active segment, from `offset` of its records on: sequences from
        `first` on, each message with the time it was stored with and `besides` more bytes in its record.
        """
        self._count(batch, offset, first, besides)

    cpdef uint64_t append(self, NewMessages batch) except? 0:
        """Appends; gives the first sequence, or 0 when this is for `FileLog.append` to do: nothing has changed.

        Raises: StorageError; then nothing of the batch is part of the log.
        """
        cdef LogCounts counts = self._counts
        cdef WriteEnd end = self._end
        cdef uint64_t first
        cdef int64_t size, offset
        cdef bytes lead = b""
        if not self.is_open or not self.is_quiet or batch.count == 0 or end.active is None or end.is_uncut or end.is_suspect \
                or end.abandoned is not None or not end.is_begun \
                or end.written > end.checkpoint_at:
            return 0
        first = counts.last_sequence + 1
        size = self._measure(batch)
        if size == 0 or first + <uint64_t> batch.count > CEILING \
                or (end.base < first and <int64_t> end.active.size + size > end.segment_bytes) \
                or (self._refuses and not self._has_room(batch, size)):
            return 0
        if counts.floor != counts.floor_written or counts.ranges:
            lead = counts.removal_records(end.salt)
        self._pack(batch, lead, size)
        offset = <int64_t> end.active.size - SEGMENT_HEAD + PyBytes_GET_SIZE(lead)
        self._write()
        if PyBytes_GET_SIZE(lead):
            counts.noted()
        self._count(batch, offset, first, 0)
        if self._is_over(batch):
            self._tidy(batch.subjects())
        elif PyBytes_GET_SIZE(lead):
            self._tidy(())
        return first

    cdef int64_t bytes_held(self) noexcept:
        return 0 if self._counts is None else self._counts.bytes

    cdef LiveRecords _live_records(self):
        """Return the numbers of the active segment. They are looked up once: no segment is given up while it is written."""
        if self._live is None or self._live_base != self._end.base:
            self._live = self._counts.occupancy.of_active(self._end.base)
            self._live_base = self._end.base
        return self._live

    cdef int64_t _measure(self, NewMessages batch) except -1:
        """Bytes of the batch's records; 0 when it is not for here: too large, or a message of it is."""
        cdef Py_ssize_t i
        cdef message_t *m
        cdef uint64_t size, total = 0
        for i in range(batch.count):
            m = &batch.items[i]
            size = <uint64_t> m.headers_len + m.payload_len
            if (self._max_size and size > self._max_size) or m.subject_len > LONGEST_SUBJECT \
                    or m.reply_len > LONGEST_SUBJECT or size > MOST_AT_ONCE:
                return 0
            total += HEAD + size + m.subject_len + m.reply_len + (8 if m.ttl else 0)
            if total > MOST_AT_ONCE:
                return 0
        return <int64_t> total

    cdef bint _has_room(self, NewMessages batch, int64_t size) noexcept:
        """True if a batch is surely within limits that refuse; `size`: bytes of its records."""
        cdef Py_ssize_t i
        cdef subject_t *entry
        if self._max_messages and self._counts.messages + batch.count > self._max_messages:
            return False
        if self._max_bytes \
                and self._counts.bytes + size + batch.count * (<int64_t> self._besides + self._headed) > self._max_bytes:
            return False
        if self._max_per_subject:
            for i in range(batch.count):
                entry = self._counts.table.find(batch.items[i].subject, batch.items[i].subject_len)
                if (entry.count if entry != NULL else 0) + <uint64_t> batch.count > self._max_per_subject:
                    return False
        return True

    cdef int _pack(self, NewMessages batch, bytes lead, int64_t size) except -1:
        """Makes the records, `lead` in front, with sequences and times that go on from the last; a message's time
        is the one that it is stored with then.
        """
        cdef LogCounts counts = self._counts
        cdef buf_t *b = &self._records
        cdef char *at
        cdef message_t *m
        cdef Py_ssize_t i
        cdef uint64_t sequence = counts.last_sequence, previous
        cdef int64_t last_time = counts.last_time, now = 0
        cdef bint is_single = has_one_subject(batch)  # then each one's message before it is plain to see
        cdef dict earlier = None if is_single else {}
        b.start = b.end = 0
        buf_reserve(b, <size_t> size + PyBytes_GET_SIZE(lead))
        at = b.data
        memcpy(at, PyBytes_AS_STRING(lead), PyBytes_GET_SIZE(lead))
        at += PyBytes_GET_SIZE(lead)
        for i in range(batch.count):
            m = &batch.items[i]
            sequence += 1
            if m.time == 0 and now == 0:
                now = self._clock()
            m.time = last_time = max(m.time or now, last_time)
            previous = sequence - 1 if is_single and i else previous_of(counts.table, earlier, m, sequence)
            at = pack_message(at, m, body_size(m), sequence, last_time, previous, self._end.salt)
        b.end = at - b.data
        HR_GUARD(b.end == <size_t> size + PyBytes_GET_SIZE(lead))
        return 0

    cdef int _write(self) except -1:
        """Writes the records that were made behind those that are there."""
        cdef WriteEnd end = self._end
        cdef buf_t *b = &self._records
        cdef int64_t size = end.active.size
        cdef size_t done = 0
        cdef ssize_t taken
        if end.active_descriptor < 0:
            end.append(PyBytes_FromStringAndSize(b.data, b.end))
        else:
            while done < b.end:
                taken = pwrite(end.active_descriptor, b.data + done, b.end - done, size + <off_t> done)
                if taken < 0 and errno == EINTR:
                    continue
                if taken <= 0:
                    end.failed(OSError(errno, os.strerror(errno)) if taken < 0 else
                               OSError(EIO, "the system takes no bytes and gives no reason"))
                done += taken
            end.active.size = size + <int64_t> b.end
            end.written += b.end
            if size + <int64_t> b.end > end.extent:
                end.extent = size + <int64_t> b.end
                if end.reserves:
                    end.reserve(b.end)
        if b.cap > KEPT:
            buf_free(b)
        return 0

    cdef int _count(self, NewMessages batch, int64_t offset, uint64_t first, int64_t besides) except -1:
        cdef LogCounts counts = self._counts
        cdef object marks = self._end.active.index.offsets
        cdef Py_ssize_t known = len(marks)
        cdef int64_t marked = marks[known - 1] if known else -SPACING
        cdef int64_t at = offset, n, plain, expiry, first_expiry = NEVER
        cdef int64_t messages = batch.count, size = 0
        cdef list new = None
        cdef list mark = None
        cdef LiveRecords live = self._live_records()
        cdef message_t *m
        cdef Py_ssize_t i
        for i in range(batch.count):
            m = &batch.items[i]
            plain = <int64_t> m.subject_len + m.reply_len + m.headers_len + m.payload_len
            n = HEAD + besides + plain + (8 if m.ttl else 0)
            counts.last_time = m.time
            if at >= marked + SPACING:
                marked = at
                mark = [at, first + <uint64_t> i, counts.last_time, NEVER]
                if new is None:
                    new = []
                new.append(mark)
            if m.ttl:
                counts.expiring += 1
                expiry = NEVER if m.ttl > NEVER - counts.last_time else counts.last_time + m.ttl
                if mark is None:
                    first_expiry = min(first_expiry, expiry)
                elif expiry < <int64_t> mark[3]:
                    mark[3] = expiry
            size += self._besides + (self._headed if m.headers_len else 0) + plain
            counts.table.count_in(m.subject, m.subject_len, first + <uint64_t> i)
            at += n
        if new is not None or first_expiry != NEVER:
            self._end.active.index.add(new or (), first_expiry)
        if counts.messages == 0 and not counts.unreadable:
            counts.raise_floor(first)
        live.messages += messages
        live.bytes += at - offset
        counts.messages += messages
        counts.bytes += size
        counts.last_sequence = first + <uint64_t> batch.count - 1
        self._cursors.note(first, self._end.active, offset)
        return 0

    cdef bint _is_over(self, NewMessages batch) noexcept:
        """True if limits have something to remove."""
        cdef Py_ssize_t i
        cdef subject_t *entry
        if not self._refuses and ((self._max_messages and self._counts.messages > self._max_messages)
                                  or (self._max_bytes and self._counts.bytes > self._max_bytes)):
            return True
        if self._max_per_subject:
            for i in range(batch.count):
                entry = self._counts.table.find(batch.items[i].subject, batch.items[i].subject_len)
                if entry != NULL and entry.count > self._max_per_subject:
                    return True
        return False
