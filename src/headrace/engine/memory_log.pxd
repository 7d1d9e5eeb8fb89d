"""The messages of a log in memory. See memory_log.pyx."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.log_core cimport LogAppends
from headrace.engine.messages cimport NewMessages, message_t
from headrace.engine.subject_index cimport SubjectIndex

cdef struct held_t:
    # A message; reply, headers and payload follow it, one behind the other.
    int64_t time
    uint32_t subject         # the place of its entry in the subject index
    uint32_t reply_len
    uint32_t headers_len
    uint32_t payload_len

cdef struct block_t:
    # Messages of sequences one after the other, from `first` on.
    uint64_t first
    int64_t last_time        # of the last message that was added
    uint32_t head            # the place of the first message that is there
    uint32_t used
    uint32_t live            # messages that are there
    uint32_t room
    held_t **items           # NULL: gone

cdef struct sequences_t:
    # The sequences of one subject, ascending. Those at `head` and at the end are of messages that are there.
    uint64_t *items
    uint32_t head
    uint32_t used
    uint32_t room
    bint is_wanted           # by the read whose number is `asked`, of `MemoryReads`
    uint64_t asked

cdef class MemoryTable(LogAppends):
    cdef public bint is_open
    cdef public uint64_t changes
    cdef readonly SubjectIndex subjects
    cdef readonly uint64_t messages
    cdef readonly int64_t size
    cdef readonly uint64_t last_sequence
    cdef readonly int64_t last_time
    cdef sequences_t *_sequences     # by the places of entries in the subject index
    cdef uint32_t _sequences_room
    cdef block_t **_blocks           # ascending; from `_begin` on
    cdef size_t _begin
    cdef size_t _end
    cdef size_t _blocks_room
    cdef object _clock
    cdef object _tidy
    # Limits; 0 is none:
    cdef uint64_t _max_messages
    cdef int64_t _max_bytes
    cdef uint64_t _max_per_subject
    cdef uint64_t _max_size          # of headers and payload of one message
    cdef bint _refuses               # what would be over a limit, rather than remove what is
    cdef int64_t _besides            # what a message counts for besides its parts
    cdef int64_t _headed             # and on top of that when it has headers

    cdef bint _is_plain(self, NewMessages batch) noexcept
    cdef bint _has_room(self, NewMessages batch) noexcept
    cdef bint _is_over(self, NewMessages batch) noexcept
    cdef int _add_all(self, NewMessages batch, uint64_t first) except -1
    cdef int _add(self, message_t *m, uint64_t sequence) except -1
    cdef block_t *_open_block(self, uint64_t sequence) except NULL
    cdef uint32_t _enter(self, message_t *m, uint64_t sequence) except? 0
    cdef int64_t _size(self, held_t *held) noexcept
    cdef size_t _place_of(self, uint64_t sequence) noexcept
    cpdef uint64_t first(self) noexcept
    cdef held_t *find(self, uint64_t sequence) noexcept
    cdef uint64_t next_of(self, uint64_t sequence) noexcept
    cdef void point(self, message_t *m, uint64_t sequence, held_t *held) noexcept
    cdef bint drop(self, uint64_t sequence) noexcept
    cdef void _leave(self, uint32_t place, uint64_t sequence) noexcept
    cdef void _drop_block(self, size_t place) noexcept
    cdef sequences_t *_sequences_of(self, bytes subject) noexcept
    cdef uint32_t _from(self, sequences_t *those, uint64_t sequence) noexcept
    cdef void _release(self) noexcept
