# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The subject index of a log: for each subject the number of its messages, the first and the last sequence.

A subject takes 40 bytes, 8 to 16 bytes of slots and its text, whatever the number of messages: 1 million subjects of
30 bytes take about 100 MB. `first` and `last` of a subject become bounds when the message there is removed; a caller
that needs them exact looks them up in the log and calls `settle_first` or `settle_last`.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.memory cimport give, resize, take
from headrace.engine.structs cimport hr_hash

cdef enum:
    SUBJECT_HEAD = 29  # a subject in a dump: u64 first, last, count; u32 length of the text, which follows; u8


cdef class SubjectIndex:
    """A hash table from subject to the count, the first and the last sequence of its messages."""

    def __cinit__(self):
        self._entries = NULL
        self._slots = NULL
        self._seed = int.from_bytes(os.urandom(8), "little")
        self.clear()

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept:
        cdef uint32_t i
        for i in range(self._used):
            if self._entries[i].count:
                give(self._entries[i].text)
        give(self._entries)
        give(self._slots)
        self._entries = NULL
        self._slots = NULL
        self._used = 0

    def clear(self) -> None:
        """Forgets every subject."""
        self._release()
        self._room = self._free = self._count = 0
        self._mask = 0

    def __len__(self):
        return self._count

    cdef uint32_t _slot(self, const char *subject, size_t n) noexcept:
        """The slot that holds a subject, or the empty one where it goes."""
        cdef uint32_t i = <uint32_t> hr_hash(subject, n, self._seed) & self._mask
        cdef subject_t *entry
        while self._slots[i]:
            entry = &self._entries[self._slots[i] - 1]
            if entry.n == n and memcmp(entry.text, subject, n) == 0:
                break
            i = (i + 1) & self._mask
        return i

    cdef subject_t *find(self, const char *subject, size_t n) noexcept:
        cdef uint32_t slot
        if self._count == 0:
            return NULL
        slot = self._slots[self._slot(subject, n)]
        return &self._entries[slot - 1] if slot else NULL

    cdef int grow(self) except -1:
        """Doubles the slots and files every entry anew."""
        cdef uint32_t size = max(2 * (self._mask + 1), 16), i
        cdef uint32_t *slots = <uint32_t *> take(size * sizeof(uint32_t))
        memset(slots, 0, size * sizeof(uint32_t))
        give(self._slots)
        self._slots = slots
        self._mask = size - 1
        for i in range(self._used):
            if self._entries[i].count:
                self._slots[self._slot(self._entries[i].text, self._entries[i].n)] = i + 1
        return 0

    cdef int count_in(self, const char *subject, size_t n, uint64_t sequence) except -1:
        """One more message of a subject, at either end of those that are known."""
        cdef uint32_t room
        cdef subject_t *entry
        cdef uint32_t slot, index
        if self._slots == NULL or 2 * (self._count + 1) > self._mask:
            self.grow()
        slot = self._slot(subject, n)
        if self._slots[slot]:
            entry = &self._entries[self._slots[slot] - 1]
            entry.count += 1
            if sequence < entry.first:
                entry.first = sequence
                entry.loose &= ~FIRST_LOOSE
            if sequence > entry.last:
                entry.last = sequence
                entry.loose &= ~LAST_LOOSE
            return 0
        if not self._free and self._used == self._room:
            room = max(2 * self._room, <uint32_t> 8)
            self._entries = <subject_t *> resize(self._entries, room * sizeof(subject_t))
            self._room = room  # only now: the call before may raise
        text = <char *> take(max(n, 1))
        memcpy(text, subject, n)
        if self._free:
            index = self._free - 1
            self._free = <uint32_t> self._entries[index].first
        else:
            index = self._used
            self._used += 1
        entry = &self._entries[index]
        entry.first = entry.last = sequence
        entry.count = 1
        entry.text = text
        entry.n = <uint32_t> n
        entry.loose = 0
        self._slots[slot] = index + 1
        self._count += 1
        return 0

    cdef void _forget(self, subject_t *entry) noexcept:
        """Gives an entry back and closes the gap in the run of slots behind it."""
        cdef uint32_t hole = self._slot(entry.text, entry.n), i, home, index = self._slots[hole] - 1
        i = hole
        while True:
            i = (i + 1) & self._mask
            if not self._slots[i]:
                break
            other = &self._entries[self._slots[i] - 1]
            home = <uint32_t> hr_hash(other.text, other.n, self._seed) & self._mask
            if ((i - home) & self._mask) >= ((i - hole) & self._mask):
                self._slots[hole] = self._slots[i]
                hole = i
        self._slots[hole] = 0
        give(entry.text)
        entry.text = NULL
        entry.count = 0
        entry.first = self._free
        self._free = index + 1
        self._count -= 1

    def add(self, subject: bytes, uint64_t sequence) -> None:
        self.count_in(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), sequence)

    def remove(self, subject: bytes, uint64_t sequence, uint64_t previous) -> bool:
        """One message less; `previous` is where its record says that the subject's message before it was."""
        return self.take(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), sequence, previous)

    cdef bint take(self, const char *subject, size_t n, uint64_t sequence, uint64_t previous) except -1:
        cdef subject_t *entry = self.find(subject, n)
        if entry == NULL:
            return False
        entry.count -= 1
        if entry.count == 0:
            entry.count = 1  # _forget looks it up once more
            self._forget(entry)
            return True
        if sequence <= entry.first:
            entry.first = sequence + 1
            entry.loose |= FIRST_LOOSE
        if sequence >= entry.last:
            entry.last = max(previous, entry.first) if previous < sequence else sequence - 1
            entry.loose |= LAST_LOOSE
        return True

    def get(self, subject: bytes):
        """(messages, first, last, first is exact, last is exact) of a subject, None when it has none."""
        cdef subject_t *entry = self.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if entry == NULL:
            return None
        return (entry.count, entry.first, entry.last,
                not entry.loose & FIRST_LOOSE, not entry.loose & LAST_LOOSE)

    def settle_first(self, subject: bytes, uint64_t sequence) -> None:
        cdef subject_t *entry = self.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if entry != NULL:
            entry.first = sequence
            entry.loose &= ~FIRST_LOOSE

    def settle_last(self, subject: bytes, uint64_t sequence) -> None:
        cdef subject_t *entry = self.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if entry != NULL:
            entry.last = sequence
            entry.loose &= ~LAST_LOOSE

    def span(self, pattern: bytes):
        """(messages, lowest first, highest last) of every subject that matches; (0, 0, 0) when none does."""
        cdef uint64_t messages = 0, first = <uint64_t> -1, last = 0
        cdef uint32_t i
        cdef subject_t *entry
        cdef const char *p = PyBytes_AS_STRING(pattern)
        cdef size_t n = PyBytes_GET_SIZE(pattern)
        for i in range(self._used):
            entry = &self._entries[i]
            if entry.count and hr_subject_matches(p, n, entry.text, entry.n):
                messages += entry.count
                first = min(first, entry.first)
                last = max(last, entry.last)
        if not messages:
            first = 0
        return messages, first, last

    def matching(self, pattern: bytes | None, uint32_t start, uint32_t most):
        """Up to `most` subjects that match (None: all) from an entry on, and where to go on (0: the end)."""
        cdef uint32_t i
        cdef subject_t *entry
        cdef const char *p = NULL
        cdef size_t n = 0
        if pattern is not None:
            p = PyBytes_AS_STRING(pattern)
            n = PyBytes_GET_SIZE(pattern)
        found = []
        for i in range(start, self._used):
            entry = &self._entries[i]
            if entry.count and (p == NULL or hr_subject_matches(p, n, entry.text, entry.n)):
                found.append(PyBytes_FromStringAndSize(entry.text, entry.n))
                if <uint32_t> len(found) == most:
                    return found, i + 1
        return found, 0

    def dump(self) -> bytes:
        """Return all subjects as bytes, for `load`."""
        cdef uint32_t i
        cdef subject_t *entry
        cdef size_t total = 0
        cdef char *at
        for i in range(self._used):
            if self._entries[i].count:
                total += SUBJECT_HEAD + self._entries[i].n
        data = PyBytes_FromStringAndSize(NULL, total)
        at = PyBytes_AS_STRING(data)
        for i in range(self._used):
            entry = &self._entries[i]
            if entry.count:
                put_number(at, entry.first, 8)
                put_number(at + 8, entry.last, 8)
                put_number(at + 16, entry.count, 8)
                put_number(at + 24, entry.n, 4)
                at[28] = <char> entry.loose
                memcpy(at + SUBJECT_HEAD, entry.text, entry.n)
                at += SUBJECT_HEAD + entry.n
        return data

    def load(self, data: bytes) -> None:
        """Adds what `dump` gave. Raises ValueError for anything else."""
        cdef size_t at = 0, size = len(data), n
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef subject_t *entry
        cdef uint64_t first, last, count
        cdef uint8_t loose
        while at < size:
            if size - at < SUBJECT_HEAD:
                raise ValueError("a subject index is cut off")
            first, last, count = number(p + at, 8), number(p + at + 8, 8), number(p + at + 16, 8)
            n, loose = number(p + at + 24, 4), <uint8_t> p[at + 28]
            at += SUBJECT_HEAD
            if size - at < n or not count or first > last or loose > 3:
                raise ValueError("a subject index is not well formed")
            self.count_in(p + at, n, first)
            entry = self.find(p + at, n)
            entry.first, entry.last, entry.count, entry.loose = first, last, count, loose
            at += n


cdef inline void put_number(char *at, uint64_t value, int size) noexcept:
    """Little-endian."""
    cdef int i
    for i in range(size):
        at[i] = <char> (value >> (8 * i))


cdef inline uint64_t number(const char *at, int size) noexcept:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value |= <uint64_t> <uint8_t> at[i] << (8 * i)
    return value
