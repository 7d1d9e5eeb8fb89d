"""One connection's buffers, and the router that ties connections together within a tick."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.structs cimport link_t, router_t

cdef enum:
    FLUSH_MARK = 65536       # rule 2: flush early from here on
    FIRST_OUTBOX = 1024
    SMALL_FRAME = 8192
    USUAL_OUTBOX = 98304     # of small frames so much is flushed at once: what one read makes, in one call, and of
                             # a longer run the receiver begins with the front while the rest is written
    IDLE_OUTBOX = 131072     # an empty outbox larger than this gives its memory back
    UNSUBSCRIBED_AT_ONCE = 2048 # subscriptions of lost servers that one tick removes: some milliseconds

cdef inline uint64_t next_random(router_t *r) noexcept:
    r.random ^= r.random << 13
    r.random ^= r.random >> 7
    r.random ^= r.random << 17
    return r.random

cdef class Router:
    cdef router_t c
    cdef list _leaving
    cdef object _tracer
    cdef uint32_t _unsubscribes
    cdef _let_leave(self)

cdef class Link:
    cdef link_t c
    cdef readonly Router router
    cdef readonly object session
    cdef object _interest
    cdef object _publish_permissions
    cdef object _deliver_permissions
    cdef object _write
    cdef bint _is_detached
    cdef _hear_nothing(self)
    cdef _quit(self)
    cdef _leave(self)
    cdef _release(self)
    cdef _set_flag(self, uint32_t flag, bint on)

cdef void doom(link_t *l, uint32_t reason) noexcept
cdef void mark_dirty(link_t *l) noexcept
cdef void mark_due(link_t *l) noexcept
cdef char *make_room(link_t *l, size_t n) noexcept
cdef int emit(link_t *l, const char *data, size_t n) noexcept
cdef void after_write(link_t *l, size_t n, bint blocked) noexcept
cdef void prepare_outbox(link_t *l) noexcept
cdef void stall(link_t *publisher, link_t *receiver) noexcept
cdef void serve_due(router_t *r) noexcept
cdef void flush_dirty(router_t *r) noexcept
cdef int release_stalled_of(link_t *l) noexcept
