"""The progress of a consumer, and the bytes of its changes. See consumer.pyx."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.messages cimport NewMessages
from headrace.engine.pending cimport PendingMap
from headrace.engine.structs cimport buf_t

cdef struct run_t:
    # Messages that went out together, for the first time.
    uint64_t number          # consumer sequence of the first
    int64_t sent_ns
    uint64_t first           # their stream sequences: from this one on, one after the other, or
    uint64_t count
    bint has_gaps            # the next `count` of `_sequences`

cdef class ConsumerNumbers:
    cdef public uint64_t delivered_consumer
    cdef public uint64_t delivered_stream
    cdef public uint64_t floor_consumer
    cdef public uint64_t floor_stream
    cdef public PendingMap pending
    cdef public dict redelivered
    cdef public dict held

cdef class ConsumerCore:
    cdef ConsumerNumbers _state
    cdef readonly PendingMap pending
    cdef public bint tracks
    cdef public uint64_t next_sequence
    cdef public uint64_t passed_to
    cdef public uint64_t floor_consumer
    cdef public uint64_t floor_stream
    cdef public int64_t delivered_ns
    cdef public int64_t acknowledged_ns
    cdef public uint64_t known_lowest
    cdef public bint is_stuck
    cdef public int64_t active_ns
    cdef public uint64_t epoch
    cdef public uint64_t most_pending
    cdef public bint settles_alone
    cdef public object acked
    cdef list settled            # since `tell_settled`, while there is somebody to tell; None: nothing
    cdef public tuple waits_again
    cdef public object identity
    cdef public bint is_stored
    cdef bint _is_touched        # it is among `_deltas`
    cdef ConsumerDeltas _deltas
    # What changed since it was written last.
    cdef public bint is_whole_new
    cdef buf_t _runs             # run_t of each
    cdef buf_t _sequences        # uint64_t of each, of runs with gaps
    cdef buf_t _gone             # uint64_t of each
    cdef dict _renewed           # what is rare is in tables of Python's, None when there is nothing
    cdef dict _counts
    cdef list _uncounted
    cdef dict _held
    cdef list _freed

    cdef bint can_settle(self) except -1
    cdef int settle_one(self, uint64_t sequence, int64_t now_ns) except -1
    cdef int tell_settled(self) except -1
    cdef int note_run(self, uint64_t number, int64_t sent_ns, uint64_t first, uint64_t count) except -1
    cdef int note_gone_one(self, uint64_t sequence) except -1
    cdef int put_delta(self, buf_t *out) except -1
    cdef int _note(self, uint64_t number, int64_t sent_ns, uint64_t first, uint64_t count, bint has_gaps) except -1
    cdef int _put_changes(self, buf_t *out) except -1
    cdef int _put_runs(self, buf_t *out) except -1
    cdef int lift_floor(self, bint shown) except -1
    cdef int note_change(self) except -1
    cdef int note_sent(self, uint64_t sequence, int64_t ns) except -1
    cpdef forget_changes(self)

cdef class ConsumerDeltas:
    cdef public bint is_due
    cdef public object timer
    cdef dict _cores             # by identity, in the order of their first change
    cdef buf_t _out              # what is written
    cdef bint must_turn(self) noexcept
    cdef int64_t write(self, log, NewMessages batch, bytes subject, list copies) except -1
    cdef int put(self, buf_t *out) except -1

cdef enum:
    LATER = 0                # a turn has to write what changed, and nothing was done
    WRITTEN = 1              # whoever waits for it may be told
    FAILED = 2               # nobody is told

cdef class ChangeCounts:
    cdef public object log
    cdef public list entries
    cdef public list waiters
    cdef public uint64_t appended
    cdef public uint64_t synced
    cdef public int64_t grown
    cdef public int64_t most_growth
    cdef public bint snapshot_due

cdef class DeltaWriter:
    cdef ChangeCounts _journal
    cdef ConsumerDeltas _deltas
    cdef NewMessages _batch      # the records of one write
    cdef bytes _subject          # of these records
    cdef list _copies            # what each of them begins with
    cdef object _marks           # SyncMarks of the committer; None: whoever waits is told after a sync
    cdef dict _due               # what they say; None: no log is ever synced
    cdef dict _failed

    cdef int write(self) except -1
    cdef int _count(self, int64_t size) except -1
    cpdef bint wants_turn(self)

cdef class DueWork:
    cdef public dict touched
    cdef public dict woken
    cdef public DeltaWriter writer
    cdef bint is_there(self) except -1

cdef class ConsumerTable:
    cdef dict _cores             # by b"<stream>.<consumer>"
    cdef list _recent            # (name, core) of those that were asked for last, by a hash of the name
    cdef ConsumerCore find(self, const char *name, uint32_t n)
