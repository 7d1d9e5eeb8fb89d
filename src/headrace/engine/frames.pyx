# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Frames from a server, cut into columns of messages: the client's loop that runs once per message.

Only frames that are complete and written as servers write them, with single spaces:

    MSG subject sid [reply] size CR LF payload CR LF
    HMSG subject sid [reply] header-size total-size CR LF header payload CR LF

At anything else it stops, and the client's own parser (`headrace.client.codec`) judges what stands there. No
byte is read that was not given; every length is checked before it is used. Source: client protocol, section 1.

A large payload can be received where it is to stay (`Payload`), instead of being put together and cut out.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp, memcpy

cdef enum:
    LONGEST_LINE = 4096  # longer ones are left to the client's parser
    MOST_DIGITS = 9  # of a size: fits 32 bits
    MOST_WORDS = 5  # subject, sid, reply, two sizes


cdef struct line_t:
    const char *words[MOST_WORDS]
    Py_ssize_t lengths[MOST_WORDS]
    int count


cdef inline bint _split(const char *at, const char *end, line_t *line) noexcept nogil:
    """Words with one space between them and nothing else; False for any other line."""
    cdef const char *start = at
    line.count = 0
    while True:
        if at == end or at[0] == c' ':
            if at == start or line.count == MOST_WORDS:
                return False
            line.words[line.count] = start
            line.lengths[line.count] = at - start
            line.count += 1
            if at == end:
                return True
            start = at + 1
        elif at[0] == c'\t' or at[0] == c'\r':
            return False
        at += 1


cdef inline Py_ssize_t _number(const char *word, Py_ssize_t length) noexcept nogil:
    """The size that a word says; -1 for none."""
    cdef Py_ssize_t value = 0, place
    if length > MOST_DIGITS:
        return -1
    for place in range(length):
        if word[place] < c'0' or word[place] > c'9':
            return -1
        value = value * 10 + (word[place] - c'0')
    return value


cdef inline bytes _same_or_new(bytes last, const char *word, Py_ssize_t length):
    """Subjects and sids repeat: one object for many messages."""
    if last is not None and PyBytes_GET_SIZE(last) == length and memcmp(PyBytes_AS_STRING(last), word, length) == 0:
        return last
    return PyBytes_FromStringAndSize(word, length)


def cut_messages(
    bytes data not None, Py_ssize_t pos, Py_ssize_t most, list heads not None, list payloads not None, dict blocks not None
):
    """Append the messages that begin at `pos` and follow each other; the position of what is no such frame.

    A head is (subject, sid, reply or None, header size, total size); a message's header block goes to
    `blocks` under its place in `payloads`. `most` is the largest total size that is taken.
    """
    cdef const char *buffer = PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t begin, start, header, total, left
    cdef const char *newline
    cdef line_t line
    cdef bint with_header
    cdef bytes subject = None, sid = None, reply
    if pos < 0:
        raise ValueError("a position below 0")
    while True:
        left = size - pos
        if left < 5:
            return pos
        if memcmp(buffer + pos, b"MSG ", 4) == 0:
            with_header = False
            begin = pos + 4
        elif memcmp(buffer + pos, b"HMSG ", 5) == 0:
            with_header = True
            begin = pos + 5
        else:
            return pos
        newline = <const char *>memchr(buffer + begin, c'\n', min(size - begin, LONGEST_LINE))
        if newline == NULL or newline == buffer + begin or (newline - 1)[0] != c'\r':
            return pos
        if not _split(buffer + begin, newline - 1, &line) or not 3 + with_header <= line.count <= 4 + with_header:
            return pos
        total = _number(line.words[line.count - 1], line.lengths[line.count - 1])
        header = _number(line.words[line.count - 2], line.lengths[line.count - 2]) if with_header else 0
        start = newline - buffer + 1
        if total < 0 or total > most or header < 0 or header > total or size - start - total < 2:
            return pos
        if buffer[start + total] != c'\r' or buffer[start + total + 1] != c'\n':
            return pos
        subject = _same_or_new(subject, line.words[0], line.lengths[0])
        sid = _same_or_new(sid, line.words[1], line.lengths[1])
        reply = None
        if line.count == 4 + with_header:
            reply = PyBytes_FromStringAndSize(line.words[2], line.lengths[2])
        if header > 0:
            blocks[len(payloads)] = PyBytes_FromStringAndSize(buffer + start, header)
        heads.append((subject, sid, reply, header, total))
        payloads.append(PyBytes_FromStringAndSize(buffer + start + header, total - header))
        pos = start + total + 2


cdef class Payload:
    """Room for `size` bytes, which come piece by piece; its buffer is what is still to be filled."""

    cdef bytes _data
    cdef Py_ssize_t _filled
    cdef Py_ssize_t _views

    def __cinit__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError("a negative size")
        self._data = PyBytes_FromStringAndSize(NULL, size)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self._data is None:
            raise BufferError("the payload was taken")
        PyBuffer_FillInfo(view, self, PyBytes_AS_STRING(self._data) + self._filled, self.missing, False, flags)
        self._views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self._views -= 1

    @property
    def missing(self) -> int:
        """Bytes that have not come."""
        return PyBytes_GET_SIZE(self._data) - self._filled if self._data is not None else 0

    def add(self, bytes data not None, Py_ssize_t first) -> None:
        """Copies what stands in `data` from `first` on. Raises: ValueError when it is too much."""
        cdef Py_ssize_t n = PyBytes_GET_SIZE(data) - first
        if first < 0 or n < 0 or n > self.missing:
            raise ValueError(f"{n} bytes from {first}, {self.missing} are missing")
        memcpy(PyBytes_AS_STRING(self._data) + self._filled, PyBytes_AS_STRING(data) + first, n)
        self._filled += n

    def advance(self, Py_ssize_t n) -> None:
        """`n` bytes were written through the buffer. Raises: ValueError when it is too much."""
        if n < 0 or n > self.missing:
            raise ValueError(f"{n} bytes, {self.missing} are missing")
        self._filled += n

    def take(self) -> bytes:
        """The bytes, once all have come; nothing can be written to them any more.

        Raises: ValueError when some are missing or were taken, or a view of them is held.
        """
        if self._data is None or self.missing or self._views:
            raise ValueError("a payload that is not complete, was taken, or is still written to")
        data, self._data = self._data, None
        return data
