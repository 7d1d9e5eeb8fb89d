"""Remembered yes-or-no answers of Python policy, by key."""

from libc.stdint cimport uint32_t, uint64_t

cdef struct verdict_t:
    uint64_t hash
    char *key
    uint32_t len
    bint allowed

cdef class Verdicts:
    cdef object _ask
    cdef verdict_t *_table
    cdef uint32_t _count
    cdef uint64_t _seed

cdef int verdict(Verdicts v, const char *key, uint32_t n) except -1
