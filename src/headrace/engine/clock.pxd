"""The clock that only goes forward. Nothing here but that."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef inline int64_t monotonic() noexcept nogil:
    """ns since some moment."""
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <int64_t> t.tv_sec * 1_000_000_000 + t.tv_nsec
