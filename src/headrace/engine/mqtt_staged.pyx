# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The publications of QoS 2 that one client has begun, by packet identifier, each with a copy of what it says.

The copy saves reading the stream when the client releases it. Copies of one connection have a room; what does not
go in there is read from the stream. What is done with them is `mqtt_incoming`'s.
"""

from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memset

from headrace.engine.memory cimport give, take

cdef enum:
    FIRST_CHAINS = 16


cdef staged_t *find_staged(staged_table_t *t, uint16_t identifier) noexcept:
    """The publication of an identifier; NULL: there is none."""
    cdef staged_t *s
    if t.cap == 0:
        return NULL
    s = t.chains[identifier & (t.cap - 1)]
    while s != NULL and s.identifier != identifier:
        s = s.next
    return s


cdef int widen(staged_table_t *t) except -1:
    cdef uint32_t cap = max(<uint32_t> FIRST_CHAINS, 2 * t.cap)
    cdef staged_t **chains = <staged_t **> take(cap * sizeof(staged_t *))
    cdef staged_t *s
    cdef uint32_t i, at
    memset(chains, 0, cap * sizeof(staged_t *))
    for i in range(t.cap):
        while t.chains[i] != NULL:
            s = t.chains[i]
            t.chains[i] = s.next
            at = s.identifier & (cap - 1)
            s.next = chains[at]
            chains[at] = s
    give(t.chains)
    t.chains = chains
    t.cap = cap
    return 0


cdef staged_t *add_staged(staged_table_t *t, uint16_t identifier, size_t text_len) except NULL:
    """A new publication with place for so much text; its identifier is not in the table."""
    cdef size_t size = sizeof(staged_t) + text_len
    cdef staged_t *s
    cdef uint32_t at
    if t.count >= t.cap:
        widen(t)
    s = <staged_t *> take(size)
    memset(s, 0, sizeof(staged_t))
    s.size = size
    s.identifier = identifier
    at = identifier & (t.cap - 1)
    s.next = t.chains[at]
    t.chains[at] = s
    t.count += 1
    t.bytes += size
    return s


cdef void remove_staged(staged_table_t *t, staged_t *s) noexcept:
    """Forget a publication that is in the table."""
    cdef staged_t **at = &t.chains[s.identifier & (t.cap - 1)]
    while at[0] != s:
        at = &at[0].next
    at[0] = s.next
    t.count -= 1
    t.bytes -= s.size
    give(s)


cdef void release_table(staged_table_t *t) noexcept:
    """Give back everything."""
    cdef uint32_t i
    for i in range(t.cap):
        while t.chains[i] != NULL:
            remove_staged(t, t.chains[i])
    give(t.chains)
    memset(t, 0, sizeof(staged_table_t))
