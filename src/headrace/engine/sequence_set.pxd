"""A compact set of sequences. See sequence_set.pyx."""

from libc.stdint cimport uint8_t, uint64_t


cdef class SequenceSet:
    cdef dict _buckets
    cdef uint64_t _key          # bucket looked up last
    cdef uint8_t *_bits   # its bits; NULL when it is not there
    cdef bint _full             # every sequence of it is in the set
    cdef readonly uint64_t count

    cdef bint has(self, uint64_t sequence)
    cdef int put(self, uint64_t first, uint64_t last) except -1
