# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The permission cache: answers of Python's policy (allowed or not), remembered by subject.

Python decides once per connection and subject whether a message may be published or delivered; the answer is
kept here. The table is bounded: when it is full it is emptied and filled anew.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from headrace.engine.interest cimport table_seed
from headrace.engine.memory cimport give, take
from headrace.engine.structs cimport hr_equal, hr_hash, sub_t

cdef enum:
    SLOTS = 2048
    MOST = 1024      # answers remembered per connection
    LONGEST_KEY = 512  # longer keys are asked each time, so that one peer cannot fill the heap


cdef void forget(PermissionCache cache) noexcept:
    cdef uint32_t i
    if cache._table == NULL:
        return
    for i in range(SLOTS):
        give(cache._table[i].key)
    give(cache._table)
    cache._table = NULL
    cache._count = 0


cdef int remember(PermissionCache cache, uint64_t hash, const char *key, uint32_t n, bint allowed) except -1:
    cdef uint32_t i
    if n > LONGEST_KEY:
        return 0
    if cache._count == MOST:
        forget(cache)
    if cache._table == NULL:
        cache._table = <permission_t *> take(SLOTS * sizeof(permission_t))
        memset(cache._table, 0, SLOTS * sizeof(permission_t))
    i = hash & (SLOTS - 1)
    while cache._table[i].key != NULL:
        i = (i + 1) & (SLOTS - 1)
    cache._table[i].key = <char *> take(n + 1)
    memcpy(cache._table[i].key, key, n)
    cache._table[i].hash = hash
    cache._table[i].len = n
    cache._table[i].allowed = allowed
    cache._count += 1
    return 0


cdef int is_allowed(PermissionCache cache, uint64_t hash, const char *key, uint32_t n) except -1:
    """Return 1 if the key is allowed, 0 if not; ask Python when no answer is remembered. `hash`: with the table seed."""
    cdef uint32_t i
    cdef bint allowed
    if cache._table != NULL:
        i = hash & (SLOTS - 1)
        while cache._table[i].key != NULL:
            if cache._table[i].hash == hash and cache._table[i].len == n and hr_equal(cache._table[i].key, key, n):
                return cache._table[i].allowed
            i = (i + 1) & (SLOTS - 1)
    allowed = cache._ask(key[:n])
    remember(cache, hash, key, n, allowed)
    return allowed


cdef int allows(sub_t *s, const char *subject, size_t subject_len) except -1:
    """Tell whether a subscription may be sent messages of this subject; the key is "subject" or "subject queue"."""
    cdef bytes key
    if s.link.deliver_permissions == NULL:
        return 1
    key = subject[:subject_len]
    if s.queue_len:
        key += b" " + s.queue[:s.queue_len]
    return is_allowed(<PermissionCache> s.link.deliver_permissions, hr_hash(key, len(key), s.interest.seed), key, <uint32_t> len(key))


cdef class PermissionCache:
    """The function `ask(key: bytes) -> bool` with a memory of 1024 answers."""

    def __cinit__(self, ask):
        self._ask = ask

    def __dealloc__(self):
        forget(self)

    def __call__(self, bytes key not None):
        return bool(is_allowed(self, hr_hash(key, len(key), table_seed), key, <uint32_t> len(key)))
