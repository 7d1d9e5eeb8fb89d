# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Ids of messages that were stored lately: a table by id, and a queue in the order of time.

An entry takes 40 bytes, its slots 8 and its text what it is long; the queue, the slots and the texts grow to twice
what they are when they are full, and the memory goes with the last id. The hash has a random key: peers choose ids.
An id that is noted once more counts from then on. No rule of JetStream's lives here.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove, memset

from headrace.engine.memory cimport buf_free, buf_grow, give, take
from headrace.engine.structs cimport HR_GUARD, buf_t, hr_hash

cdef enum:
    FIRST_ROOM = 16

MOST_IDS = 1 << 20
"""Ids that are remembered at once; beyond, the oldest is forgotten before its time."""


cdef class IdWindow:
    """Ids with the sequences of their messages. `window_ns`: for how long; 0: none is noted. `most`: how many.

    `is_filled`: it knows what was stored before. `newest_id`: of the newest message, empty when it had none.
    """

    def __cinit__(self, *_arguments, **_options):
        self._seed = int.from_bytes(os.urandom(8), "little")
        memset(&self._texts, 0, sizeof(buf_t))
        self.newest_id = b""
        self.most = MOST_IDS

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept:
        give(self._ring)
        give(self._slots)
        buf_free(&self._texts)
        self._ring = NULL
        self._slots = NULL
        self._room = 0

    def __len__(self):
        return self._current

    def sequence_of(self, bytes msg_id not None) -> int:
        """The sequence of the message with an id; 0: none of that id is known."""
        return self.find_id(PyBytes_AS_STRING(msg_id), PyBytes_GET_SIZE(msg_id))

    def note(self, bytes msg_id not None, uint64_t sequence, int64_t time_ns) -> None:
        """A message with this id was stored; no earlier than those before."""
        self.note_id(PyBytes_AS_STRING(msg_id), PyBytes_GET_SIZE(msg_id), sequence, time_ns)

    def forget(self, int64_t now_ns) -> None:
        """Forgets what is over the window."""
        self.forget_before(now_ns)

    cdef uint64_t find_id(self, const char *text, size_t n) noexcept:
        cdef uint32_t slot
        if self._current == 0:
            return 0
        slot = self._slots[self._slot(text, n, hr_hash(text, n, self._seed))]
        return self._ring[slot - 1].sequence if slot else 0

    cdef int note_id(self, const char *text, size_t n, uint64_t sequence, int64_t time) except -1:
        cdef uint64_t hash
        cdef uint32_t slot
        cdef id_t *entry
        if self.window_ns <= 0:
            return 0
        if self._next - self._first == self._room:
            self._grow()
        self._add_text(text, n)
        hash = hr_hash(text, n, self._seed)
        slot = self._slot(text, n, hash)
        if self._slots[slot]:
            self._ring[self._slots[slot] - 1].is_current = False
        else:
            self._current += 1
        entry = &self._ring[self._next & (self._room - 1)]
        entry.hash = hash
        entry.sequence = sequence
        entry.time = time
        entry.offset = self._forgotten + self._texts.end - self._texts.start - n
        entry.len = <uint32_t> n
        entry.is_current = True
        self._slots[slot] = <uint32_t> (self._next & (self._room - 1)) + 1
        self._next += 1
        while self._next - self._first > self.most:
            self._drop_first()
        return 0

    cdef void forget_before(self, int64_t time) noexcept:
        """Forget the ids that are older than the window at a time."""
        while self._first < self._next and time - self._ring[self._first & (self._room - 1)].time >= self.window_ns:
            self._drop_first()

    cdef void withdraw(self, uint64_t count) noexcept:
        """The last so many ids, none of which was known before, were not stored after all."""
        cdef uint32_t place
        while count and self._first < self._next:
            place = <uint32_t> ((self._next - 1) & (self._room - 1))
            if self._ring[place].is_current:
                self._empty(place)
            self._texts.end -= self._ring[place].len
            self._next -= 1
            count -= 1

    cdef void _drop_first(self) noexcept:
        cdef uint32_t place = <uint32_t> (self._first & (self._room - 1))
        if self._ring[place].is_current:
            self._empty(place)
        self._texts.start += self._ring[place].len
        self._forgotten += self._ring[place].len
        self._first += 1
        if self._first == self._next:
            self._release()

    cdef const char *_text(self, id_t *entry) noexcept:
        return self._texts.data + self._texts.start + (entry.offset - self._forgotten)

    cdef uint32_t _slot(self, const char *text, size_t n, uint64_t hash) noexcept:
        """The slot that holds an id, or the empty one where it goes."""
        cdef uint32_t mask = 2 * self._room - 1
        cdef uint32_t i = <uint32_t> hash & mask
        cdef id_t *entry
        while self._slots[i]:
            entry = &self._ring[self._slots[i] - 1]
            if entry.hash == hash and entry.len == n and memcmp(self._text(entry), text, n) == 0:
                break
            i = (i + 1) & mask
        return i

    cdef void _empty(self, uint32_t place) noexcept:
        """Takes an entry out of the slots and closes the gap in the run behind it."""
        cdef uint32_t mask = 2 * self._room - 1
        cdef uint32_t hole = <uint32_t> self._ring[place].hash & mask, i, home
        while self._slots[hole] != place + 1:
            hole = (hole + 1) & mask
        i = hole
        while True:
            i = (i + 1) & mask
            if not self._slots[i]:
                break
            home = <uint32_t> self._ring[self._slots[i] - 1].hash & mask
            if ((i - home) & mask) >= ((i - hole) & mask):
                self._slots[hole] = self._slots[i]
                hole = i
        self._slots[hole] = 0
        self._ring[place].is_current = False
        self._current -= 1

    cdef int _grow(self) except -1:
        """Doubles the queue, and files every entry anew."""
        cdef uint32_t room = max(2 * self._room, <uint32_t> FIRST_ROOM), i, mask = 2 * room - 1
        cdef uint64_t number
        cdef id_t *ring = <id_t *> take(room * sizeof(id_t))
        cdef uint32_t *slots
        cdef id_t *entry
        try:
            slots = <uint32_t *> take(2 * room * sizeof(uint32_t))
        except MemoryError:
            give(ring)
            raise
        memset(slots, 0, 2 * room * sizeof(uint32_t))
        for number in range(self._first, self._next):
            entry = &ring[number & (room - 1)]
            entry[0] = self._ring[number & (self._room - 1)]
            if entry.is_current:
                i = <uint32_t> entry.hash & mask
                while slots[i]:
                    i = (i + 1) & mask
                slots[i] = <uint32_t> (number & (room - 1)) + 1
        give(self._ring)
        give(self._slots)
        self._ring = ring
        self._slots = slots
        self._room = room
        return 0

    cdef int _add_text(self, const char *text, size_t n) except -1:
        """Puts a text behind the others. They move to the front where that wins half of the room, else it doubles."""
        cdef buf_t *b = &self._texts
        cdef size_t held = b.end - b.start
        if b.cap - b.end < n:
            if b.start:
                memmove(b.data, b.data + b.start, held)
                b.start = 0
                b.end = held
            if b.cap < 2 * (held + n):
                buf_grow(b, 2 * (held + n))
        HR_GUARD(b.end + n <= b.cap)
        memcpy(b.data + b.end, text, n)
        b.end += n
        return 0
