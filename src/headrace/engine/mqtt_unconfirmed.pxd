"""Publications of one client of MQTT that JetStream has not answered. See mqtt_unconfirmed.pyx."""

from libc.stdint cimport int64_t, uint32_t

cdef struct awaited_t:
    int64_t since                # the router's clock when it was published
    uint32_t identifier

cdef struct unconfirmed_t:
    # A ring, the oldest first.
    awaited_t *ring
    uint32_t cap                 # a power of two; 0: there is no ring
    uint32_t first
    uint32_t count

cdef int add_unconfirmed(unconfirmed_t *u, uint32_t identifier, int64_t now) except -1
cdef bint take_unconfirmed(unconfirmed_t *u, uint32_t identifier) noexcept
cdef awaited_t *oldest_unconfirmed(unconfirmed_t *u) noexcept
cdef void release_unconfirmed(unconfirmed_t *u) noexcept
