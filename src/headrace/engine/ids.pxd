"""Ids of messages that were stored lately. See ids.pyx."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.structs cimport buf_t

cdef struct id_t:
    uint64_t hash
    uint64_t sequence        # under which a message with it was stored
    int64_t time             # when, ns since 1970
    uint64_t offset          # of its text, counted from the first text ever
    uint32_t len
    bint is_current          # no later message had it

cdef class IdWindow:
    cdef id_t *_ring         # in the order in which they were noted
    cdef uint32_t _room      # power of two, or 0
    cdef uint64_t _first     # numbers of the first, and of the next: their places are those modulo `_room`
    cdef uint64_t _next
    cdef uint32_t *_slots    # 1 + a place in `_ring`, 0: empty; twice as many as places
    cdef uint32_t _current   # ids
    cdef buf_t _texts
    cdef uint64_t _forgotten # bytes of texts that are gone: what `offset` counts and `_texts` does not begin with
    cdef uint64_t _seed
    cdef public int64_t window_ns
    cdef public uint64_t most
    cdef public bint is_filled
    cdef public bytes newest_id

    cdef uint64_t find_id(self, const char *text, size_t n) noexcept
    cdef int note_id(self, const char *text, size_t n, uint64_t sequence, int64_t time) except -1
    cdef void forget_before(self, int64_t time) noexcept
    cdef void _drop_first(self) noexcept
    cdef void _release(self) noexcept
    cdef const char *_text(self, id_t *entry) noexcept
    cdef void withdraw(self, uint64_t count) noexcept
    cdef uint32_t _slot(self, const char *text, size_t n, uint64_t hash) noexcept
    cdef int _grow(self) except -1
    cdef int _add_text(self, const char *text, size_t n) except -1
    cdef void _empty(self, uint32_t place) noexcept
