# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Unsubscribing for links that end: their subscriptions leave the interest and are freed at the end of the tick."""

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


cdef void unsubscribe(sub_t *s, router_t *r) noexcept:
    if s.shadows != NULL:
        drop_shadows(s, &nobody)
    remove(s)
    s.link = &nobody
    s.flags |= SUB_REMOVED
    s.next_removed = r.removed
    r.removed = s


cdef void unsubscribe_all(link_t *l) noexcept:
    """Remove every subscription of a link, and free its table."""
    cdef uint32_t i
    for i in range(l.sids_cap):
        if l.sids[i] != NULL:
            unsubscribe(l.sids[i], l.router)
    give(l.sids)
    l.sids = NULL
    l.sids_cap = l.sids_count = 0


cdef uint32_t unsubscribe_some(link_t *l, uint32_t most) noexcept:
    """Remove at most `most` subscriptions, from the end of the link's table, which serves no lookup from then on.

    Returns how many of `most` are left over.
    """
    while most and l.sids_count:
        l.sids_cap -= 1
        if l.sids[l.sids_cap] != NULL:
            unsubscribe(l.sids[l.sids_cap], l.router)
            l.sids_count -= 1
            most -= 1
    return most


cdef void free_removed(router_t *r) noexcept:
    """Free the subscriptions that were removed in this tick: no plan in use names them any more."""
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
