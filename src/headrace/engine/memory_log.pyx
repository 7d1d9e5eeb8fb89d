# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The messages of a log in memory: by sequence, in blocks, and by subject. No Python object for any of them.

A message is one piece of memory: 24 bytes and its parts but for the subject, which all messages of a subject share.
It takes 8 bytes in its block, and 8 to 16 among its subject's sequences. Appending and removing cost the same
whatever is held and wherever it is removed, averaged; a gap in the sequences costs nothing.

`MemoryTable.append` is what `headrace.log.memory.MemoryLog` does where nothing is out of the ordinary, in one call. It
begins nothing that it cannot finish, and says so with 0 while nothing has changed: no limit judges a message here,
and no message has a TTL. Reading is `memory_reading`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from headrace.engine.log_core cimport LogAppends
from headrace.engine.memory cimport give, resize, take
from headrace.engine.messages cimport NewMessages, message_t
from headrace.engine.structs cimport HR_GUARD
from headrace.engine.subject_index cimport SubjectIndex, subject_t

cdef enum:
    BLOCK_ROOM = 512         # sequences of one block; a block goes when its last message does
    FIRST_ROOM = 8
    SLACK_ROOM = 16          # sequences that are gone which a subject may have, besides as many as it has messages
    LONGEST_SUBJECT = 65535

cdef uint64_t CEILING = 0x7FFFFFFFFFFFFFFF    # no message has this sequence, or a greater one
cdef int64_t LARGEST_TIME = 0x7FFFFFFFFFFFFFFF

BLOCK = BLOCK_ROOM
SLACK = SLACK_ROOM


