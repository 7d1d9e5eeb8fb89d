"""Messages between the router and a service, many at a time. See batches.pyx."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.structs cimport buf_t

cdef enum:
    MOST_BYTES = 999999999   # of one message: what the digits of a frame can say

cdef struct record_t:
    # One message, followed by its parts: subject, reply, body (to a service), or subject, head, tail (from one).
    uint64_t sid
    uint32_t tail_len        # at most MOST_BYTES and a line
    uint32_t trace           # to a service: 1 + place of its trace; 0: it has none
    uint32_t is_gathered     # its subscription's messages are handed over in runs
    uint32_t head_len        # "HMSG <subject to show> "; 0: the subject itself is shown
    uint32_t subject_len
    uint32_t reply_len
    uint32_t header_len
    uint32_t body_len        # headers and payload

cdef struct part_t:
    const char *text
    uint32_t len

cdef inline part_t part_of(bytes text) noexcept:
    """All of it, for as long as it lives."""
    cdef part_t part
    part.text = PyBytes_AS_STRING(text)
    part.len = <uint32_t> PyBytes_GET_SIZE(text)
    return part

cdef inline char *put_size(char *at, uint32_t value) noexcept:
    """Writes a number in decimal digits, 10 at most; gives what follows it."""
    cdef char digits[10]
    cdef int n = 0
    while True:
        digits[n] = <char> (c'0' + value % 10)
        n += 1
        value //= 10
        if value == 0:
            break
    while n:
        n -= 1
        at[0] = digits[n]
        at += 1
    return at


cdef object delivery(object kind, record_t *record, const char *at, bytes subject)
cdef bint is_word(const char *text, size_t n) noexcept

cdef class Block:
    cdef buf_t buffer

cdef class Gathered:
    cdef Block block
    cdef const char *begin   # the first record
    cdef const char *end
    cdef readonly uint64_t sid
    cdef Py_ssize_t count
    cdef readonly object trace   # of its one message, when that is traced
    cdef object _delivery

cdef class Outgoing:
    cdef buf_t buffer
    cdef char *open(self, part_t subject, part_t reply, uint32_t header_len, size_t body_len) except NULL
    cdef char *open_shown(self, part_t subject, part_t shown, part_t reply, uint32_t header_len,
                          size_t body_len) except NULL
    cdef bint _put(self, bytes subject, bytes shown, bytes payload, bytes reply, bytes headers) except -1
