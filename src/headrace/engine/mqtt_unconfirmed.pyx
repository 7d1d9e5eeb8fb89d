# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Publications of one client of MQTT that JetStream has not answered, in the order in which they were made.

Answers come in that order, too, so the one that is looked for is the first one or near it. Since when each of them
waits is kept, so that none waits without end though others are answered.
"""

from libc.stdint cimport int64_t, uint32_t

from headrace.engine.memory cimport give, resize
from headrace.engine.structs cimport HR_GUARD

cdef enum:
    SMALLEST_RING = 8


cdef int grow(unconfirmed_t *u) except -1:
    """Makes the ring twice as large; what has gone round its end comes behind what has not."""
    cdef uint32_t i, cap = u.cap
    u.ring = <awaited_t *> resize(u.ring, (2 * cap if cap else SMALLEST_RING) * sizeof(awaited_t))
    u.cap = 2 * cap if cap else SMALLEST_RING
    for i in range(u.first + u.count - cap if u.first + u.count > cap else 0):
        u.ring[cap + i] = u.ring[i]
    return 0


cdef int add_unconfirmed(unconfirmed_t *u, uint32_t identifier, int64_t now) except -1:
    cdef awaited_t *place
    if u.count == u.cap:
        grow(u)
    place = &u.ring[(u.first + u.count) & (u.cap - 1)]
    place.since = now
    place.identifier = identifier
    u.count += 1
    HR_GUARD(u.count <= u.cap)
    return 0


cdef bint take_unconfirmed(unconfirmed_t *u, uint32_t identifier) noexcept:
    """Takes the oldest publication of an identifier out; False: none waits."""
    cdef uint32_t i, mask = u.cap - 1
    for i in range(u.count):
        if u.ring[(u.first + i) & mask].identifier == identifier:
            break
    else:
        return False
    while i:  # those before it move up
        u.ring[(u.first + i) & mask] = u.ring[(u.first + i - 1) & mask]
        i -= 1
    u.first = (u.first + 1) & mask
    u.count -= 1
    return True


cdef awaited_t *oldest_unconfirmed(unconfirmed_t *u) noexcept:
    """The publication that waits longest; NULL: none does."""
    return &u.ring[u.first] if u.count else NULL


cdef void release_unconfirmed(unconfirmed_t *u) noexcept:
    give(u.ring)
    u.ring = NULL
    u.cap = u.first = u.count = 0
