"""Plain publications to one stream without Python. See publish_lane.pyx."""

from libc.stdint cimport int64_t, uint64_t

from headrace.engine.batches cimport Outgoing, record_t
from headrace.engine.ids cimport IdWindow
from headrace.engine.jetstream cimport Publications
from headrace.engine.lanes cimport HeldBytes, Lane, StreamCounts
from headrace.engine.log_core cimport LogAppends

cdef enum:
    KNOWN_SUBJECTS = 256         # of which a lane remembers whether a consumer wants their messages

cdef class PublishLane(Lane):
    cdef StreamCounts _stream
    cdef object _owner
    cdef IdWindow _ids           # of messages that were stored lately, and of those that are gathered
    cdef uint64_t _noted         # how many of them are gathered
    cdef int64_t _now            # ns since 1970: when what is gathered is stored
    cdef bint _wants_turn
    cdef public bint is_behind   # its owner has not stored yet what it took over
    cdef object _log
    cdef LogAppends _appends     # to it
    cdef object _now_ns
    cdef Outgoing _out
    cdef bytes _head
    cdef bytes _tail
    cdef bytes _repeated         # in place of it, where a message was stored before
    cdef Publications _gathered  # since it was finished; None: nothing
    cdef Publications _spare     # an empty one
    cdef public uint64_t unanswered
    # What `open` said:
    cdef uint64_t _largest       # bytes of headers and payload of one message; 0: any
    cdef bint _answers           # publishers hear of what is stored
    cdef bint _waits             # a message is only answered when it was synced
    cdef bint _is_memory
    cdef bint _trims             # limits remove messages, or age does
    cdef int64_t _room           # bytes that the account may hold; negative: any
    cdef int64_t _room_of_all    # bytes that all accounts may hold; 0: any
    cdef HeldBytes _held         # by the account
    cdef HeldBytes _held_by_all
    cdef object _marks           # SyncMarks of the committer; None: publishers wait for it, or the log is in memory
    cdef dict _due               # what they say; None: no log is ever synced
    cdef dict _failed
    cdef dict _consumers
    cdef dict _followers
    cdef object _wants           # says of a subject whether a consumer wants its messages; None: all are kept
    cdef list _subjects          # those it was asked about lately, by their hash
    cdef bint[KNOWN_SUBJECTS] _wanted

    cdef bint _is_wanted(self, const char *subject, size_t n) except -1
    cdef int _begin(self) except -1
    cdef bint _store(self) except -1
    cdef int _repeat(self, record_t *record, const char *subject, uint64_t sequence) except -1
    cdef int _forget_gathered(self) except -1
    cdef bint _must_ask(self, Publications batch) except -1
    cdef bint _take_over(self, Publications batch, object error) except -1
    cdef int _count(self, Publications batch, uint64_t first, int64_t now) except -1
    cdef bint _answer(self, Publications batch, uint64_t first) except -1
