# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages of a log, many at a time: an array of C structures over bytes that something else owns.

What enters a log and what is read from one passes through here without becoming a Python object per message.
For Python both are sequences: of tuples (subject, payload, reply, headers, time, ttl) before they are stored,
of (sequence, time, subject, reply, headers, payload) afterwards, in the class they were made with. Nothing
here knows a file, a protocol or a limit of its own.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from headrace.engine.memory cimport give, resize
from headrace.errors import MessageTooLarge

cdef enum:
    FIRST_ROOM = 8
    PARTS = 6

cdef object LONGEST_PART = 0xFFFFFFFF


cdef int put(object made, Py_ssize_t place, object value) except -1:
    """Sets an item of a new tuple, which takes a reference of its own."""
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, place, value)
    return 0


cdef bint same(message_t *a, message_t *b) noexcept:
    return a.subject_len == b.subject_len and memcmp(a.subject, b.subject, a.subject_len) == 0


cdef class Messages:
    """A sequence of tuples of class `make`, a subclass of tuple with six fields and no attributes of its own."""

    def __cinit__(self, type make not None, *_others):
        if not issubclass(make, tuple) or make.__basicsize__ != tuple.__basicsize__:
            raise TypeError("messages are made as tuples, or as a subclass of tuple without attributes")
        self._make = make
        self._owners = []

    def __dealloc__(self):
        give(self.items)

    cdef message_t *place(self) except NULL:
        """One more, with nothing in it yet."""
        cdef Py_ssize_t room
        cdef message_t *m
        if self.count == self._room:
            room = max(2 * self._room, <Py_ssize_t> FIRST_ROOM)
            self.items = <message_t *> resize(self.items, room * sizeof(message_t))
            self._room = room  # only now: the call before may raise
        m = &self.items[self.count]
        memset(m, 0, sizeof(message_t))
        m.subject = m.reply = m.headers = m.payload = b""
        self.count += 1
        return m

    cdef int keep(self, object owner) except -1:
        """`owner` lives as long as this: items point into it."""
        if not self._owners or self._owners[len(self._owners) - 1] is not owner:
            self._owners.append(owner)
        return 0

    cdef int clear(self) except -1:
        """Drop all messages."""
        self.count = 0
        self._owners.clear()
        return 0

    cdef int hold(self, const char **text, uint32_t *n, object value) except -1:
        """A part that is a bytes object; whoever calls keeps it alive."""
        if not PyBytes_Check(value):
            raise TypeError(f"a message is made of bytes, not of {type(value).__name__}")
        if PyBytes_GET_SIZE(value) > LONGEST_PART:
            raise MessageTooLarge(f"{PyBytes_GET_SIZE(value)} bytes in one part of a message")
        text[0] = PyBytes_AS_STRING(value)
        n[0] = <uint32_t> PyBytes_GET_SIZE(value)
        return 0

    cdef object pack(self, message_t *m):
        raise NotImplementedError

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        cdef Py_ssize_t i
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(self.count))]
        i = place
        if i < 0:
            i += self.count
        if not 0 <= i < self.count:
            raise IndexError(f"message {place} of {self.count}")
        return self.pack(&self.items[i])

    def __iter__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            yield self.pack(&self.items[i])

    def __eq__(self, other):
        """True if both hold the same tuples; the other may be a list."""
        if not isinstance(other, (Messages, list)):
            return NotImplemented
        return list(self) == list(other)

    def subjects(self) -> set[bytes]:
        """Every subject, once."""
        cdef Py_ssize_t i
        cdef set found = set()
        for i in range(self.count):
            if i == 0 or not same(&self.items[i - 1], &self.items[i]):
                found.add(self.items[i].subject[:self.items[i].subject_len])
        return found


