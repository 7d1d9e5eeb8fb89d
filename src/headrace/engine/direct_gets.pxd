"""Direct gets of single messages, answered without Python. See direct_gets.pyx."""

from libc.stdint cimport uint64_t

from headrace.engine.batches cimport Outgoing, part_t
from headrace.engine.lanes cimport StreamCounts
from headrace.engine.log_reading cimport LogReads
from headrace.engine.messages cimport message_t

cdef class DirectGets:
    cdef readonly bytes stream
    cdef StreamCounts _counts
    cdef public bint is_allowed
    """The stream allows them; where it does not, nobody is asked for an answer here."""
    cdef public LogReads reads
    """Of the stream's log; None: it cannot be read from here now."""

    cdef bint answer(self, Outgoing out, part_t subject, part_t body, part_t reply) except -1
    cdef bint _put(self, Outgoing out, part_t reply, message_t *m) except -1
