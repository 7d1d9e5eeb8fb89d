"""One message to everyone its plan names."""

from headrace.engine.structs cimport interest_t, link_t, msg_t, sub_t

cdef int route(interest_t *it, msg_t *m) except -1
cdef int deliver(sub_t *s, const char *head, size_t head_len, msg_t *m) except -1
cdef void remove_sub(sub_t *s) noexcept
