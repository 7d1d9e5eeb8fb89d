"""What other links use of the client protocol: subjects and the table of subscriptions by sid."""

from libc.stdint cimport uint32_t

from headrace.engine.structs cimport link_t, sub_t

cdef struct arg_t:
    const char *text
    uint32_t len

cdef bint is_valid_subject(const char *s, uint32_t n, bint literal) noexcept
cdef sub_t *find_sid(link_t *l, const char *sid, uint32_t n, uint32_t hash) noexcept
cdef int add_sid(link_t *l, sub_t *s) except -1
cdef sub_t *new_sub(link_t *l, arg_t *subject, arg_t *queue, arg_t *sid, uint32_t hash) except NULL
