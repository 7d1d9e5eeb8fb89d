"""Publications and the words of JetStream's wire, for compiled code. See jetstream.pyx."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.batches cimport Block, Outgoing, part_t, record_t
from headrace.engine.messages cimport NewMessages, message_t

cdef class Publications(NewMessages):
    cdef part_t *_replies
    cdef Py_ssize_t _places
    cdef readonly uint64_t size

    cdef message_t *take(self, part_t reply) except NULL
    cdef int gather(self, record_t *record, const char *subject, Block block) except -1
    cdef int at_any_time(self) except -1
    cdef int clear(self) except -1
    cdef int copy(self, Publications other, Py_ssize_t place) except -1
    cpdef at(self, int64_t time_ns)
    cpdef stored(self, uint64_t first)
    cpdef acknowledge(self, Outgoing out, bytes head, bytes tail)

cdef struct ack_t:
    uint64_t sequence        # in the stream
    uint64_t consumer_sequence
    uint64_t deliveries
    part_t reply             # who wants to know that it was acknowledged; empty: nobody

cdef struct names_t:
    part_t stream
    part_t consumer

cdef bint read_ack(const char *subject, uint32_t n, names_t *names, ack_t *ack) noexcept
cdef bint is_plain(const char *body, uint32_t n) noexcept
cdef int deliver_one(Outgoing out, part_t inbox, bytes ack_prefix, message_t *m, uint64_t consumer_sequence,
                     uint64_t num_pending) except -1
cdef bint read_id(const char *headers, uint32_t n, part_t *msg_id) noexcept
cdef bint has_only_id(record_t *record, const char *subject, uint64_t largest, part_t *msg_id) noexcept
cdef bint is_special(record_t *record, const char *subject, uint64_t largest) noexcept
