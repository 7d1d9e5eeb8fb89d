# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Remembered yes-or-no answers of Python policy, by key.

A connection's permission to publish (or to be delivered) is decided in Python once per subject and
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


cdef void forget(Verdicts v) noexcept:
    cdef uint32_t i
    if v._table == NULL:
        return
    for i in range(SLOTS):
        give(v._table[i].key)
    give(v._table)
    v._table = NULL
    v._count = 0


cdef int remember(Verdicts v, uint64_t hash, const char *key, uint32_t n, bint allowed) except -1:
    cdef uint32_t i
    if n > LONGEST_KEY:
        return 0
    if v._count == MOST:
        forget(v)
    if v._table == NULL:
        v._table = <verdict_t *> take(SLOTS * sizeof(verdict_t))
        memset(v._table, 0, SLOTS * sizeof(verdict_t))
    i = hash & (SLOTS - 1)
    while v._table[i].key != NULL:
        i = (i + 1) & (SLOTS - 1)
    v._table[i].key = <char *> take(n + 1)
    memcpy(v._table[i].key, key, n)
    v._table[i].hash = hash
    v._table[i].len = n
    v._table[i].allowed = allowed
    v._count += 1
    return 0


cdef int verdict(Verdicts v, uint64_t hash, const char *key, uint32_t n) except -1:
    """1 when allowed, 0 when not; asks Python when the answer is not remembered. `hash`: with the table seed."""
    cdef uint32_t i
    cdef bint allowed
    if v._table != NULL:
        i = hash & (SLOTS - 1)
        while v._table[i].key != NULL:
            if v._table[i].hash == hash and v._table[i].len == n and hr_equal(v._table[i].key, key, n):
                return v._table[i].allowed
            i = (i + 1) & (SLOTS - 1)
    allowed = v._ask(key[:n])
    remember(v, hash, key, n, allowed)
    return allowed


cdef int allows(sub_t *s, const char *subject, size_t subject_len) except -1:
    """Whether a deny rule leaves such a message to this subscription ("subject" or "subject queue")."""
    cdef bytes key
    if s.link.deliver_verdicts == NULL:
        return 1
    key = subject[:subject_len]
    if s.queue_len:
        key += b" " + s.queue[:s.queue_len]
    return verdict(<Verdicts> s.link.deliver_verdicts, hr_hash(key, len(key), s.interest.seed), key, <uint32_t> len(key))


cdef class Verdicts:
    """`ask(key: bytes) -> bool` with a memory of 1024 answers."""

    def __cinit__(self, ask):
        self._ask = ask

    def __dealloc__(self):
        forget(self)

    def __call__(self, bytes key not None):
        return bool(verdict(self, hr_hash(key, len(key), table_seed), key, <uint32_t> len(key)))
