"""Messages that are traced: see tracing.pyx."""

from libc.stdint cimport uint32_t

from headrace.engine.structs cimport interest_t, link_t, msg_t, sub_t, target_t

cdef enum:
    # What becomes of a delivery.
    TRACE_REFUSED            # this receiver does not get it
    TRACE_DELIVER
    TRACE_UNSEEN             # it is delivered, and what follows is not traced
    TRACE_TAKEN              # it would be delivered, which is all that was asked

cdef bint is_marked(const char *block, uint32_t n, bint external) noexcept
cdef bint open_trace(link_t *l, interest_t *it, msg_t *m, list kept) except -1
cdef int close_trace(msg_t *m) except -1
cdef int judge_traced(sub_t *s, msg_t *m) except -1
cdef int refuse_hop(link_t *l, msg_t *m) except -1
cdef bytes begin_hop(link_t *l, msg_t *m, msg_t *hop)
cdef int end_hop(link_t *l, msg_t *m, bint is_sent) except -1


cdef inline bint asks_for_trace(link_t *l, interest_t *it, msg_t *m) noexcept:
    """True if a message may want to be traced, by the names of its headers."""
    return m.header_len and l.router.tracer != NULL and is_marked(
        m.body, m.header_len, it == NULL or it.is_traced)
