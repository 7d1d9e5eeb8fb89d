"""The write end of a log on disk. See log_core.pyx."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.messages cimport NewMessages
from headrace.engine.sequence_set cimport SequenceSet
from headrace.engine.structs cimport buf_t
from headrace.engine.subject_index cimport SubjectIndex

cdef class LogCounts:
    cdef public SubjectIndex table
    cdef public SequenceSet removed
    cdef public list unreadable
    cdef public list ranges
    cdef public int64_t messages
    cdef public int64_t bytes
    cdef public int64_t expiring
    cdef public uint64_t floor
    cdef public uint64_t floor_written
    cdef public uint64_t last_sequence
    cdef public int64_t last_time

cdef class WriteEnd:
    cdef readonly object active
    cdef readonly int active_descriptor
    cdef readonly uint32_t salt
    cdef readonly uint64_t base
    cdef public int64_t written
    cdef public int64_t extent
    cdef public int64_t segment_bytes
    cdef public int64_t drafted
    cdef public int64_t checkpoint_at
    cdef public bint reserves
    cdef public bint is_begun
    cdef public bint is_uncut
    cdef public bint is_suspect
    cdef public object abandoned

cdef class LiveRecords:
    cdef public int64_t messages
    cdef public int64_t bytes

cdef enum:
    CURSORS = 64             # places that are remembered

cdef class Cursors:
    cdef uint64_t _sequences[CURSORS]
    cdef int64_t _offsets[CURSORS]
    cdef list _segments
    cdef uint32_t _count
    cdef uint32_t _oldest

    cdef int note(self, uint64_t sequence, object segment, int64_t offset) except -1
    cdef uint32_t _place_of(self, uint64_t sequence) noexcept

cdef class LogAppends:
    cpdef uint64_t append(self, NewMessages batch) except? 0
    cdef int64_t bytes_held(self) noexcept

cdef class LogCore(LogAppends):
    cdef LogCounts _counts
    cdef WriteEnd _end
    cdef object _clock
    cdef Cursors _cursors
    cdef object _tidy
    cdef LiveRecords _live       # of the active segment
    cdef uint64_t _live_base     # the base of that segment
    cdef buf_t _records          # of the batch at hand
    # Limits; 0 is none:
    cdef int64_t _max_messages
    cdef int64_t _max_bytes
    cdef uint64_t _max_per_subject
    cdef uint64_t _max_size      # of headers and payload of one message
    cdef bint _refuses           # what would be over a limit, rather than remove what is
    cdef uint32_t _besides       # what a message counts for besides its parts
    cdef uint32_t _headed        # and on top of that when it has headers
    cdef readonly bint is_open
    cdef public bint is_quiet

    cdef LiveRecords _live_records(self)
    cdef int64_t _measure(self, NewMessages batch) except -1
    cdef bint _has_room(self, NewMessages batch, int64_t size) noexcept
    cdef int _pack(self, NewMessages batch, bytes lead, int64_t size) except -1
    cdef int _write(self) except -1
    cdef int _count(self, NewMessages batch, int64_t offset, uint64_t first, int64_t besides) except -1
    cdef bint _is_over(self, NewMessages batch) noexcept