cdef class MemoryTable(LogAppends):
    """Messages by sequence, ascending, with gaps.

    clock           ns since 1970
    tidy(subjects)  messages of these subjects were appended, and the log is over a limit

    messages, size              that are there, and what they count for
    last_sequence, last_time    of the last append, also when that message is gone
    changes                     number of appends and removals of its log; kept by whoever does them
    is_open                     `append` appends; False: it leaves that to its log
    """

    def __cinit__(self, *_others):
        self.subjects = SubjectIndex()

    def __init__(self, clock, tidy):
        self._clock = clock
        self._tidy = tidy
        self.is_open = True

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept:
        cdef size_t place
        cdef uint32_t i
        for place in range(self._begin, self._end):
            for i in range(self._blocks[place].used):
                give(self._blocks[place].items[i])
            give(self._blocks[place].items)
            give(self._blocks[place])
        for i in range(self._sequences_room):
            give(self._sequences[i].items)
        give(self._blocks)
        give(self._sequences)
        self._blocks = NULL
        self._sequences = NULL
        self._sequences_room = 0
        self._begin = self._end = self._blocks_room = 0

    def clear(self) -> None:
        """Forget every message; the last sequence and time stay."""
        self._release()
        self.subjects.clear()
        self.messages = 0
        self.size = 0

    def obey(self, limits) -> None:
        """Keep to other `Limits`. What messages count for must not change while there are any."""
        self._max_messages = limits.max_messages
        self._max_bytes = limits.max_bytes
        self._max_per_subject = limits.max_messages_per_subject
        self._max_size = limits.max_message_size
        self._refuses = limits.discard.value == "new"
        self._besides = limits.weights.besides
        self._headed = limits.weights.headed

    # ---- appending -------------------------------------------------------------------------------

    cpdef uint64_t append(self, NewMessages batch) except? 0:
        """Append; give the first sequence, or 0 when this is for `MemoryLog.append` to do: nothing has changed."""
        cdef uint64_t first = self.last_sequence + 1
        if not self.is_open or batch.count == 0 or first + <uint64_t> batch.count > CEILING \
                or not self._is_plain(batch) or (self._refuses and not self._has_room(batch)):
            return 0
        self._add_all(batch, first)
        self.changes += 1
        if self._is_over(batch):
            self._tidy(batch.subjects())
        return first

    cdef int64_t bytes_held(self) noexcept:
        return self.size

    def add(self, NewMessages batch not None, uint64_t first) -> list[tuple[int, int]]:
        """Append messages that may be, with sequences from `first` on, which is above the last one.

        Give (sequence, time and TTL in ns) of those that end by themselves, or never by their age.
        """
        cdef Py_ssize_t i
        cdef list ends = []
        self._add_all(batch, first)
        for i in range(batch.count):
            end = <object> batch.items[i].time + <object> batch.items[i].ttl
            if batch.items[i].ttl or end >= LARGEST_TIME:
                ends.append((first + <uint64_t> i, end))
        return ends

    def skip_to(self, uint64_t sequence) -> None:
        """Let the last sequence be this one, though no message has it; it is not below the last one."""
        self.last_sequence = sequence

    cdef bint _is_plain(self, NewMessages batch) noexcept:
        """True if no message of a batch is too large, or ends by itself."""
        cdef Py_ssize_t i
        cdef message_t *m
        for i in range(batch.count):
            m = &batch.items[i]
            if m.ttl or m.time == LARGEST_TIME or m.subject_len > LONGEST_SUBJECT or m.reply_len > LONGEST_SUBJECT \
                    or (self._max_size and <uint64_t> m.headers_len + m.payload_len > self._max_size):
                return False
        return True

    cdef bint _has_room(self, NewMessages batch) noexcept:
        """True if a batch is surely within limits that refuse."""
        cdef Py_ssize_t i
        cdef message_t *m
        cdef subject_t *entry
        cdef int64_t size = self.size
        if self._max_messages and self.messages + <uint64_t> batch.count > self._max_messages:
            return False
        for i in range(batch.count):
            m = &batch.items[i]
            size += <int64_t> m.subject_len + m.reply_len + m.headers_len + m.payload_len + self._besides + self._headed
            if self._max_per_subject:
                entry = self.subjects.find(m.subject, m.subject_len)
                if (entry.count if entry != NULL else 0) + <uint64_t> batch.count > self._max_per_subject:
                    return False
        return not self._max_bytes or size <= self._max_bytes

    cdef bint _is_over(self, NewMessages batch) noexcept:
        """True if limits have something to remove."""
        cdef Py_ssize_t i
        cdef subject_t *entry
        if not self._refuses and ((self._max_messages and self.messages > self._max_messages)
                                  or (self._max_bytes and self.size > self._max_bytes)):
            return True
        if self._max_per_subject:
            for i in range(batch.count):
                entry = self.subjects.find(batch.items[i].subject, batch.items[i].subject_len)
                if entry != NULL and entry.count > self._max_per_subject:
                    return True
        return False

    cdef int _add_all(self, NewMessages batch, uint64_t first) except -1:
        """Add a batch, or nothing of it; a message's time is the one that it is stored with then."""
        cdef uint64_t last_sequence = self.last_sequence
        cdef int64_t last_time = self.last_time, now = 0
        cdef Py_ssize_t i = 0
        cdef uint64_t place
        cdef message_t *m
        try:
            for i in range(batch.count):
                m = &batch.items[i]
                if m.time == 0 and now == 0:
                    now = self._clock()
                m.time = max(m.time or now, self.last_time)
                self._add(m, first + <uint64_t> i)
        except BaseException:
            for place in range(<uint64_t> i):
                self.drop(first + place)
            self.last_sequence, self.last_time = last_sequence, last_time
            raise
        return 0

    cdef int _add(self, message_t *m, uint64_t sequence) except -1:
        cdef block_t *block = self._open_block(sequence)
        cdef held_t *held = NULL
        cdef char *at
        try:
            held = <held_t *> take(sizeof(held_t) + <size_t> m.reply_len + m.headers_len + m.payload_len)
            held.subject = self._enter(m, sequence)
        except BaseException:
            give(held)
            if block.used == 0:
                self._drop_block(self._end - 1)
            raise
        at = <char *> (held + 1)
        held.time = m.time
        held.reply_len, held.headers_len, held.payload_len = m.reply_len, m.headers_len, m.payload_len
        memcpy(at, m.reply, m.reply_len)
        memcpy(at + m.reply_len, m.headers, m.headers_len)
        memcpy(at + m.reply_len + m.headers_len, m.payload, m.payload_len)
        HR_GUARD(block.used < block.room)
        block.items[block.used] = held
        block.used += 1
        block.live += 1
        block.last_time = m.time
        self.messages += 1
        self.size += self._size(held)
        self.last_sequence = sequence
        self.last_time = m.time
        return 0

    cdef block_t *_open_block(self, uint64_t sequence) except NULL:
        """The last block, with room for one more message, whose sequence is the next one of it."""
        cdef block_t *block
        cdef block_t *full = self._blocks[self._end - 1] if self._end > self._begin else NULL
        if full != NULL and full.used < BLOCK_ROOM and full.first + full.used == sequence:
            if full.used == full.room:
                full.items = <held_t **> resize(full.items, 2 * full.room * sizeof(held_t *))
                full.room *= 2
            return full
        if self._end == self._blocks_room:
            if 2 * self._begin > self._blocks_room:
                self._end -= self._begin
                memmove(self._blocks, self._blocks + self._begin, self._end * sizeof(block_t *))
                self._begin = 0
            else:
                self._blocks = <block_t **> resize(self._blocks,
                                                   max(2 * self._blocks_room, <size_t> FIRST_ROOM) * sizeof(block_t *))
                self._blocks_room = max(2 * self._blocks_room, <size_t> FIRST_ROOM)
        block = <block_t *> take(sizeof(block_t))
        memset(block, 0, sizeof(block_t))
        try:
            block.items = <held_t **> take(FIRST_ROOM * sizeof(held_t *))
        except BaseException:
            give(block)
            raise
        block.first = sequence
        block.room = FIRST_ROOM
        self._blocks[self._end] = block
        self._end += 1
        return block

    cdef uint32_t _enter(self, message_t *m, uint64_t sequence) except? 0:
        """Note a message's sequence with its subject; give the place of the subject's entry."""
        cdef subject_t *entry = self.subjects.find(m.subject, m.subject_len)
        cdef sequences_t *those
        cdef uint32_t place, room
        cdef bint is_new = entry == NULL
        if is_new:
            self.subjects.count_in(m.subject, m.subject_len, sequence)
            entry = self.subjects.find(m.subject, m.subject_len)
        place = <uint32_t> (entry - self.subjects._entries)
        try:
            if place >= self._sequences_room:
                room = max(2 * self._sequences_room, place + FIRST_ROOM)
                self._sequences = <sequences_t *> resize(self._sequences, room * sizeof(sequences_t))
                memset(self._sequences + self._sequences_room, 0, (room - self._sequences_room) * sizeof(sequences_t))
                self._sequences_room = room
            those = &self._sequences[place]
            if those.used == those.room:
                those.items = <uint64_t *> resize(those.items, max(2 * those.room, <uint32_t> 1) * sizeof(uint64_t))
                those.room = max(2 * those.room, <uint32_t> 1)
        except BaseException:
            if is_new:
                self.subjects._forget(entry)
            raise
        those.items[those.used] = sequence
        those.used += 1
        if not is_new:
            entry.count += 1
            entry.last = sequence
        return place

    cdef int64_t _size(self, held_t *held) noexcept:
        """The bytes that a message counts for in the limits of the log."""
        return self._besides + self.subjects._entries[held.subject].n + held.reply_len + held.headers_len \
            + held.payload_len + (self._headed if held.headers_len else 0)

    # ---- finding ---------------------------------------------------------------------------------

    cdef size_t _place_of(self, uint64_t sequence) noexcept:
        """The place behind the last block that begins at or below a sequence."""
        cdef size_t low = self._begin, high = self._end, middle
        while low < high:
            middle = (low + high) // 2
            if self._blocks[middle].first <= sequence:
                low = middle + 1
            else:
                high = middle
        return low

    cdef held_t *find(self, uint64_t sequence) noexcept:
        """The message of a sequence until the next change; NULL: there is none."""
        cdef size_t place = self._place_of(sequence)
        cdef block_t *block
        if place == self._begin:
            return NULL
        block = self._blocks[place - 1]
        return block.items[sequence - block.first] if sequence - block.first < block.used else NULL

    cdef uint64_t next_of(self, uint64_t sequence) noexcept:
        """The first sequence at or after this one that has a message; 0: none has."""
        cdef size_t place = self._place_of(sequence)
        cdef block_t *block
        cdef uint64_t i
        for place in range(max(place, self._begin + 1) - 1, self._end):
            block = self._blocks[place]
            i = max(sequence - block.first if sequence > block.first else 0, <uint64_t> block.head)
            while i < block.used:
                if block.items[i] != NULL:
                    return block.first + i
                i += 1
        return 0

    cdef void point(self, message_t *m, uint64_t sequence, held_t *held) noexcept:
        """Point `m` at a message, until the next change."""
        cdef subject_t *entry = &self.subjects._entries[held.subject]
        m.sequence = sequence
        m.time = held.time
        m.ttl = 0
        m.subject, m.subject_len = entry.text, entry.n
        m.reply, m.reply_len = <const char *> (held + 1), held.reply_len
        m.headers, m.headers_len = m.reply + m.reply_len, held.headers_len
        m.payload, m.payload_len = m.headers + m.headers_len, held.payload_len

    def __contains__(self, sequence):
        return 0 < sequence <= self.last_sequence and self.find(sequence) != NULL

    cpdef uint64_t first(self) noexcept:
        """The sequence of the first message; one above the last one when there is none."""
        cdef block_t *block
        if self.messages == 0:
            return self.last_sequence + 1
        block = self._blocks[self._begin]
        return block.first + block.head

    def last(self) -> int:
        """The sequence of the last message, 0 when there is none."""
        cdef block_t *block
        cdef uint32_t i
        if self.messages == 0:
            return 0
        block = self._blocks[self._end - 1]
        i = block.used - 1
        while block.items[i] == NULL:
            i -= 1
        return block.first + i

    # ---- by subject ------------------------------------------------------------------------------

    cdef sequences_t *_sequences_of(self, bytes subject) noexcept:
        """NULL: the subject has no messages."""
        cdef subject_t *entry = self.subjects.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        return NULL if entry == NULL else &self._sequences[entry - self.subjects._entries]

    cdef uint32_t _from(self, sequences_t *those, uint64_t sequence) noexcept:
        """The place of the first of some sequences that is this one or above."""
        cdef uint32_t low = those.head, high = those.used, middle
        while low < high:
            middle = low + (high - low) // 2
            if those.items[middle] < sequence:
                low = middle + 1
            else:
                high = middle
        return low

    def sequences(self, bytes subject not None, *, uint64_t most=CEILING) -> list[int]:
        """The sequences of a subject's messages, ascending; no more than `most` of them."""
        cdef sequences_t *those = self._sequences_of(subject)
        cdef uint32_t i
        cdef list found = []
        if those != NULL:
            for i in range(those.head, those.used):
                if <uint64_t> len(found) == most:
                    break
                if self.find(those.items[i]) != NULL:
                    found.append(those.items[i])
        return found

    def count_from(self, bytes subject not None, uint64_t sequence) -> int:
        """Count a subject's messages at or after a sequence."""
        cdef sequences_t *those = self._sequences_of(subject)
        cdef uint64_t count = 0
        cdef uint32_t i
        if those == NULL:
            return 0
        if sequence <= those.items[those.head]:
            return self.subjects.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)).count
        for i in range(self._from(those, sequence), those.used):
            count += self.find(those.items[i]) != NULL
        return count

    def entries_of(self, bytes subject not None) -> int:
        """Sequences that are kept for a subject, with those that are gone."""
        cdef sequences_t *those = self._sequences_of(subject)
        return 0 if those == NULL else those.used

    def __len__(self):
        """Blocks."""
        return self._end - self._begin

    # ---- removing --------------------------------------------------------------------------------

    cdef bint drop(self, uint64_t sequence) noexcept:
        """Remove a message; False: there is none."""
        cdef size_t place = self._place_of(sequence)
        cdef block_t *block
        cdef held_t *held
        if place == self._begin:
            return False
        block = self._blocks[place - 1]
        if sequence - block.first >= block.used or block.items[sequence - block.first] == NULL:
            return False
        held = block.items[sequence - block.first]
        block.items[sequence - block.first] = NULL
        block.live -= 1
        self.messages -= 1
        self.size -= self._size(held)
        self._leave(held.subject, sequence)
        give(held)
        if block.live == 0:
            self._drop_block(place - 1)
            return True
        while block.items[block.head] == NULL:
            block.head += 1
        return True

    cdef void _drop_block(self, size_t place) noexcept:
        """Forget a block that has no messages."""
        give(self._blocks[place].items)
        give(self._blocks[place])
        if place == self._begin:
            self._begin += 1
            return
        memmove(self._blocks + place, self._blocks + place + 1, (self._end - place - 1) * sizeof(block_t *))
        self._end -= 1

    cdef void _leave(self, uint32_t place, uint64_t sequence) noexcept:
        """Forget a sequence of a subject; its message is there no more."""
        cdef subject_t *entry = &self.subjects._entries[place]
        cdef sequences_t *those = &self._sequences[place]
        cdef uint32_t i, left = 0
        if entry.count == 1:
            give(those.items)
            memset(those, 0, sizeof(sequences_t))
            self.subjects._forget(entry)
            return
        entry.count -= 1
        while self.find(those.items[those.head]) == NULL:
            those.head += 1
        while self.find(those.items[those.used - 1]) == NULL:
            those.used -= 1
        if those.head > SLACK_ROOM + entry.count:
            those.used -= those.head
            memmove(those.items, those.items + those.head, those.used * sizeof(uint64_t))
            those.head = 0
        if those.used - those.head > SLACK_ROOM + 2 * entry.count:
            for i in range(those.head, those.used):
                if self.find(those.items[i]) != NULL:
                    those.items[left] = those.items[i]
                    left += 1
            those.head = 0
            those.used = left
        entry.first = those.items[those.head]
        entry.last = those.items[those.used - 1]

    def remove(self, sequences) -> int:
        """Remove the messages of some sequences, those that are there; give how many."""
        cdef uint64_t removed = 0
        for sequence in sequences:
            if 0 < sequence <= self.last_sequence:
                removed += self.drop(sequence)
        return removed
