# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads of a log in memory: single messages, pages of them, and where they are.

What Python gets is copied, so that it stays when the log forgets it. What compiled code is pointed to is there until
the next change of the log.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from headrace.engine.log_reading cimport ABSENT, FOUND, LogReads
from headrace.engine.memory cimport give, take
from headrace.engine.memory_log cimport MemoryTable, block_t, held_t, sequences_t
from headrace.engine.messages cimport StoredMessages, message_t
from headrace.engine.subject_index cimport hr_subject_matches, subject_t

cdef enum:
    PLAIN_BESIDES = 32       # what a message counts for in a page, besides its parts


cdef inline size_t part_bytes(message_t *m) noexcept:
    return <size_t> m.subject_len + m.reply_len + m.headers_len + m.payload_len


cdef size_t copy_parts(message_t *m, char *at) noexcept:
    """Copy a message's parts and point it at them; how many bytes they are."""
    cdef char *begin = at
    memcpy(at, m.subject, m.subject_len)
    m.subject = at
    at += m.subject_len
    memcpy(at, m.reply, m.reply_len)  # headers and payload are behind it
    memcpy(at + m.reply_len, m.headers, m.headers_len)
    memcpy(at + m.reply_len + m.headers_len, m.payload, m.payload_len)
    m.reply = at
    m.headers = m.reply + m.reply_len
    m.payload = m.headers + m.headers_len
    return (m.payload + m.payload_len) - begin


