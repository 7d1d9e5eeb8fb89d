"""Unsubscribing for links that end."""

from libc.stdint cimport uint32_t

from headrace.engine.structs cimport link_t, router_t

cdef void unsubscribe_all(link_t *l) noexcept
cdef uint32_t unsubscribe_some(link_t *l, uint32_t most) noexcept
cdef void free_removed(router_t *r) noexcept
