# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages between the router and a service, many at a time: in as `Gathered` runs, out through an `Outgoing`.

Compiled code of a service (`stan`) reads the one and writes the other without an object per message; everybody
else sees tuples. Which messages go where is the business of `service` and the router.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyTypeObject
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from headrace.engine.memory cimport buf_append, buf_free, buf_reserve
from headrace.engine.messages cimport hr_new_tuple, put
from headrace.engine.structs cimport HR_GUARD, buf_t

cdef enum:
    FIELDS = 5               # of a delivery
    NUMBER = 12              # bytes for a size and what follows it
    VERB = 6                 # "HMSG " before a subject to show, and the blank after it


cdef bint is_word(const char *text, size_t n) noexcept:
    """True if a text can be a word of a control line: no blank, no line end, no other control character."""
    cdef size_t i = 0
    cdef uint64_t eight
    while i + 8 <= n:  # a byte below 33 borrows into its highest bit, and has none there itself
        memcpy(&eight, text + i, 8)
        if (eight - 0x2121212121212121ull) & ~eight & 0x8080808080808080ull:
            return False
        i += 8
    while i < n:
        if <unsigned char> text[i] <= 32:
            return False
        i += 1
    return True


cdef object delivery(object kind, record_t *record, const char *at, bytes subject):
    """The tuple of one message: sid, subject, reply, headers, payload."""
    cdef object made = hr_new_tuple(<PyTypeObject *> kind, FIELDS)
    put(made, 0, record.sid)
    put(made, 1, subject)
    at += record.subject_len
    put(made, 2, PyBytes_FromStringAndSize(at, record.reply_len))
    at += record.reply_len
    put(made, 3, PyBytes_FromStringAndSize(at, record.header_len))
    put(made, 4, PyBytes_FromStringAndSize(at + record.header_len, record.body_len - record.header_len))
    return made


cdef class Block:
    """A buffer that a link gave away, for as long as anything points into it."""

    def __dealloc__(self):
        buf_free(&self.buffer)


cdef class Gathered:
    """Messages of one subscription that came one after another. Iterates as tuples of class `kind`.

    A message that is traced is a run of its own: `trace`.

    Made here of such tuples by hosts that have no link; their sids are not looked at.
    """

    def __cinit__(self, type kind not None, uint64_t sid, messages=()):
        cdef record_t record
        cdef buf_t *b
        self._delivery = kind
        self.sid = sid
        if not messages:
            return
        self.block = Block()
        b = &self.block.buffer
        for _, subject, reply, headers, payload in messages:
            record.sid = sid
            record.tail_len = record.head_len = record.trace = 0
            record.is_gathered = True
            record.subject_len = <uint32_t> len(subject)
            record.reply_len = <uint32_t> len(reply)
            record.header_len = <uint32_t> len(headers)
            record.body_len = <uint32_t> (len(headers) + len(payload))
            buf_append(b, <const char *> &record, sizeof(record_t))
            for part in (subject, reply, headers, payload):
                buf_append(b, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
            self.count += 1
        self.begin = b.data + b.start
        self.end = b.data + b.end

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef record_t record
        cdef const char *at = self.begin
        while at < self.end:
            memcpy(&record, at, sizeof(record_t))
            at += sizeof(record_t)
            yield delivery(self._delivery, &record, at, PyBytes_FromStringAndSize(at, record.subject_len))
            at += record.subject_len + record.reply_len + record.body_len


cdef bint read_word(bytes text, part_t *part) noexcept:
    """True if a text can be a word of a control line, or is empty; then `part` is set to it."""
    if PyBytes_GET_SIZE(text) > MOST_BYTES or not is_word(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)):
        return False
    part.text = PyBytes_AS_STRING(text)
    part.len = <uint32_t> PyBytes_GET_SIZE(text)
    return True


