"""Stream imports: shadow subscriptions in the account that exports a stream."""

from headrace.engine.interest cimport Interest
from headrace.engine.structs cimport link_t, msg_t, sub_t

cdef class StreamImport:
    cdef readonly Interest exporter
    cdef readonly object subjects
    cdef readonly bint traces
    cdef dict _renamed
    cdef bytes _local(self, bytes subject)

cdef int hang_shadows(sub_t *s) except -1
cdef void drop_shadows(sub_t *s, link_t *owner) noexcept
cdef void free_shadow(sub_t *s) noexcept
cdef list shadow_rows(link_t *l, where)
cdef int rename(sub_t *s, msg_t *m, const char **head, size_t *head_len) except -1
