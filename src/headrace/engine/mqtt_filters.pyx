# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Filters of one client of MQTT: what its link keeps of them, and which one delivers where they overlap.

In MQTT 5 a message that several filters of one client match comes once, with the identifiers of all of them. Through
which filter is a rule without memory: the one of the highest QoS, of equal ones the first by its sid. Filters are
marked when they are made if another one may match the same subject, so others cost nothing.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from headrace.engine.client cimport find_sid
from headrace.engine.memory cimport buf_reserve
from headrace.engine.mqtt_headers cimport SUBSCRIPTION_IDENTIFIER, put_variable
from headrace.engine.structs cimport buf_t, hr_hash, link_t, sub_t

cdef uint64_t OVERLAPS = 1 << 7


cdef uint64_t own_of(sub_t *s) noexcept:
    """Of a shadow: what the link keeps of the subscription that it is a shadow of."""
    cdef sub_t *original
    if s.quota.own:
        return s.quota.own
    original = find_sid(s.link, s.text, s.sid_len, <uint32_t> hr_hash(s.text, s.sid_len, s.link.interest.seed))
    return 0 if original == NULL else original.quota.own


cdef inline uint32_t token_end(const char *text, uint32_t at, uint32_t n) noexcept:
    cdef const char *dot = <const char *> memchr(text + at, c'.', n - at)
    return n if dot == NULL else <uint32_t> (dot - text)


cdef bint covers(const char *wanted, uint32_t n, const char *subject, uint32_t m, bint both) noexcept:
    """True if a subject with wildcards matches one without; with `both`, if any subject is matched by either."""
    cdef uint32_t i = 0, j = 0, i_end, j_end
    while i <= n and j <= m:
        i_end = token_end(wanted, i, n)
        j_end = token_end(subject, j, m)
        if i_end == i + 1 and i_end == n and wanted[i] == c'>' or both and j_end == j + 1 and j_end == m and subject[j] == c'>':
            return True
        if not (i_end == i + 1 and wanted[i] == c'*') and not (both and j_end == j + 1 and subject[j] == c'*'):
            if i_end - i != j_end - j or memcmp(wanted + i, subject + j, i_end - i) != 0:
                return False
        i = i_end + 1
        j = j_end + 1
    return i > n and j > m


cdef inline bint is_filter(sub_t *s) noexcept:
    """True if it is a filter that is not shared."""
    return s != NULL and (s.quota.own & 3) == KIND_FILTER and s.queue_len == 0


cdef uint64_t mark_overlaps(link_t *l, const char *subject, uint32_t n, sub_t *but) noexcept:
    """Marks the filters that a new one overlaps; gives the mark that it gets itself."""
    cdef uint64_t found = 0
    cdef uint32_t i
    cdef sub_t *s
    for i in range(l.sids_cap):
        s = l.sids[i]
        if is_filter(s) and s != but and covers(s.subject, s.subject_len, subject, n, True):
            s.quota.own |= OVERLAPS
            found = OVERLAPS
    return found


cdef bint comes_before(sub_t *s, sub_t *other) noexcept:
    """True if the sid of the first one is lower."""
    cdef int order = memcmp(s.text, other.text, min(s.sid_len, other.sid_len))
    return order < 0 or order == 0 and s.sid_len < other.sid_len


cdef int choose(link_t *l, const char *subject, uint32_t n, bint is_own, choice_t *choice, buf_t *identifiers) except -1:
    """Chooses the filter through which a message goes; appends the identifiers of all that match it, as properties."""
    cdef uint32_t i
    cdef sub_t *s
    cdef uint64_t own
    cdef char *at
    choice.filter = NULL
    choice.qos = 0
    choice.retains = False
    for i in range(l.sids_cap):
        s = l.sids[i]
        if not is_filter(s):
            continue
        own = s.quota.own
        if has_option(own, NO_LOCAL) and is_own or hides(own, subject, n) \
                or not covers(s.subject, s.subject_len, subject, n, False):
            continue
        choice.retains |= has_option(own, RETAIN_AS_PUBLISHED)
        if choice.filter == NULL or qos_of(own) > choice.qos or qos_of(own) == choice.qos and comes_before(s, choice.filter):
            choice.filter = s
            choice.qos = qos_of(own)
        if identifier_of(own):
            buf_reserve(identifiers, 5)
            at = identifiers.data + identifiers.end
            at[0] = SUBSCRIPTION_IDENTIFIER
            identifiers.end = put_variable(at + 1, identifier_of(own)) - identifiers.data
    return 0
