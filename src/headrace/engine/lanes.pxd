"""Lanes, which do a service's messages without Python. See lanes.pyx."""

from libc.stdint cimport int64_t, uint64_t

from headrace.engine.batches cimport Block, record_t

cdef enum:
    NOT_MINE = 0             # Python does this message, and all behind it
    TAKEN = 1

cdef class Lane:
    cdef bint is_touched         # it has taken something and is not finished
    cdef bint asks               # it looks at what others have taken: they are finished before
    cdef public bint is_open

    cdef int take(self, record_t *record, const char *subject, Block block) except -1
    cdef bint finish(self) except -1
    cdef bint is_apart(self, record_t *record, const char *subject) except -1

cdef class StreamCounts:
    cdef public uint64_t last_sequence
    cdef public uint64_t visible
    cdef public uint64_t held
    cdef public uint64_t epoch
    cdef public int64_t last_time_ns
    cdef public int64_t measured

cdef class HeldBytes:
    cdef public int64_t memory
    cdef public int64_t storage

cdef const char *run_lanes(list lanes, Block block, const char *at, const char *end, object session,
                           bint *wants_turn) except NULL
