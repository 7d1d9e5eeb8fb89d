"""Pulls of one message that is there, granted without Python. See pulls.pyx."""

from libc.stdint cimport int64_t, uint64_t

from headrace.engine.batches cimport Outgoing, part_t
from headrace.engine.consumer cimport ConsumerCore
from headrace.engine.lanes cimport StreamCounts
from headrace.engine.log_reading cimport LogReads

cdef class PendingNumbers:
    cdef public int64_t counted
    cdef public int64_t counted_to
    cdef public int64_t epoch
    cdef public uint64_t next_sequence

cdef class SinglePulls:
    cdef object _consumer
    cdef StreamCounts _stream
    cdef ConsumerCore _core
    cdef bytes _prefix
    cdef object _waiting
    cdef bint _is_plain
    cdef int64_t _max_expires    # ns; 0: any
    cdef int64_t _first_wait     # ns
    cdef object _free_pace       # the pace that was found to be free

    cdef bint grant(self, Outgoing out, part_t body, part_t reply) except -1
    cdef bint _is_alarm_set(self, int64_t now) except -1
    cdef bint _is_free(self) except -1
    cdef bint _must_wait(self) except -1
    cdef bint _find(self, LogReads reads, uint64_t *start, uint64_t *following) except -1
