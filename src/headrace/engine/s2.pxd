"""S2 streams: decoding what a peer sends, compressing what is sent to it."""

from libc.stdint cimport uint8_t

from headrace.engine.structs cimport buf_t, s2_t

cdef enum:
    S2_MORE = 0                  # no whole chunk is there
    S2_DATA = 1                  # `plain` has a block
    S2_BROKEN = 2                # see `s2_error`

cdef s2_t *new_s2(int level) except NULL
cdef void free_s2(s2_t *c) noexcept
cdef int next_chunk(s2_t *c) except -1
cdef str s2_error(s2_t *c)
cdef int compress_tail(s2_t *c, buf_t *out) except -1
