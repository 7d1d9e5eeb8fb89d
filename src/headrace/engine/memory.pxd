"""Allocation with live counters, and the growable byte buffer. No policy, no Python object."""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

from headrace.engine.structs cimport HR_GUARD, HR_PAD, buf_t

cdef struct live_t:
    int64_t blocks
    int64_t links
    int64_t subs
    int64_t nodes
    int64_t plans

# One instance for the process; tests assert that it returns to where it was.
cdef live_t live

cdef void *take(size_t n) except NULL
cdef void *resize(void *block, size_t n) except NULL
cdef void give(void *block) noexcept

cdef int buf_grow(buf_t *b, size_t cap) except -1
cdef void buf_free(buf_t *b) noexcept

cdef inline int buf_reserve(buf_t *b, size_t n) except -1:
    """Makes room for n more bytes after `end`, moving content to the front when that is enough."""
    if b.cap - b.end >= n:
        return 0
    if b.start and b.cap - (b.end - b.start) >= n:
        memmove(b.data, b.data + b.start, b.end - b.start)
        b.end -= b.start
        b.start = 0
        return 0
    buf_grow(b, max(2 * b.cap, (b.end - b.start) + n))
    return 0

cdef inline int buf_append(buf_t *b, const char *data, size_t n) except -1:
    buf_reserve(b, n)
    HR_GUARD(b.end + n <= b.cap)
    memcpy(b.data + b.end, data, n)
    b.end += n
    return 0
