"""Reply mapping: reply subjects that lead back to another cluster."""

from libc.stdint cimport uint32_t

from headrace.engine.structs cimport msg_t, router_t, sub_t

cdef enum:
    PREFIX_LEN = 19          # "_GR_.", a cluster's and a server's hash of 6 characters, each with a dot
    CLUSTER_AT = 5
    SERVER_AT = 12
    HASH_LEN = 6

cdef bint is_mapped(const char *subject, uint32_t n) noexcept
cdef int remember_mapped_reply(sub_t *s, msg_t *m) except -1
cdef bint find_mapped_reply(router_t *r, void *holder, msg_t *m) noexcept
cdef bint unmap_subject(router_t *r, msg_t *m) noexcept
cdef void forget_mapped_replies(router_t *r) noexcept