cdef class NewMessages(Messages):
    """Messages to be stored. `batch`: tuples as the class says.

    Raises: TypeError for parts that are not bytes or a tuple that is none; ValueError for a time or a TTL
    that is no number of ns from 0 to 2^63 - 1; MessageTooLarge for a part of 4 GiB or more.
    """

    def __init__(self, type make, batch=()):
        cdef message_t *m
        for one in batch:
            if not PyTuple_Check(one) or PyTuple_GET_SIZE(one) != PARTS:
                raise TypeError("a message is a tuple of six parts")
            m = self.place()
            self._owners.append(one)
            self.hold(&m.subject, &m.subject_len, <object> PyTuple_GET_ITEM(one, 0))
            self.hold(&m.payload, &m.payload_len, <object> PyTuple_GET_ITEM(one, 1))
            self.hold(&m.reply, &m.reply_len, <object> PyTuple_GET_ITEM(one, 2))
            self.hold(&m.headers, &m.headers_len, <object> PyTuple_GET_ITEM(one, 3))
            m.time = instant(<object> PyTuple_GET_ITEM(one, 4))
            m.ttl = instant(<object> PyTuple_GET_ITEM(one, 5))

    cdef object pack(self, message_t *m):
        made = hr_new_tuple(<PyTypeObject *> self._make, PARTS)
        put(made, 0, PyBytes_FromStringAndSize(m.subject, m.subject_len))
        put(made, 1, PyBytes_FromStringAndSize(m.payload, m.payload_len))
        put(made, 2, PyBytes_FromStringAndSize(m.reply, m.reply_len))
        put(made, 3, PyBytes_FromStringAndSize(m.headers, m.headers_len))
        put(made, 4, m.time)
        put(made, 5, m.ttl)
        return made

    def measure(self, uint64_t most, uint32_t longest_subject, uint64_t largest) -> int:
        """Bytes of all parts, and 8 for each TTL. `most`: bytes of headers and payload that one may have, 0: any.

        Raises: MessageTooLarge for one that has more, or is more than `largest` bytes in all, or whose subject
        or reply is longer than `longest_subject`.
        """
        cdef Py_ssize_t i
        cdef message_t *m
        cdef uint64_t size, total = 0
        for i in range(self.count):
            m = &self.items[i]
            size = <uint64_t> m.headers_len + m.payload_len
            if most and size > most:
                raise MessageTooLarge(f"{size} bytes of headers and payload, {most} are allowed")
            if max(m.subject_len, m.reply_len) > longest_subject:
                raise MessageTooLarge(f"a subject of more than {longest_subject} bytes")
            size += <uint64_t> m.subject_len + m.reply_len
            if size > largest:
                raise MessageTooLarge(f"a message of {size} bytes does not fit a record")
            total += size + (8 if m.ttl else 0)
        return total


cdef int64_t instant(object value) except -1:
    if not 0 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError("a message's time and TTL cannot be negative, nor 292 years and more")
    return value


cdef class StoredMessages(Messages):
    """Messages as they are read back. `batch`: tuples as the class says, of a log that holds them so."""

    def __init__(self, type make, batch=()):
        for one in batch:
            self.append(one)

    def append(self, message) -> None:
        """Adds a message that is a tuple already. Raises: TypeError for anything else."""
        cdef message_t *m
        if not PyTuple_Check(message) or PyTuple_GET_SIZE(message) != PARTS:
            raise TypeError("a message is a tuple of six parts")
        m = self.place()
        self._owners.append(message)
        m.sequence = <object> PyTuple_GET_ITEM(message, 0)
        m.time = <object> PyTuple_GET_ITEM(message, 1)
        self.hold(&m.subject, &m.subject_len, <object> PyTuple_GET_ITEM(message, 2))
        self.hold(&m.reply, &m.reply_len, <object> PyTuple_GET_ITEM(message, 3))
        self.hold(&m.headers, &m.headers_len, <object> PyTuple_GET_ITEM(message, 4))
        self.hold(&m.payload, &m.payload_len, <object> PyTuple_GET_ITEM(message, 5))

    cdef object pack(self, message_t *m):
        made = hr_new_tuple(<PyTypeObject *> self._make, PARTS)
        put(made, 0, m.sequence)
        put(made, 1, m.time)
        put(made, 2, PyBytes_FromStringAndSize(m.subject, m.subject_len))
        put(made, 3, PyBytes_FromStringAndSize(m.reply, m.reply_len))
        put(made, 4, PyBytes_FromStringAndSize(m.headers, m.headers_len))
        put(made, 5, PyBytes_FromStringAndSize(m.payload, m.payload_len))
        return made

    def sequences(self) -> Sequence[int]:
        """The sequence of each; a range where each is one more than the one before."""
        cdef Py_ssize_t i
        cdef object first
        for i in range(1, self.count):
            if self.items[i].sequence != self.items[0].sequence + <uint64_t> i:
                return [self.items[i].sequence for i in range(self.count)]
        first = self.items[0].sequence if self.count else 0
        return range(first, first + self.count)
