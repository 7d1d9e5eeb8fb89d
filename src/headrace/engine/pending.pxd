"""Deliveries of a consumer that await their acknowledgement. See pending.pyx."""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef struct pending_t:
    uint64_t sequence        # in the stream
    uint64_t number          # its consumer sequence: that of its first delivery
    int64_t sent_ns
    uint32_t before          # in the order of sending: 1 + place of an entry, 0: there is none
    uint32_t behind          # likewise; of a free entry: the next free one

@cython.final
cdef class PendingMap:
    cdef pending_t *_entries
    cdef uint32_t *_slots        # 1 + place of an entry, 0: free
    cdef uint32_t _room          # entries there is memory for; twice as many slots
    cdef uint32_t _used          # entries ever used; the free ones among them are chained
    cdef uint32_t _free          # 1 + place of a free entry, 0: none
    cdef uint32_t _first         # 1 + place of the one that was sent longest ago, 0: it is empty
    cdef uint32_t _last
    cdef uint32_t _shift         # of a hash, so that a slot is left
    cdef uint32_t _changes       # entries that came, went or moved, for who iterates
    cdef readonly uint32_t count
    cdef uint64_t _bound         # no sequence is smaller
    cdef bint _ascends           # the order of sending is that of sequences

    cdef pending_t *find(self, uint64_t sequence) noexcept
    cdef int track(self, uint64_t sequence, uint64_t number, int64_t sent_ns) except -1
    cdef int set(self, uint64_t sequence, uint64_t number, int64_t sent_ns) except -1
    cdef bint take(self, uint64_t sequence) noexcept
    cdef uint64_t smallest(self) noexcept
    cdef uint32_t _slot(self, uint64_t sequence) noexcept
    cdef void _append(self, uint32_t one) noexcept
    cdef void _unlink(self, uint32_t one) noexcept
    cdef void _vacate(self, uint32_t slot) noexcept
    cdef int _grow(self) except -1
    cdef void _release(self) noexcept
