# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Frames from a server, cut into columns of messages: the client's loop that runs once per message.

Only frames that are complete and written as servers write them (`frames.pxd`, which reads them). At anything
else it stops, and the client's own parser (`headrace.client.codec`) judges what stands there. Source: client
protocol, section 1.

A large payload can be received where it is to stay (`Payload`), instead of being put together and cut out.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy


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
    cdef Py_ssize_t header, total
    cdef frame_t frame
    cdef bytes subject = None, sid = None, reply
    if pos < 0:
        raise ValueError("a position below 0")
    while True:
        if next_frame(buffer, size, pos, most, &frame) != FRAME_WHOLE:
            return pos
        header, total = frame.header, frame.total
        subject = _same_or_new(subject, frame.words[0], frame.lengths[0])
        sid = _same_or_new(sid, frame.words[1], frame.lengths[1])
        reply = None
        if frame.reply != NULL:
            reply = PyBytes_FromStringAndSize(frame.reply, frame.reply_length)
        if header > 0:
            blocks[len(payloads)] = PyBytes_FromStringAndSize(buffer + frame.start, header)
        heads.append((subject, sid, reply, header, total))
        payloads.append(PyBytes_FromStringAndSize(buffer + frame.start + header, total - header))
        pos = frame.start + total + 2


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
