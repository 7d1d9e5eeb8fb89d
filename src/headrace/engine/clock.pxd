"""The clock that only goes forward, and that of the wall. Nothing here but those."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec


cdef inline int64_t monotonic() noexcept nogil:
    """ns since some moment."""
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <int64_t> t.tv_sec * 1_000_000_000 + t.tv_nsec


cdef inline int64_t wall_ms() noexcept nogil:
    """ms since 1970."""
    cdef timespec t
    clock_gettime(CLOCK_REALTIME, &t)
    return <int64_t> t.tv_sec * 1000 + t.tv_nsec // 1_000_000
