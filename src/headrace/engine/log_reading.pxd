"""Single messages of a log, read without Python. See log_reading.pyx."""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.log_core cimport LogCounts
from headrace.engine.messages cimport StoredMessages, message_t
from headrace.engine.records cimport hr_record_t
from headrace.engine.structs cimport buf_t

cdef enum:
    ABSENT = 0               # there is no such message
    FOUND = 1
    SLOW = 2                 # the reader in Python has to look

cdef struct mark_t:
    uint64_t sequence        # of the message whose record begins there
    uint64_t offset          # in the file

cdef struct block_t:
    # Records of one file that follow one another, as far as somebody has gone over them.
    uint64_t first           # no sequence in it is below
    uint64_t end             # all sequences in it are below
    uint64_t next            # the records of sequences below this one have been gone over
    uint64_t gone_over       # the offset behind the last of them
    uint32_t salt            # of the records' checksums
    int descriptor           # of the open file
    uint32_t count           # of marks
    uint32_t room
    mark_t *marks            # the first is the beginning of the block

cdef class PointReads:
    cdef object _locate
    cdef StoredMessages _made
    cdef block_t **_blocks       # ascending by `first`
    cdef uint32_t _count
    cdef uint32_t _room
    cdef uint32_t _hand          # where the next one is given up for another
    cdef buf_t _data             # what was read last: `_held` bytes, as were asked for, from `_held_from` on
    cdef int _held_descriptor    # of their file; -1: none are kept
    cdef uint64_t _held_from
    cdef size_t _held
    cdef size_t _held_at         # where the record behind the message that was read last begins in them
    cdef uint64_t _held_next     # no sequence from there on is below
    cdef readonly uint64_t reads
    """Calls of the system so far, and the bytes that they gave."""
    cdef readonly uint64_t read_bytes

    cdef int read(self, uint64_t sequence, uint64_t last, message_t *m) except -1
    cdef bint _hold(self, block_t *block, uint64_t sequence) except -1
    cdef int _take(self, block_t *block, size_t at, hr_record_t *r, message_t *m) except -1
    cdef block_t *_block_of(self, uint64_t sequence) except? NULL
    cdef uint32_t _place_of(self, uint64_t sequence) noexcept
    cdef block_t *_add(self, uint64_t sequence) except? NULL
    cdef int _insert(self, block_t *block) except -1
    cdef bint _go_over(self, block_t *block, uint64_t sequence, uint64_t last) except -1
    cdef uint64_t _note(self, block_t *block, size_t n, uint64_t offset, uint64_t last) except? 0
    cdef Py_ssize_t _pread(self, int descriptor, size_t start, size_t n, uint64_t offset) except -2
    cdef void _release(self) noexcept
    cdef void _give_up(self, uint32_t place) noexcept

cdef class LogReads:
    cdef bint is_removed(self, uint64_t sequence) except -1
    cdef int read(self, uint64_t sequence, message_t *m) except -1
    cdef int last_of(self, const char *subject, size_t n, uint64_t *sequence) except -1

cdef class FileReads(LogReads):
    cdef PointReads _points
    cdef LogCounts _counts
