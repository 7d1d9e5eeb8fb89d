"""One message to everyone its plan names."""

from headrace.engine.structs cimport link_t, msg_t, plan_t, router_t, sub_t

cdef int route(plan_t *plan, msg_t *m) except -1
cdef int route_remote(plan_t *plan, msg_t *m) except -1
cdef int deliver(sub_t *s, const char *head, size_t head_len, msg_t *m) except -1
cdef int strip_headers(msg_t *m, router_t *r) except -1
cdef void remove_sub(sub_t *s) noexcept
