# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Stored messages as columns: the buffers of Arrow arrays, written without an object per message.

Seven columns, in this order: stream, subject, sequence, time, reply, headers, payload. One of numbers is a buffer
of int64; one of bytes is a buffer of int32 offsets (one more than rows) and the bytes; reply and headers have a
bitmap in front of what is not null (a bit per row, none where nothing is null). Buffers follow one another,
each padded with zeros to a multiple of 8 bytes. What stands in front of them and behind is given by the caller
(`headrace.protocol.columns`); the byte order is little-endian, whatever the machine's.
Source: Apache Arrow columnar format, variable-size binary layout and validity bitmaps.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from headrace.engine.batches cimport Outgoing, is_word, part_t
from headrace.engine.memory cimport give, resize
from headrace.engine.messages cimport Messages, message_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define HR_LITTLE32(v) __builtin_bswap32(v)
    #define HR_LITTLE64(v) __builtin_bswap64(v)
    #else
    #define HR_LITTLE32(v) (v)
    #define HR_LITTLE64(v) (v)
    #endif
    static inline void hr_place32(char *at, uint32_t v) { v = HR_LITTLE32(v); memcpy(at, &v, 4); }
    static inline void hr_place64(char *at, uint64_t v) { v = HR_LITTLE64(v); memcpy(at, &v, 8); }
    static inline uint32_t hr_look32(const char *at) { uint32_t v; memcpy(&v, at, 4); return HR_LITTLE32(v); }
    """
    void hr_place32(char *at, uint32_t v) noexcept nogil
    void hr_place64(char *at, uint64_t v) noexcept nogil
    uint32_t hr_look32(const char *at) noexcept nogil

cdef enum:
    STREAM, SUBJECT, REPLY, HEADERS, PAYLOAD
    PARTS = 5
    FIRST_ROOM = 4
    ROW_BYTES = 4 * PARTS + 16 + 1   # offsets, numbers, both bitmaps rounded up
    BESIDES = PARTS * 4 + 12 * 8     # the offsets' last entries and all padding

cdef int64_t MOST_BYTES = 0x40000000
"""The bytes of one batch, with room to spare: an int32 offset must be able to say it."""


cdef struct run_t:
    Py_ssize_t first
    Py_ssize_t count


cdef inline size_t padded(size_t n) noexcept:
    return (n + 7) & ~(<size_t> 7)


cdef inline uint32_t part(message_t *m, int which, const char **text) noexcept:
    if which == SUBJECT:
        text[0] = m.subject
        return m.subject_len
    if which == REPLY:
        text[0] = m.reply
        return m.reply_len
    if which == HEADERS:
        text[0] = m.headers
        return m.headers_len
    text[0] = m.payload
    return m.payload_len


cdef class ColumnsBuilder:
    """Runs of messages that become one batch. Keeps the messages alive; `clear` lets them go."""

    cdef run_t *_runs
    cdef Py_ssize_t _count, _room
    cdef list _messages, _streams
    cdef readonly Py_ssize_t rows
    cdef int64_t _sizes[PARTS]
    cdef int64_t _nulls[2]

    def __cinit__(self):
        self._messages = []
        self._streams = []

    def __dealloc__(self):
        give(self._runs)

    def clear(self) -> None:
        """Empty again."""
        self._count = self.rows = 0
        self._messages = []
        self._streams = []
        memset(self._sizes, 0, sizeof(self._sizes))
        memset(self._nulls, 0, sizeof(self._nulls))

    def add(self, Messages messages not None, Py_ssize_t first, Py_ssize_t count, bytes stream not None,
            int64_t most) -> int:
        """Adds messages of a stream while all columns together stay below `most` bytes, the first in any case.

        Gives how many it took. Raises: IndexError for messages that are not there; OverflowError for a single
        one of 1 GiB.
        """
        cdef Py_ssize_t i, n = 0
        cdef message_t *m
        cdef int64_t size, total = self._total(), name = PyBytes_GET_SIZE(stream)
        if not (0 <= first <= messages.count and 0 <= count <= messages.count - first):
            raise IndexError(f"{count} messages from {first} of {messages.count}")
        most = min(most, MOST_BYTES)
        for i in range(first, first + count):
            m = &messages.items[i]
            size = name + ROW_BYTES + <int64_t> m.subject_len + m.reply_len + m.headers_len + m.payload_len
            if size > MOST_BYTES:
                raise OverflowError(f"{size} bytes in one row")
            if self.rows + n and total + size > most:
                break
            total += size
            self._sizes[STREAM] += name
            self._sizes[SUBJECT] += m.subject_len
            self._sizes[REPLY] += m.reply_len
            self._sizes[HEADERS] += m.headers_len
            self._sizes[PAYLOAD] += m.payload_len
            self._nulls[0] += m.reply_len == 0
            self._nulls[1] += m.headers_len == 0
            n += 1
        if n:
            self._keep(messages, stream, first, n)
        return n

    cdef int _keep(self, Messages messages, bytes stream, Py_ssize_t first, Py_ssize_t n) except -1:
        cdef Py_ssize_t room
        if self._count == self._room:
            room = max(2 * self._room, <Py_ssize_t> FIRST_ROOM)
            self._runs = <run_t *> resize(self._runs, room * sizeof(run_t))
            self._room = room  # only now: the call before may raise
        self._runs[self._count].first = first
        self._runs[self._count].count = n
        self._messages.append(messages)
        self._streams.append(stream)
        self._count += 1
        self.rows += n
        return 0

    cdef int64_t _total(self) noexcept:
        cdef int i
        cdef int64_t total = self.rows * <int64_t> ROW_BYTES + BESIDES
        for i in range(PARTS):
            total += self._sizes[i]
        return total

    def counts(self) -> tuple[int, int, int, int, int, int, int, int]:
        """Rows; nulls of reply and headers; bytes of stream, subject, reply, headers and payload."""
        return (self.rows, self._nulls[0], self._nulls[1], self._sizes[STREAM], self._sizes[SUBJECT],
                self._sizes[REPLY], self._sizes[HEADERS], self._sizes[PAYLOAD])

    cdef size_t _body(self) noexcept:
        """Bytes of all buffers."""
        cdef int i
        cdef size_t total = 2 * padded(8 * self.rows)
        for i in range(PARTS):
            total += padded(4 * (self.rows + 1)) + padded(self._sizes[i])
        for i in range(2):
            if self._nulls[i]:
                total += padded((self.rows + 7) // 8)
        return total

    def pack(self, bytes head not None, bytes tail not None) -> bytes:
        """The buffers between what the caller puts around them."""
        cdef size_t body = self._body()
        packed = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(head) + body + PyBytes_GET_SIZE(tail))
        self._write(PyBytes_AS_STRING(packed), head, tail)
        return packed

    def send(self, Outgoing out not None, bytes inbox not None, bytes block not None, bytes head not None,
             bytes tail not None) -> int:
        """Publishes what `pack` gives, behind a block of headers; gives the bytes of both.

        Raises: ValueError for an inbox that cannot be one.
        """
        cdef part_t to, nowhere
        cdef char *at
        cdef size_t size = PyBytes_GET_SIZE(block) + PyBytes_GET_SIZE(head) + self._body() + PyBytes_GET_SIZE(tail)
        to.text = PyBytes_AS_STRING(inbox)
        to.len = <uint32_t> PyBytes_GET_SIZE(inbox)
        if to.len == 0 or not is_word(to.text, to.len):
            raise ValueError(f"not an inbox: {inbox!r}")
        nowhere.text = b""
        nowhere.len = 0
        at = out.open(to, nowhere, <uint32_t> PyBytes_GET_SIZE(block), size)
        memcpy(at, PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block))
        self._write(at + PyBytes_GET_SIZE(block), head, tail)
        return size

    cdef int _write(self, char *at, bytes head, bytes tail) except -1:
        memcpy(at, PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        at += PyBytes_GET_SIZE(head)
        at = self._streams_column(at)
        at = self._bytes_column(at, SUBJECT, 0)
        at = self._numbers(at, False)
        at = self._numbers(at, True)
        at = self._bytes_column(at, REPLY, self._nulls[0])
        at = self._bytes_column(at, HEADERS, self._nulls[1])
        at = self._bytes_column(at, PAYLOAD, 0)
        memcpy(at, PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))
        return 0

    cdef char *_pad(self, char *at, size_t n) noexcept:
        """Zeros behind `n` bytes that end at `at`."""
        memset(at, 0, padded(n) - n)
        return at + (padded(n) - n)

    cdef char *_streams_column(self, char *at) except NULL:
        cdef char *text = at + padded(4 * (self.rows + 1))
        cdef Py_ssize_t i, j, n
        cdef uint32_t end = 0
        cdef bytes stream
        hr_place32(at, 0)
        at += 4
        for i in range(self._count):
            stream = self._streams[i]
            n = PyBytes_GET_SIZE(stream)
            for j in range(self._runs[i].count):
                memcpy(text, PyBytes_AS_STRING(stream), n)
                text += n
                end += <uint32_t> n
                hr_place32(at, end)
                at += 4
        self._pad(at, 4 * (self.rows + 1))
        return self._pad(text, self._sizes[STREAM])

    cdef char *_bytes_column(self, char *at, int which, int64_t nulls) except NULL:
        """`nulls`: how many parts are empty and count as null; 0: none does, and there is no bitmap."""
        cdef size_t bitmap = padded((self.rows + 7) // 8) if nulls else 0
        cdef uint8_t *bits = <uint8_t *> at
        cdef char *text
        cdef const char *of
        cdef Py_ssize_t i, j, row = 0
        cdef uint32_t n, end = 0
        cdef message_t *m
        memset(at, 0, bitmap)
        at += bitmap
        text = at + padded(4 * (self.rows + 1))
        hr_place32(at, 0)
        at += 4
        for i in range(self._count):
            m = (<Messages> self._messages[i]).items + self._runs[i].first
            for j in range(self._runs[i].count):
                n = part(m, which, &of)
                memcpy(text, of, n)
                text += n
                end += n
                hr_place32(at, end)
                at += 4
                if bitmap and n:
                    bits[row >> 3] |= <uint8_t> (1 << (row & 7))
                row += 1
                m += 1
        self._pad(at, 4 * (self.rows + 1))
        return self._pad(text, self._sizes[which])

    cdef char *_numbers(self, char *at, bint times) except NULL:
        cdef Py_ssize_t i, j
        cdef message_t *m
        for i in range(self._count):
            m = (<Messages> self._messages[i]).items + self._runs[i].first
            for j in range(self._runs[i].count):
                hr_place64(at, <int64_t> m.time if times else <int64_t> m.sequence)
                at += 8
                m += 1
        return at


def offsets_are_valid(bytes data not None, Py_ssize_t at, Py_ssize_t rows, int64_t size) -> bool:
    """True if `rows` + 1 offsets from `at` on are there, begin at 0, never fall and end at `size`."""
    cdef const char *p
    cdef Py_ssize_t i
    cdef uint32_t before = 0, offset
    if at < 0 or rows < 0 or size < 0 or size > 0x7FFFFFFF or at > PyBytes_GET_SIZE(data) \
            or (PyBytes_GET_SIZE(data) - at) // 4 < rows + 1:
        return False
    p = PyBytes_AS_STRING(data) + at
    if hr_look32(p) != 0:
        return False
    for i in range(1, rows + 1):
        offset = hr_look32(p + 4 * i)
        if offset < before or offset > <uint32_t> size:
            return False
        before = offset
    return before == <uint32_t> size