cdef class MemoryReads(LogReads):
    """The messages of a table. `make`: the class of what is read, as for `StoredMessages`."""

    def __init__(self, MemoryTable table not None, type make not None):
        self._table = table
        self._made = StoredMessages(make)

    # ---- for compiled code -----------------------------------------------------------------------

    cdef bint is_removed(self, uint64_t sequence) except -1:
        return self._table.find(sequence) == NULL

    cdef int read(self, uint64_t sequence, message_t *m) except -1:
        cdef held_t *held = self._table.find(sequence)
        if held == NULL:
            return ABSENT
        self._table.point(m, sequence, held)
        return FOUND

    cdef int last_of(self, const char *subject, size_t n, uint64_t *sequence) except -1:
        cdef subject_t *entry = self._table.subjects.find(subject, n)
        if entry == NULL:
            return ABSENT
        sequence[0] = entry.last
        return FOUND

    # ---- messages --------------------------------------------------------------------------------

    def get(self, sequence):
        """The message of a sequence, as `make` has it; None: there is none."""
        cdef held_t *held
        cdef message_t m
        if not 0 < sequence <= self._table.last_sequence:
            return None
        held = self._table.find(sequence)
        if held == NULL:
            return None
        self._table.point(&m, sequence, held)
        return self._made.pack(&m)

    def page(self, StoredMessages out not None, uint64_t start, uint64_t end, *, list literals not None,
             list patterns not None, Py_ssize_t most, int64_t room, Py_ssize_t most_looked_at) -> int:
        """Add messages from `start` on and below `end` to `out`, which is empty; give where to go on.

        literals, patterns  subjects of which one has to match, without and with wildcards
        most, room          messages and bytes of the page, but at least one message
        most_looked_at      messages, of which some do not match
        """
        cdef uint64_t following
        if literals and not patterns:
            following = self._merge(out, start, end, literals, min(most, most_looked_at), room)
        else:
            following = self._walk(out, start, end, literals + patterns if patterns else None, most, room,
                                   most_looked_at)
        self._copy_parts(out)
        return following

    cdef int64_t _size_in_page(self, held_t *held) noexcept:
        """The bytes that a message counts for in a page: as in `headrace.log.port.size_of`."""
        return PLAIN_BESIDES + <int64_t> self._table.subjects._entries[held.subject].n + held.reply_len \
            + held.headers_len + held.payload_len

    cdef bint _is_wanted(self, uint32_t subject, list patterns) except -1:
        """True if one of some patterns matches a subject; asked once for each in a read."""
        cdef sequences_t *those = &self._table._sequences[subject]
        cdef subject_t *entry = &self._table.subjects._entries[subject]
        cdef bytes pattern
        if those.asked != self._asked:
            those.asked = self._asked
            those.is_wanted = False
            for pattern in patterns:
                if hr_subject_matches(PyBytes_AS_STRING(pattern), PyBytes_GET_SIZE(pattern), entry.text, entry.n):
                    those.is_wanted = True
                    break
        return those.is_wanted

    cdef uint64_t _walk(self, StoredMessages out, uint64_t start, uint64_t end, list patterns, Py_ssize_t most,
                        int64_t room, Py_ssize_t most_looked_at) except? 0:
        """The page of messages that match one of some patterns, None: of all."""
        cdef uint64_t sequence = self._table.next_of(start)
        cdef int64_t size
        cdef Py_ssize_t looked_at = 0
        cdef held_t *held
        self._asked += 1
        while sequence and sequence < end:
            held = self._table.find(sequence)
            size = self._size_in_page(held)
            if (out.count and (out.count >= most or size > room)) \
                    or (patterns is not None and looked_at == most_looked_at):
                return sequence
            if patterns is None or self._is_wanted(held.subject, patterns):
                self._table.point(out.place(), sequence, held)
                room -= size
            looked_at += 1
            sequence = self._table.next_of(sequence + 1)
        return max(start, end)

    cdef uint64_t _merge(self, StoredMessages out, uint64_t start, uint64_t end, list literals, Py_ssize_t most,
                         int64_t room) except? 0:
        """The page of messages with one of some subjects: the lowest sequence of any of these is the next one."""
        cdef Py_ssize_t count = len(literals), i, lowest
        cdef sequences_t **those = <sequences_t **> take(max(count, 1) * sizeof(sequences_t *))
        cdef uint32_t *places = NULL
        cdef uint64_t sequence
        cdef int64_t size
        cdef held_t *held
        try:
            places = <uint32_t *> take(max(count, 1) * sizeof(uint32_t))
            for i in range(count):
                those[i] = self._table._sequences_of(literals[i])
                places[i] = 0 if those[i] == NULL else self._table._from(those[i], start)
            while True:
                lowest = -1
                for i in range(count):
                    if those[i] != NULL and places[i] < those[i].used and (
                            lowest < 0 or those[i].items[places[i]] < those[lowest].items[places[lowest]]):
                        lowest = i
                if lowest < 0:
                    return max(start, end)
                sequence = those[lowest].items[places[lowest]]
                places[lowest] += 1
                if sequence >= end:
                    return max(start, end)
                held = self._table.find(sequence)
                if held == NULL:
                    continue
                size = self._size_in_page(held)
                if out.count and (out.count >= most or size > room):
                    return sequence
                self._table.point(out.place(), sequence, held)
                room -= size
        finally:
            give(those)
            give(places)

    cdef int _copy_parts(self, StoredMessages out) except -1:
        """Let the messages of a page point into bytes of its own."""
        cdef Py_ssize_t i
        cdef size_t size = 0
        cdef bytes owner
        for i in range(out.count):
            size += part_bytes(&out.items[i])
        owner = PyBytes_FromStringAndSize(NULL, size)
        size = 0
        for i in range(out.count):
            size += copy_parts(&out.items[i], PyBytes_AS_STRING(owner) + size)
        return out.keep(owner)

    # ---- positions -------------------------------------------------------------------------------

    def following(self, uint64_t sequence) -> int:
        """The first sequence at or after this one that has a message, 0 when none has."""
        return self._table.next_of(sequence)

    def time_of(self, uint64_t sequence) -> int:
        """The time in ns of the message of a sequence. Raises: KeyError when there is none."""
        cdef held_t *held = self._table.find(sequence)
        if held == NULL:
            raise KeyError(sequence)
        return held.time

    def subject_of(self, uint64_t sequence) -> bytes:
        """The subject of the message of a sequence. Raises: KeyError when there is none."""
        cdef held_t *held = self._table.find(sequence)
        cdef subject_t *entry
        if held == NULL:
            raise KeyError(sequence)
        entry = &self._table.subjects._entries[held.subject]
        return entry.text[:entry.n]

    def size_of(self, uint64_t sequence) -> int:
        """The bytes that the message of a sequence counts for. Raises: KeyError when there is none."""
        cdef held_t *held = self._table.find(sequence)
        if held == NULL:
            raise KeyError(sequence)
        return self._table._size(held)

    def below(self, uint64_t sequence) -> int:
        """Count the messages below a sequence; a step for each block of them."""
        cdef size_t last = self._table._place_of(sequence), place
        cdef block_t *block
        cdef uint64_t count = 0, i
        for place in range(self._table._begin, last):
            block = self._table._blocks[place]
            if place + 1 < last or sequence - block.first >= block.used:
                count += block.live
                continue
            for i in range(sequence - block.first):
                count += block.items[i] != NULL
        return count

    def at_time(self, int64_t time_ns) -> int:
        """The sequence of the first message of a time or later, 0 when there is none."""
        cdef size_t low = self._table._begin, high = self._table._end, middle
        cdef uint64_t sequence
        cdef held_t *held
        while low < high:
            middle = (low + high) // 2
            if self._table._blocks[middle].last_time < time_ns:
                low = middle + 1
            else:
                high = middle
        sequence = self._table.next_of(self._table._blocks[low].first) if low < self._table._end else 0
        while sequence:
            held = self._table.find(sequence)
            if held.time >= time_ns:
                break
            sequence = self._table.next_of(sequence + 1)
        return sequence

    def up_to(self, uint64_t sequence, int64_t time_ns) -> list[int]:
        """The sequences of messages from this one on until the first that is later than a time."""
        cdef list found = []
        cdef held_t *held
        sequence = self._table.next_of(sequence)
        while sequence:
            held = self._table.find(sequence)
            if held.time > time_ns:
                break
            found.append(sequence)
            sequence = self._table.next_of(sequence + 1)
        return found

    def gone(self, uint64_t sequence, Py_ssize_t most) -> tuple[list[int], int]:
        """Up to `most` sequences from this one and the first message on that have none, and where to go on."""
        cdef list found = []
        cdef uint64_t expected = max(sequence, self._table.first()), following
        while expected <= self._table.last_sequence:
            following = self._table.next_of(expected) or self._table.last_sequence + 1
            while expected < following:
                if len(found) == most:
                    return found, expected
                found.append(expected)
                expected += 1
            expected = following + 1
        return found, self._table.last_sequence + 1

    def oldest(self, uint64_t most) -> list[int]:
        """The sequences of the first messages, no more than `most`."""
        cdef list found = []
        cdef uint64_t sequence = self._table.next_of(0)
        while sequence and <uint64_t> len(found) < most:
            found.append(sequence)
            sequence = self._table.next_of(sequence + 1)
        return found

    def oldest_over(self, uint64_t most, int64_t most_bytes) -> list[int]:
        """The first sequences without whose messages the others are within these limits; never the last message.

        0: no limit.
        """
        cdef list found = []
        cdef uint64_t left = self._table.messages, sequence = self._table.next_of(0)
        cdef int64_t left_bytes = self._table.size
        while left > 1 and ((most and left > most) or (most_bytes and left_bytes > most_bytes)):
            found.append(sequence)
            left -= 1
            left_bytes -= self._table._size(self._table.find(sequence))
            sequence = self._table.next_of(sequence + 1)
        return found
