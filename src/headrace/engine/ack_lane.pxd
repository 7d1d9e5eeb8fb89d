"""Plain acknowledgements without Python. See ack_lane.pyx."""

from libc.stdint cimport int64_t

from headrace.engine.batches cimport Outgoing
from headrace.engine.consumer cimport ConsumerTable, DeltaWriter
from headrace.engine.lanes cimport Lane
from headrace.engine.structs cimport buf_t

cdef class AckLane(Lane):
    cdef ConsumerTable _consumers
    cdef Outgoing _out
    cdef object _journal
    cdef DeltaWriter _writer     # of its deltas
    cdef object _now_ns
    cdef int64_t _now            # of this tick; 0: not asked yet
    cdef list _touched           # consumers that tell what is settled, and have something to tell
    cdef buf_t _replies          # where acknowledgements of this tick are confirmed: u32 length and subject of each

    cdef bint _tell_settled(self) except -1
    cdef int _confirm(self) except -1
    cdef list _replies_as_list(self)
    cdef void _forget_replies(self) noexcept
