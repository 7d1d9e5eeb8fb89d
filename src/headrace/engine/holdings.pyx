# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What a log holds, compactly: a set of sequences, and counts by subject.

`SequenceSet` is a bitmap in buckets of 4,096: one bit per sequence in the buckets that have any, nothing for
full ones but a mark. 100 million sequences take 12.5 MB at most (plus 150 bytes per bucket).

`SubjectTable` keeps 40 bytes, 8 to 16 of slots and the text per subject, whatever the number of messages:
1 million subjects of 30 bytes take about 100 MB. `first` and `last` of a subject become bounds when the
message there is removed; who needs them exact looks and calls `settle_first` or `settle_last`.
"""

import os
import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.memory cimport give, resize, take
from headrace.engine.structs cimport hr_hash

cdef enum:
    BUCKET_BITS = 12
    BUCKET = 1 << BUCKET_BITS
    BUCKET_BYTES = BUCKET // 8
    SUBJECT_HEAD = 29  # a subject in a dump: u64 first, last, count; u32 length of the text, which follows; u8

_BUCKET_HEAD = struct.Struct("<QB")


cdef class SequenceSet:
    def __cinit__(self):
        self._buckets = {}
        self._key = <uint64_t> -1
        self._bits = NULL

    cdef bint has(self, uint64_t sequence):
        cdef uint64_t key = sequence >> BUCKET_BITS
        cdef object found
        if key != self._key:
            found = self._buckets.get(key, False)
            self._key = key
            self._full = found is None
            self._bits = NULL if found is None or found is False else <uint8_t *> <char *> (<bytearray> found)
        if self._full:
            return True
        return self._bits != NULL and (self._bits[(sequence & (BUCKET - 1)) >> 3] >> (sequence & 7)) & 1

    def __contains__(self, uint64_t sequence):
        return self.has(sequence)

    def __len__(self):
        return self.count

    cdef int put(self, uint64_t first, uint64_t last) except -1:
        cdef uint64_t key, low, high, i
        cdef uint8_t *bits
        cdef uint32_t held
        self._key = <uint64_t> -1
        self._bits = NULL
        self._full = False
        for key in range(first >> BUCKET_BITS, (last >> BUCKET_BITS) + 1):
            found = self._buckets.get(key, False)
            if found is None:
                continue
            low = max(first, key << BUCKET_BITS) & (BUCKET - 1)
            high = min(last, (key << BUCKET_BITS) + BUCKET - 1) & (BUCKET - 1)
            if low == 0 and high == BUCKET - 1:
                self.count += BUCKET - (int.from_bytes(found, "little").bit_count() if found else 0)
                self._buckets[key] = None
                continue
            if found is False:
                found = bytearray(BUCKET_BYTES)
                self._buckets[key] = found
            bits = <uint8_t *> <char *> (<bytearray> found)
            for i in range(low, high + 1):
                held = (bits[i >> 3] >> (i & 7)) & 1
                bits[i >> 3] |= <uint8_t> (1 << (i & 7))
                self.count += 1 - held
            if high == BUCKET - 1 and int.from_bytes(found, "little").bit_count() == BUCKET:
                self._buckets[key] = None
        return 0

    def add(self, uint64_t first, uint64_t last):
        """Adds every sequence from `first` to `last`, both included."""
        if first <= last:
            self.put(first, last)

    def between(self, uint64_t first, uint64_t last) -> int:
        """How many sequences from `first` to `last`, both included."""
        cdef uint64_t key, low, high, start = first >> BUCKET_BITS, end = last >> BUCKET_BITS
        cdef uint64_t found = 0
        cdef object one = 1  # shifted as a Python number: further than C's go
        if first > last:
            return 0
        few = end - start < <uint64_t> len(self._buckets)
        for key in range(start, end + 1) if few else list(self._buckets):
            bits = self._buckets.get(key, False) if start <= key <= end else False
            if bits is False:
                continue
            low = first & (BUCKET - 1) if key == start else 0
            high = last & (BUCKET - 1) if key == end else BUCKET - 1
            if bits is None:
                found += high - low + 1
            else:
                found += (int.from_bytes(bits, "little") >> low & (one << high - low + 1) - 1).bit_count()
        return found

    def drop_below(self, uint64_t sequence):
        """Forgets buckets that lie wholly below a sequence; what is left of the others stays."""
        cdef uint64_t limit = sequence >> BUCKET_BITS
        gone = [key for key in self._buckets if key < limit]
        for key in gone:
            found = self._buckets.pop(key)
            self.count -= BUCKET if found is None else int.from_bytes(found, "little").bit_count()
        self._key = <uint64_t> -1
        self._bits = NULL
        self._full = False

    def dump(self) -> bytes:
        """Everything, for `load`."""
        parts = []
        for key, found in self._buckets.items():
            parts.append(_BUCKET_HEAD.pack(key, found is None))
            if found is not None:
                parts.append(bytes(found))
        return b"".join(parts)

    def load(self, data: bytes) -> None:
        """Adds what `dump` gave. Raises ValueError for anything else."""
        cdef size_t at = 0, n = len(data)
        while at < n:
            if n - at < <size_t> _BUCKET_HEAD.size:
                raise ValueError("a set of sequences is cut off")
            key, full = _BUCKET_HEAD.unpack_from(data, at)
            at += _BUCKET_HEAD.size
            if full:
                self._buckets[key] = None
                self.count += BUCKET
                continue
            if n - at < BUCKET_BYTES:
                raise ValueError("a set of sequences is cut off")
            self._buckets[key] = bytearray(data[at:at + BUCKET_BYTES])
            self.count += int.from_bytes(self._buckets[key], "little").bit_count()
            at += BUCKET_BYTES
        self._key = <uint64_t> -1
        self._bits = NULL
        self._full = False


cdef class SubjectTable:
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
            self._room = max(2 * self._room, 8)
            self._entries = <subject_t *> resize(self._entries, self._room * sizeof(subject_t))
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
        """Everything, for `load`."""
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
                raise ValueError("a subject table is cut off")
            first, last, count = number(p + at, 8), number(p + at + 8, 8), number(p + at + 16, 8)
            n, loose = number(p + at + 24, 4), <uint8_t> p[at + 28]
            at += SUBJECT_HEAD
            if size - at < n or not count or first > last or loose > 3:
                raise ValueError("a subject table is not well formed")
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
