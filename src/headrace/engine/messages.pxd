"""Messages of a log, many at a time, as compiled code passes them on. See messages.pyx."""

from cpython.object cimport PyTypeObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from *:
    """
    /* A new tuple of a subclass of tuple that adds nothing to it; its items are set by the caller. */
    #define hr_new_tuple(type, n) ((type)->tp_alloc((type), (n)))
    """
    object hr_new_tuple(PyTypeObject *type, Py_ssize_t n)

cdef int put(object made, Py_ssize_t place, object value) except -1

cdef struct message_t:
    uint64_t sequence        # 0: not stored yet
    int64_t time             # ns since 1970 UTC; 0, of a new message: when it is stored
    int64_t ttl              # ns; 0: none
    const char *subject
    const char *reply
    const char *headers
    const char *payload
    uint32_t subject_len
    uint32_t reply_len
    uint32_t headers_len
    uint32_t payload_len

cdef class Messages:
    cdef message_t *items
    cdef Py_ssize_t count
    cdef Py_ssize_t _room
    cdef object _make
    cdef list _owners        # whose bytes the items point into

    cdef message_t *place(self) except NULL
    cdef int keep(self, object owner) except -1
    cdef int clear(self) except -1
    cdef int hold(self, const char **text, uint32_t *n, object value) except -1
    cdef object pack(self, message_t *m)

cdef class NewMessages(Messages):
    pass

cdef class StoredMessages(Messages):
    pass
