"""Filters of one client of MQTT: what its link keeps of them, and those that overlap. See mqtt_filters.pyx."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headrace.engine.structs cimport buf_t, link_t, sub_t

cdef enum subscription_kind_t:
    KIND_FILTER              # the plain subscription of a filter
    KIND_FOLLOWED            # where a consumer delivers
    KIND_HEARD               # for the session
    KIND_STORED              # where JetStream confirms what the client published

cdef enum:
    NO_LOCAL = 0x04              # of the options of a subscription
    RETAIN_AS_PUBLISHED = 0x08

cdef struct choice_t:
    # What becomes of a message that several filters of one client match.
    sub_t *filter                # through which it goes; NULL: through none
    uint8_t qos                  # of that
    bint retains                 # one of them wants RETAIN as published

cdef uint64_t own_of(sub_t *s) noexcept
cdef bint covers(const char *wanted, uint32_t n, const char *subject, uint32_t m, bint both) noexcept
cdef uint64_t mark_overlaps(link_t *l, const char *subject, uint32_t n, sub_t *but) noexcept
cdef int choose(link_t *l, const char *subject, uint32_t n, bint is_own, choice_t *choice, buf_t *identifiers) except -1


cdef inline uint64_t own_bits(uint64_t kind, uint64_t qos, uint64_t options, bint hides_dollar, uint64_t identifier) noexcept:
    """All of it in one number: it stands in the place of the limit that subscriptions of NATS have."""
    return (<uint64_t> 1 << 63 | kind | qos << 2 | (options & (NO_LOCAL | RETAIN_AS_PUBLISHED)) << 2
            | <uint64_t> hides_dollar << 6 | identifier << 8)


cdef inline int kind_of(uint64_t own) noexcept:
    return own & 3


cdef inline uint8_t qos_of(uint64_t own) noexcept:
    return own >> 2 & 3


cdef inline bint has_option(uint64_t own, uint32_t option) noexcept:
    return (own >> 2 & option) != 0


cdef inline bint hides(uint64_t own, const char *subject, uint32_t n) noexcept:
    """True if the filter begins with a wildcard, and the subject with a dollar."""
    return (own >> 6 & 1) != 0 and n and subject[0] == c'$'


cdef inline bint overlaps(uint64_t own) noexcept:
    """True if another filter of the client may match the same message: then one of them delivers it for all."""
    return (own >> 7 & 1) != 0


cdef inline uint32_t identifier_of(uint64_t own) noexcept:
    return own >> 8 & 0xFFFFFFF
