"""The permission cache: answers of Python's policy (allowed or not), remembered by subject."""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.structs cimport sub_t

cdef struct permission_t:
    uint64_t hash
    char *key
    uint32_t len
    bint allowed

cdef class PermissionCache:
    cdef object _ask
    cdef permission_t *_table
    cdef uint32_t _count

cdef int is_allowed(PermissionCache cache, uint64_t hash, const char *key, uint32_t n) except -1
cdef int allows(sub_t *s, const char *subject, size_t subject_len) except -1
