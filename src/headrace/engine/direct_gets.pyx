# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Direct gets of single messages: from the request's bytes to those of the answer, byte for byte as in Python.

Answered are requests for the last message of a subject, by the request's subject or by `last_by_subj`, and for a
sequence. Every other request, one whose message cannot be read from here, and one whose answer is not durable
yet, is left to `headrace.jetstream.stream.gets`, which answers it as these are answered. Source: JetStream specification, 7.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libc.time cimport time_t, tm

from headrace.engine.api_requests cimport read_get
from headrace.engine.batches cimport MOST_BYTES, Outgoing, is_word, part_of, part_t
from headrace.engine.client cimport is_valid_subject
from headrace.engine.lanes cimport StreamCounts
from headrace.engine.log_reading cimport ABSENT, FOUND, SLOW, LogReads
from headrace.engine.messages cimport message_t

cdef extern from "<time.h>" nogil:
    tm *gmtime_r(const time_t *seconds, tm *result)

cdef enum:
    LONGEST_TIME = 30        # 2026-11-21T08:00:00.123456789Z
    END = 2                  # bytes of a line's end

cdef int64_t SECOND = 1000000000

cdef bytes FIRST_LINE = b"NATS/1.0\r\n"
cdef bytes NOT_FOUND = b"NATS/1.0 404 Message Not Found\r\n\r\n"
cdef bytes STREAM = b"Nats-Stream: "
cdef bytes SUBJECT = b"\r\nNats-Subject: "
cdef bytes SEQUENCE = b"\r\nNats-Sequence: "
cdef bytes TIME = b"\r\nNats-Time-Stamp: "
cdef bytes LAST = b"\r\n\r\n"


# ---- words --------------------------------------------------------------------------------------

cdef inline char *put(char *at, part_t part) noexcept:
    memcpy(at, part.text, part.len)
    return at + part.len


cdef char *put_digits(char *at, uint64_t value, int width) noexcept:
    """Writes the last `width` decimal digits of a number."""
    cdef int i
    for i in range(width - 1, -1, -1):
        at[i] = <char> (c'0' + value % 10)
        value //= 10
    return at + width


cdef int width_of(uint64_t value) noexcept:
    """Number of decimal digits of a number."""
    cdef int width = 1
    while value >= 10:
        value //= 10
        width += 1
    return width


cdef char *put_time(char *at, int64_t ns) noexcept:
    """Writes a time of 1970 or later as `headrace.protocol.rfc3339.short_time`, in LONGEST_TIME bytes at most."""
    cdef time_t seconds = <time_t> (ns // SECOND)
    cdef uint64_t fraction = <uint64_t> (ns % SECOND)
    cdef int width = 9
    cdef tm date
    gmtime_r(&seconds, &date)
    at = put_digits(at, <uint64_t> (date.tm_year + 1900), 4)
    at[0] = c'-'
    at = put_digits(at + 1, <uint64_t> (date.tm_mon + 1), 2)
    at[0] = c'-'
    at = put_digits(at + 1, <uint64_t> date.tm_mday, 2)
    at[0] = c'T'
    at = put_digits(at + 1, <uint64_t> date.tm_hour, 2)
    at[0] = c':'
    at = put_digits(at + 1, <uint64_t> date.tm_min, 2)
    at[0] = c':'
    at = put_digits(at + 1, <uint64_t> date.tm_sec, 2)
    if fraction:
        while fraction % 10 == 0:
            fraction //= 10
            width -= 1
        at[0] = c'.'
        at = put_digits(at + 1, fraction, width)
    at[0] = c'Z'
    return at + 1


# ---- answers ------------------------------------------------------------------------------------

cdef class DirectGets:
    """Direct gets of one stream. `is_allowed`: it has them answered; that is for who looks streams up to ask.

    `stream`: its name; `counts`: its own, which say what is durable.
    """

    def __init__(self, bytes stream not None, StreamCounts counts not None):
        self.stream = stream
        self._counts = counts

    def try_answer(self, Outgoing out not None, bytes subject not None, bytes body not None,
                   bytes reply not None) -> bool:
        """Answers a request without headers, as `answer`."""
        return self.answer(out, part_of(subject), part_of(body), part_of(reply))

    cdef bint answer(self, Outgoing out, part_t subject, part_t body, part_t reply) except -1:
        """Answers a request that has no headers; False: it is for Python.

        `subject`: what follows the stream's name in the request's subject; empty: nothing does.
        """
        cdef message_t m
        cdef uint64_t sequence = 0
        cdef int found = FOUND
        if self.reads is None or reply.len == 0 or not is_word(reply.text, reply.len):
            return False
        if subject.len == 0:
            if not read_get(body, &sequence, &subject):
                return False
        elif body.len:
            return False
        if sequence == 0:
            if not is_valid_subject(subject.text, subject.len, True):
                return False
            found = self.reads.last_of(subject.text, subject.len, &sequence)
        if found == FOUND:
            found = self.reads.read(sequence, &m)
        if found == ABSENT:
            if self._counts.visible < self._counts.last_sequence:
                return False  # what is not durable yet may be why
            put(out.open(reply, part_of(b""), <uint32_t> len(NOT_FOUND), len(NOT_FOUND)), part_of(NOT_FOUND))
            return True
        return found == FOUND and m.sequence <= self._counts.visible and self._put(out, reply, &m)

    cdef bint _put(self, Outgoing out, part_t reply, message_t *m) except -1:
        """The answer with a message; False: it is more than a frame can carry."""
        cdef part_t own, named, payload, time
        cdef int width = width_of(m.sequence)
        cdef char text[LONGEST_TIME]
        cdef size_t head
        cdef char *at
        own = part_of(FIRST_LINE)
        if m.headers_len:
            own.text = m.headers
            own.len = m.headers_len - END if m.headers_len > END else 0
        named.text = m.subject
        named.len = m.subject_len
        payload.text = m.payload
        payload.len = m.payload_len
        time.text = text
        time.len = <uint32_t> (put_time(text, m.time) - text)
        head = <size_t> own.len + len(STREAM) + len(self.stream) + len(SUBJECT) + named.len + len(SEQUENCE) \
            + width + len(TIME) + time.len + len(LAST)
        if head + payload.len > MOST_BYTES:
            return False
        at = out.open(reply, part_of(b""), <uint32_t> head, head + payload.len)
        at = put(put(put(at, own), part_of(STREAM)), part_of(self.stream))
        at = put(put(put(at, part_of(SUBJECT)), named), part_of(SEQUENCE))
        at = put_digits(at, m.sequence, width)
        put(put(put(put(at, part_of(TIME)), time), part_of(LAST)), payload)
        return True
