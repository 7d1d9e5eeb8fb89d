# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Stored messages as plain NATS messages: the block of headers that says what each one is, and its payload.

`headrace.protocol.replay` draws the block and reads it; here it is written, once per message and nothing else.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from headrace.engine.batches cimport Outgoing, is_word, part_t
from headrace.engine.messages cimport Messages, message_t

cdef enum:
    DATE = 19                # 2026-11-21T08:00:00
    NS_DIGITS = 9

cdef int64_t NS = 1_000_000_000

cdef extern from *:
    """
    static const char HR_SEQUENCE[] = "\\r\\nNats-Sequence: ";
    static const char HR_TIME[] = "\\r\\nNats-Time-Stamp: ";
    enum { HR_SEQUENCE_N = sizeof HR_SEQUENCE - 1, HR_TIME_N = sizeof HR_TIME - 1 };
    """
    const char *HR_SEQUENCE
    const char *HR_TIME
    size_t HR_SEQUENCE_N
    size_t HR_TIME_N


cdef inline size_t digits_of(uint64_t value) noexcept:
    cdef size_t n = 1
    while value > 9:
        value //= 10
        n += 1
    return n


cdef inline char *put_digits(char *at, uint64_t value, size_t n) noexcept:
    """The last `n` digits of a number."""
    cdef char *end = at + n
    at = end
    while n:
        n -= 1
        at -= 1
        at[0] = <char> (c'0' + value % 10)
        value //= 10
    return end


cdef void put_date(char *at, int64_t second) noexcept:
    """UTC of a second since 1970, which is not before 1970. Years begin in March, so that leap days come last."""
    cdef int64_t day = second // 86400 + 719468, rest = second % 86400
    cdef int64_t era = day // 146097, of_era = day % 146097
    cdef int64_t year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    cdef int64_t of_year = of_era - (365 * year + year // 4 - year // 100)
    cdef int64_t month = (5 * of_year + 2) // 153
    cdef int64_t of_month = of_year - (153 * month + 2) // 5 + 1
    year += 400 * era
    if month < 10:
        month += 3
    else:
        month -= 9
        year += 1
    at = put_digits(at, <uint64_t> year, 4)
    at[0] = c'-'
    at = put_digits(at + 1, <uint64_t> month, 2)
    at[0] = c'-'
    at = put_digits(at + 1, <uint64_t> of_month, 2)
    at[0] = c'T'
    at = put_digits(at + 1, <uint64_t> (rest // 3600), 2)
    at[0] = c':'
    at = put_digits(at + 1, <uint64_t> (rest // 60 % 60), 2)
    at[0] = c':'
    put_digits(at + 1, <uint64_t> (rest % 60), 2)


def send(Outgoing out not None, bytes inbox not None, bytes start not None, Messages messages not None,
         Py_ssize_t first, Py_ssize_t count, rest) -> int:
    """Publishes stored messages of one channel to a reader; gives the bytes of headers and payloads.

    `start`: the block as far as all of them share it, up to the subject. `rest(headers, reply)`: what follows
    the time in the block of a message that was stored with one of the two.
    Raises: IndexError for messages that are not there, ValueError for an inbox that cannot be one.
    """
    cdef Py_ssize_t i
    cdef message_t *m
    cdef part_t to, nowhere
    cdef char date[DATE]
    cdef int64_t second = -1
    cdef size_t total = 0, digits, n
    cdef bytes more, plain = b"\r\n"
    cdef char *at
    if not (0 <= first <= messages.count and 0 <= count <= messages.count - first):
        raise IndexError(f"{count} messages from {first} of {messages.count}")
    to.text = PyBytes_AS_STRING(inbox)
    to.len = <uint32_t> PyBytes_GET_SIZE(inbox)
    if to.len == 0 or not is_word(to.text, to.len):
        raise ValueError(f"not an inbox: {inbox!r}")
    nowhere.text = b""
    nowhere.len = 0
    for i in range(first, first + count):
        m = &messages.items[i]
        if m.time // NS != second:
            second = m.time // NS
            put_date(date, second)
        more = plain
        if m.headers_len or m.reply_len:
            more = rest(m.headers[:m.headers_len], m.reply[:m.reply_len])
        digits = digits_of(m.sequence)
        n = (PyBytes_GET_SIZE(start) + m.subject_len + HR_SEQUENCE_N + digits + HR_TIME_N + DATE + 1 + NS_DIGITS + 3
             + PyBytes_GET_SIZE(more))
        at = out.open(to, nowhere, <uint32_t> n, n + m.payload_len)
        memcpy(at, PyBytes_AS_STRING(start), PyBytes_GET_SIZE(start))
        at += PyBytes_GET_SIZE(start)
        memcpy(at, m.subject, m.subject_len)
        at += m.subject_len
        memcpy(at, HR_SEQUENCE, HR_SEQUENCE_N)
        at = put_digits(at + HR_SEQUENCE_N, m.sequence, digits)
        memcpy(at, HR_TIME, HR_TIME_N)
        memcpy(at + HR_TIME_N, date, DATE)
        at += HR_TIME_N + DATE
        at[0] = c'.'
        at = put_digits(at + 1, <uint64_t> (m.time % NS), NS_DIGITS)
        at[0] = c'Z'
        at[1] = c'\r'
        at[2] = c'\n'
        memcpy(at + 3, PyBytes_AS_STRING(more), PyBytes_GET_SIZE(more))
        memcpy(at + 3 + PyBytes_GET_SIZE(more), m.payload, m.payload_len)
        total += n + m.payload_len
    return total
