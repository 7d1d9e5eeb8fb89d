# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The layout that was not chosen: one block of columns per group commit (ADR 0009). Compiled by bench.layouts.

A block: u32 CRC32C of all that follows, u32 length, u32 messages, u64 first sequence, then columns: times (i64),
lengths of subjects, replies, headers and payloads (u32 each), then those joined, column by column. As careful as
the records are: every length is checked before it is used. Only what the comparison needs.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #define new_tuple(type, n) ((type)->tp_alloc((type), (n)))
    __attribute__((target("sse4.2")))
    static uint32_t crc32c(uint32_t crc, const void *data, size_t n) {
        const uint8_t *p = (const uint8_t *)data;
        uint64_t c = ~crc, w;
        while (n >= 8) { memcpy(&w, p, 8); c = __builtin_ia32_crc32di(c, w); p += 8; n -= 8; }
        crc = (uint32_t)c;
        while (n--) crc = __builtin_ia32_crc32qi(crc, *p++);
        return ~crc;
    }
    """
    object new_tuple(PyTypeObject *type, Py_ssize_t n)
    uint32_t crc32c(uint32_t crc, const void *data, size_t n) noexcept nogil

cdef enum:
    HEAD = 20
    COLUMNS = 24  # bytes of columns per message

cdef int[4] ORDER = [0, 2, 3, 1]  # subject, reply, headers, payload in a new message


def encode_block(batch, uint64_t first, int64_t last_time, int64_t now, uint32_t salt) -> bytes:
    cdef uint32_t count = len(batch), i, n, length
    cdef size_t total = HEAD + COLUMNS * <size_t> count
    cdef char *base
    cdef char *at
    cdef int64_t time
    cdef int column
    for message in batch:
        for column in range(4):
            total += PyBytes_GET_SIZE(<object> PyTuple_GET_ITEM(message, column))
    out = PyBytes_FromStringAndSize(NULL, total)
    base = PyBytes_AS_STRING(out)
    length = <uint32_t> total
    memcpy(base + 4, &length, 4)
    memcpy(base + 8, &count, 4)
    memcpy(base + 12, &first, 8)
    i = 0
    for message in batch:
        time = <object> PyTuple_GET_ITEM(message, 4) or now
        last_time = max(time, last_time)
        memcpy(base + HEAD + 8 * i, &last_time, 8)
        i += 1
    at = base + HEAD + COLUMNS * <size_t> count
    for column in range(4):
        i = 0
        for message in batch:
            part = <object> PyTuple_GET_ITEM(message, ORDER[column])
            n = <uint32_t> PyBytes_GET_SIZE(part)
            memcpy(base + HEAD + 8 * <size_t> count + 4 * (<size_t> count * column + i), &n, 4)
            memcpy(at, PyBytes_AS_STRING(part), n)
            at += n
            i += 1
    n = crc32c(salt, base + 4, total - 4)
    memcpy(base, &n, 4)
    return out


cdef int check(const char *data, size_t n, size_t at, uint32_t salt, uint32_t *length, uint32_t *count,
               uint64_t *first) noexcept:
    """1 a valid block, 0 too few bytes, -1 none."""
    cdef uint32_t crc
    if n - at < HEAD:
        return 0
    memcpy(&crc, data + at, 4)
    memcpy(length, data + at + 4, 4)
    memcpy(count, data + at + 8, 4)
    memcpy(first, data + at + 12, 8)
    if length[0] < HEAD or (length[0] - HEAD) // COLUMNS < count[0]:
        return -1
    if n - at < length[0]:
        return 0
    return 1 if crc32c(salt, data + at + 4, length[0] - 4) == crc else -1


cdef int put(object found, Py_ssize_t place, object value) except -1:
    Py_INCREF(value)
    PyTuple_SET_ITEM(found, place, value)
    return 0


cdef object message_at(const char *block, uint32_t count, uint64_t first, uint32_t i, size_t *places, make):
    """The i-th message; `places` are where its four parts begin, and are moved behind them."""
    cdef int column
    cdef uint32_t n
    cdef int64_t time
    memcpy(&time, block + HEAD + 8 * <size_t> i, 8)
    found = new_tuple(<PyTypeObject *> make, 6)
    put(found, 0, first + i)
    put(found, 1, time)
    for column in range(4):
        memcpy(&n, block + HEAD + 8 * <size_t> count + 4 * (<size_t> count * column + i), 4)
        put(found, 2 + column, PyBytes_FromStringAndSize(block + places[column], n))
        places[column] += n
    return found


cdef int starts(const char *block, uint32_t length, uint32_t count, size_t *places) noexcept:
    """Where each joined column begins; 0 when the lengths do not add up."""
    cdef int column
    cdef uint32_t i, n
    cdef size_t at = HEAD + COLUMNS * <size_t> count
    for column in range(4):
        places[column] = at
        for i in range(count):
            memcpy(&n, block + HEAD + 8 * <size_t> count + 4 * (<size_t> count * column + i), 4)
            at += n
    return at == length


def replay(bytes data, uint32_t salt, make, list out) -> int:
    """Adds every message of whole blocks; gives the bytes used. Stops at damage."""
    cdef const char *p = PyBytes_AS_STRING(data)
    cdef size_t n = PyBytes_GET_SIZE(data), at = 0
    cdef size_t[4] places
    cdef uint32_t length = 0, count = 0, i
    cdef uint64_t first = 0
    while check(p, n, at, salt, &length, &count, &first) == 1:
        if not starts(p + at, length, count, places):
            break
        for i in range(count):
            out.append(message_at(p + at, count, first, i, places, make))
        at += length
    return at


def point(bytes data, uint32_t salt, make, uint64_t sequence):
    """The message of a sequence in a buffer that begins with a block; None when it is not there."""
    cdef const char *p = PyBytes_AS_STRING(data)
    cdef size_t n = PyBytes_GET_SIZE(data), at = 0
    cdef size_t[4] places
    cdef uint32_t length = 0, count = 0, i, k
    cdef uint64_t first = 0
    cdef int column
    while n - at >= HEAD:
        memcpy(&length, p + at + 4, 4)
        memcpy(&count, p + at + 8, 4)
        memcpy(&first, p + at + 12, 8)
        if length < HEAD or length > n - at:
            return None
        if sequence < first + count:
            break
        at += length
    if check(p, n, at, salt, &length, &count, &first) != 1 or not starts(p + at, length, count, places):
        return None
    i = <uint32_t> (sequence - first)
    for column in range(4):
        for k in range(i):
            memcpy(&length, p + at + HEAD + 8 * <size_t> count + 4 * (<size_t> count * column + k), 4)
            places[column] += length
    return message_at(p + at, count, first, i, places, make)
