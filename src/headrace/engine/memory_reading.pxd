"""Reads of a log in memory. See memory_reading.pyx."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.log_reading cimport LogReads
from headrace.engine.memory_log cimport MemoryTable, held_t
from headrace.engine.messages cimport StoredMessages

cdef class MemoryReads(LogReads):
    cdef MemoryTable _table
    cdef StoredMessages _made    # makes what is read one by one
    cdef uint64_t _asked         # filtered reads so far

    cdef int64_t _size_in_page(self, held_t *held) noexcept
    cdef bint _is_wanted(self, uint32_t subject, list patterns) except -1
    cdef uint64_t _walk(self, StoredMessages out, uint64_t start, uint64_t end, list patterns, Py_ssize_t most,
                        int64_t room, Py_ssize_t most_looked_at) except? 0
    cdef uint64_t _merge(self, StoredMessages out, uint64_t start, uint64_t end, list literals, Py_ssize_t most,
                         int64_t room) except? 0
    cdef int _copy_parts(self, StoredMessages out) except -1
