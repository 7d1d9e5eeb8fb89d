"""Remembered yes-or-no answers of Python policy, by key."""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.structs cimport sub_t

cdef struct verdict_t:
    uint64_t hash
    char *key
    uint32_t len
    bint allowed

cdef class Verdicts:
    cdef object _ask
    cdef verdict_t *_table
    cdef uint32_t _count

cdef int verdict(Verdicts v, uint64_t hash, const char *key, uint32_t n) except -1
cdef int allows(sub_t *s, const char *subject, size_t subject_len) except -1