cdef class Outgoing:
    """Messages that a service publishes, in order, each with the tail that its frames will end with."""

    def __dealloc__(self):
        buf_free(&self.buffer)

    cdef char *open(self, part_t subject, part_t reply, uint32_t header_len, size_t body_len) except NULL:
        """One more message; gives where its `body_len` bytes of headers and payload are to be written at once.

        The caller has made sure that subject and reply can stand in a control line. Raises: ValueError.
        """
        cdef part_t itself
        itself.len = 0
        return self.open_shown(subject, itself, reply, header_len, body_len)

    cdef char *open_shown(self, part_t subject, part_t shown, part_t reply, uint32_t header_len,
                          size_t body_len) except NULL:
        """`open` for a message that its receivers see with the subject `shown`; an empty one: with its own."""
        cdef buf_t *b = &self.buffer
        cdef record_t record
        cdef char *tail
        cdef char *at
        if body_len > MOST_BYTES or subject.len > MOST_BYTES - reply.len or shown.len > MOST_BYTES:
            raise ValueError(f"a message of {body_len} bytes is more than a frame can carry")
        record.head_len = shown.len + VERB if shown.len else 0
        buf_reserve(b, sizeof(record_t) + <size_t> subject.len + record.head_len + reply.len + body_len + 3 * NUMBER)
        at = b.data + b.end + sizeof(record_t)
        memcpy(at, subject.text, subject.len)
        at += subject.len
        if shown.len:
            memcpy(at, b"HMSG ", VERB - 1)
            memcpy(at + VERB - 1, shown.text, shown.len)
            at[VERB - 1 + shown.len] = c' '
            at += record.head_len
        tail = at
        if reply.len:
            memcpy(at, reply.text, reply.len)
            at[reply.len] = c' '
            at += reply.len + 1
        if header_len:
            at = put_size(at, header_len)
            at[0] = c' '
            at += 1
        at = put_size(at, <uint32_t> body_len)
        at[0] = c'\r'
        at[1] = c'\n'
        at += 2
        at[body_len] = c'\r'
        at[body_len + 1] = c'\n'
        record.sid = record.is_gathered = record.trace = 0
        record.subject_len = subject.len
        record.reply_len = reply.len
        record.header_len = header_len
        record.body_len = <uint32_t> body_len
        record.tail_len = <uint32_t> (at + body_len + 2 - tail)
        memcpy(b.data + b.end, &record, sizeof(record_t))
        b.end = (tail - b.data) + record.tail_len
        HR_GUARD(b.end <= b.cap)
        return at

    def add(self, bytes subject not None, bytes payload not None, *, bytes reply not None=b"",
            bytes headers not None=b"") -> bool:
        """Adds a message; False when its subject or reply has white space and so cannot be sent.

        Raises: ValueError for a message over 999,999,999 bytes.
        """
        return self._put(subject, b"", payload, reply, headers)

    def pass_on(self, bytes subject not None, bytes shown not None, bytes payload not None, *,
                bytes reply not None=b"", bytes headers not None=b"") -> bool:
        """Adds a message to whoever listens to `subject`, who sees it with the subject `shown`.

        False when one of the three subjects has white space, or is missing, and so cannot be sent.
        Raises: ValueError for a message over 999,999,999 bytes.
        """
        return len(shown) > 0 and self._put(subject, shown, payload, reply, headers)

    cdef bint _put(self, bytes subject, bytes shown, bytes payload, bytes reply, bytes headers) except -1:
        cdef part_t to, seen, back
        cdef char *at
        if not PyBytes_GET_SIZE(subject) or not (
                read_word(subject, &to) and read_word(shown, &seen) and read_word(reply, &back)):
            return False
        if PyBytes_GET_SIZE(headers) > MOST_BYTES:
            raise ValueError("headers are more than a frame can carry")
        at = self.open_shown(to, seen, back, <uint32_t> PyBytes_GET_SIZE(headers),
                             PyBytes_GET_SIZE(headers) + PyBytes_GET_SIZE(payload))
        memcpy(at, PyBytes_AS_STRING(headers), PyBytes_GET_SIZE(headers))
        memcpy(at + PyBytes_GET_SIZE(headers), PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
        return True

    def clear(self) -> None:
        """Forgets what waits."""
        self.buffer.start = self.buffer.end = 0

    def frames(self, uint64_t largest) -> tuple[bytes, list[tuple[bytes, int]]]:
        """Take what waits as a client sends it (PUB, HPUB), for hosts that are one.

        Messages of more than `largest` bytes of headers and payload are left out: (subject, bytes) of each.
        No frame of a client says with which subject a message is to be shown: it is shown with its own.
        """
        cdef record_t record
        cdef const char *at = self.buffer.data + self.buffer.start
        cdef const char *end = self.buffer.data + self.buffer.end
        cdef buf_t out
        cdef list refused = []
        memset(&out, 0, sizeof(buf_t))
        while at < end:
            memcpy(&record, at, sizeof(record_t))
            at += sizeof(record_t)
            if record.body_len > largest:
                refused.append((PyBytes_FromStringAndSize(at, record.subject_len), record.body_len))
            else:
                buf_append(&out, b"HPUB ", 5) if record.header_len else buf_append(&out, b"PUB ", 4)
                buf_append(&out, at, record.subject_len)
                buf_append(&out, b" ", 1)
                buf_append(&out, at + record.subject_len + record.head_len, record.tail_len)
            at += record.subject_len + record.head_len + record.tail_len
        self.clear()
        try:
            return PyBytes_FromStringAndSize(out.data, out.end), refused
        finally:
            buf_free(&out)

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self.buffer.end - self.buffer.start

    def take(self) -> list[tuple[bytes, bytes, bytes, bytes]]:
        """Take what waits, as (subject, reply, headers, payload); for hosts that have no link."""
        return [(subject, *parts) for subject, _, *parts in self.take_shown()]

    def take_shown(self) -> list[tuple[bytes, bytes, bytes, bytes, bytes]]:
        """`take` with the subject that is shown in second place; it is the first one but where `pass_on` said so."""
        cdef record_t record
        cdef const char *at = self.buffer.data + self.buffer.start
        cdef const char *end = self.buffer.data + self.buffer.end
        cdef const char *body
        found = []
        while at < end:
            memcpy(&record, at, sizeof(record_t))
            at += sizeof(record_t)
            body = at + record.subject_len + record.head_len + record.tail_len - 2 - record.body_len
            found.append((
                PyBytes_FromStringAndSize(at, record.subject_len),
                PyBytes_FromStringAndSize(at + record.subject_len + VERB - 1, record.head_len - VERB)
                if record.head_len else PyBytes_FromStringAndSize(at, record.subject_len),
                PyBytes_FromStringAndSize(at + record.subject_len + record.head_len, record.reply_len),
                PyBytes_FromStringAndSize(body, record.header_len),
                PyBytes_FromStringAndSize(body + record.header_len, record.body_len - record.header_len),
            ))
            at += record.subject_len + record.head_len + record.tail_len
        buf_free(&self.buffer)
        memset(&self.buffer, 0, sizeof(buf_t))
        return found
