# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Subscriptions of links that end: out of the interest, and freed at the end of the tick."""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from headrace.engine.memory cimport give, live
from headrace.engine.stream_imports cimport drop_shadows, free_shadow
from headrace.engine.structs cimport LINK_CLOSING, SUB_REMOVED, link_t, router_t, sub_t
from headrace.engine.trie cimport remove

# Stands in for a link that is gone, in subscriptions that a plan in use may still name.
cdef link_t nobody
memset(&nobody, 0, sizeof(link_t))
nobody.flags = LINK_CLOSING


cdef void withdraw(sub_t *s, router_t *r) noexcept:
    if s.shadows != NULL:
        drop_shadows(s, &nobody)
    remove(s)
    s.link = &nobody
    s.flags |= SUB_REMOVED
    s.next_removed = r.removed
    r.removed = s


cdef void withdraw_all(link_t *l) noexcept:
    """Whatever the link has; it has no table then."""
    cdef uint32_t i
    for i in range(l.sids_cap):
        if l.sids[i] != NULL:
            withdraw(l.sids[i], l.router)
    give(l.sids)
    l.sids = NULL
    l.sids_cap = l.sids_count = 0


cdef uint32_t withdraw_some(link_t *l, uint32_t most) noexcept:
    """So many, the last ones of the table: from then on it is good for nothing but this.

    Returns how many fewer there were.
    """
    while most and l.sids_count:
        l.sids_cap -= 1
        if l.sids[l.sids_cap] != NULL:
            withdraw(l.sids[l.sids_cap], l.router)
            l.sids_count -= 1
            most -= 1
    return most


cdef void sweep(router_t *r) noexcept:
    """Frees subscriptions that were removed in this tick: no plan in use names them any more."""
    cdef sub_t *s = r.removed
    cdef sub_t *following
    r.removed = NULL
    while s != NULL:
        following = s.next_removed
        if s.shadow != NULL:
            free_shadow(s)
        give(s)
        live.subs -= 1
        s = following
