"""The interest of this cluster, as other clusters are told."""

from libc.stdint cimport int64_t

from headrace.engine.structs cimport interest_t, link_t, sub_t

cdef void cluster_changed(link_t *l, sub_t *s, int64_t change) noexcept
cdef int tell_all(link_t *l, interest_t *it, bint wanted) except -1
