# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Deliveries of a consumer that await their acknowledgement, by stream sequence, in the order of sending.

`PendingMap` is a hash table over entries that are a doubly linked list: 40 bytes for each message of its room,
which doubles when it is full, and no Python object. Finding, adding and removing one, and finding the smallest
sequence, cost the same whatever their number, but for one thing: while messages stand in another order than
that of their sequences, since some were sent again, the smallest may have to be looked for among all.

Sequences are numbers of messages that are in a stream: nobody can choose them so that their hashes meet.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from headrace.engine.memory cimport give, resize, take
from headrace.engine.structs cimport HR_GUARD

cdef enum:
    FIRST_BITS = 4           # of the number of slots that it begins with
    FIRST_ROOM = 8
    MOST_ROOM = 1 << 30
    KEPT_ROOM = 256          # an empty map that has more gives its memory back

cdef uint64_t SPREAD = 0x9E3779B97F4A7C15ull   # 2^64 divided by the golden ratio: neighbours lie far apart


cdef class PendingMap:
    """Stream sequence -> (consumer sequence, ns when it was sent last), as a dict of these would be.

    `entries`: (stream sequence, consumer sequence, ns) of each. Raises: OverflowError for sequences below 0 or
    of more than 64 bits, MemoryError for more than 2^30 messages.
    """

    def __init__(self, entries=()):
        cdef uint64_t sequence, number
        cdef int64_t sent_ns
        for sequence, number, sent_ns in entries:
            self.set(sequence, number, sent_ns)

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept:
        give(self._entries)
        give(self._slots)
        self._entries = NULL
        self._slots = NULL
        self._room = self._used = self._free = 0

    # ---- the table -------------------------------------------------------------------------------

    cdef uint32_t _slot(self, uint64_t sequence) noexcept:
        """The slot of a sequence, or the free one where it would be; there is always one."""
        cdef uint32_t mask = 2 * self._room - 1
        cdef uint32_t slot = <uint32_t> ((sequence * SPREAD) >> self._shift)
        while self._slots[slot] and self._entries[self._slots[slot] - 1].sequence != sequence:
            slot = (slot + 1) & mask
        return slot

    cdef pending_t *find(self, uint64_t sequence) noexcept:
        """The entry of a sequence, until the next change; NULL when there is none."""
        cdef uint32_t one
        if self.count == 0:
            return NULL
        one = self._slots[self._slot(sequence)]
        return &self._entries[one - 1] if one else NULL

    cdef int _grow(self) except -1:
        """Room for twice as many."""
        cdef uint32_t room = 2 * self._room if self._room else FIRST_ROOM
        cdef uint32_t i, bits
        cdef uint32_t *slots
        if room > MOST_ROOM:
            raise MemoryError("too many messages await their acknowledgement")
        slots = <uint32_t *> take(2 * <size_t> room * sizeof(uint32_t))
        try:
            self._entries = <pending_t *> resize(self._entries, <size_t> room * sizeof(pending_t))
        except MemoryError:
            give(slots)
            raise
        bits = 64 - self._shift + 1 if self._room else FIRST_BITS
        memset(slots, 0, 2 * <size_t> room * sizeof(uint32_t))
        give(self._slots)
        self._slots = slots
        self._room = room
        self._shift = 64 - bits
        for i in range(self._used):  # it was full: each of them is in use
            self._slots[self._slot(self._entries[i].sequence)] = i + 1
        return 0

    cdef void _vacate(self, uint32_t slot) noexcept:
        """Frees a slot: those behind it that it kept from theirs move up."""
        cdef uint32_t mask = 2 * self._room - 1
        cdef uint32_t at = slot, home
        while True:
            at = (at + 1) & mask
            if self._slots[at] == 0:
                break
            home = <uint32_t> ((self._entries[self._slots[at] - 1].sequence * SPREAD) >> self._shift)
            if ((at - home) & mask) >= ((at - slot) & mask):
                self._slots[slot] = self._slots[at]
                slot = at
        self._slots[slot] = 0

    # ---- the order -------------------------------------------------------------------------------

    cdef void _append(self, uint32_t one) noexcept:
        """Puts an entry at the end."""
        cdef pending_t *entry = &self._entries[one - 1]
        entry.before = self._last
        entry.behind = 0
        if self._last:
            self._entries[self._last - 1].behind = one
            if self._entries[self._last - 1].sequence > entry.sequence:
                self._ascends = False
        else:
            self._first = one
            self._ascends = True
        self._last = one

    cdef void _unlink(self, uint32_t one) noexcept:
        cdef pending_t *entry = &self._entries[one - 1]
        if entry.before:
            self._entries[entry.before - 1].behind = entry.behind
        else:
            self._first = entry.behind
        if entry.behind:
            self._entries[entry.behind - 1].before = entry.before
        else:
            self._last = entry.before

    # ---- what compiled code asks -----------------------------------------------------------------

    cdef int track(self, uint64_t sequence, uint64_t number, int64_t sent_ns) except -1:
        """A message went out: a new entry, or one that is there, which keeps its place and its consumer sequence."""
        cdef pending_t *entry = self.find(sequence)
        if entry == NULL:
            return self.set(sequence, number, sent_ns)
        entry.sent_ns = sent_ns
        return 0

    cdef int set(self, uint64_t sequence, uint64_t number, int64_t sent_ns) except -1:
        """Sets an entry; one that is there keeps its place in the order."""
        cdef pending_t *entry = self.find(sequence)
        cdef uint32_t one
        if entry != NULL:
            entry.number = number
            entry.sent_ns = sent_ns
            return 0
        if self._free:
            one = self._free
            self._free = self._entries[one - 1].behind
        else:
            if self._used == self._room:
                self._grow()
            self._used += 1
            one = self._used
        HR_GUARD(one <= self._room)
        entry = &self._entries[one - 1]
        entry.sequence = sequence
        entry.number = number
        entry.sent_ns = sent_ns
        self._slots[self._slot(sequence)] = one
        self._append(one)
        if self.count == 0 or sequence < self._bound:
            self._bound = sequence
        self.count += 1
        self._changes += 1
        return 0

    cdef bint take(self, uint64_t sequence) noexcept:
        """Removes an entry; whether there was one."""
        cdef uint32_t slot, one
        if self.count == 0:
            return False
        slot = self._slot(sequence)
        one = self._slots[slot]
        if one == 0:
            return False
        self._vacate(slot)
        self._unlink(one)
        self._entries[one - 1].behind = self._free
        self._free = one
        self.count -= 1
        self._changes += 1
        if self.count == 0:
            self._used = self._free = 0
            if self._room > KEPT_ROOM:
                self._release()
        return True

    cdef uint64_t smallest(self) noexcept:
        """The smallest sequence, 0 when it is empty.

        Where the order is another one, it is looked for from the smallest that was known on, which finds it at
        once after an acknowledgement in order, and then among all.
        """
        cdef uint64_t sequence
        cdef uint32_t i, one
        if self.count == 0:
            return 0
        if self._ascends:
            return self._entries[self._first - 1].sequence
        for i in range(self.count):
            if self._slots[self._slot(self._bound + i)]:
                self._bound += i
                return self._bound
        one = self._first
        sequence = self._entries[one - 1].sequence
        while one:
            sequence = min(sequence, self._entries[one - 1].sequence)
            one = self._entries[one - 1].behind
        self._bound = sequence
        return sequence

    # ---- what Python asks ------------------------------------------------------------------------

    def __len__(self):
        return self.count

    def __contains__(self, uint64_t sequence):
        return self.find(sequence) != NULL

    def get(self, uint64_t sequence):
        """(consumer sequence, ns) of a message; None when it is not pending."""
        cdef pending_t *entry = self.find(sequence)
        return None if entry == NULL else (entry.number, entry.sent_ns)

    def __getitem__(self, sequence):
        cdef pending_t *entry = self.find(sequence)
        if entry == NULL:
            raise KeyError(sequence)
        return entry.number, entry.sent_ns

    def __setitem__(self, sequence, pair):
        """One that is there keeps its place in the order."""
        number, sent_ns = pair
        self.set(sequence, number, sent_ns)

    def __delitem__(self, sequence):
        if not self.take(sequence):
            raise KeyError(sequence)

    def pop(self, uint64_t sequence):
        """Removes a message; gives what `get` would."""
        found = self.get(sequence)
        self.take(sequence)
        return found

    def renew(self, uint64_t sequence, int64_t sent_ns, *, bint last=True) -> int:
        """A pending message counts as sent at `sent_ns`; `last`: it moves to the end. Gives its consumer sequence.

        Raises: KeyError when it is not pending.
        """
        cdef pending_t *entry = self.find(sequence)
        cdef uint32_t one
        if entry == NULL:
            raise KeyError(sequence)
        entry.sent_ns = sent_ns
        one = <uint32_t> (entry - self._entries) + 1
        if last and one != self._last:
            self._unlink(one)
            self._append(one)
            self._changes += 1
        return entry.number

    def update(self, PendingMap other not None) -> None:
        """Sets every entry of another one."""
        cdef uint32_t one = other._first
        cdef pending_t *entry
        while one:
            entry = &other._entries[one - 1]
            one = entry.behind
            self.set(entry.sequence, entry.number, entry.sent_ns)

    def take_up_to(self, uint64_t sequence) -> list[int]:
        """Removes what has this sequence or a smaller one; gives the sequences in the order of sending."""
        cdef uint32_t one = self._first
        cdef pending_t *entry
        cdef list taken = []
        while one:
            entry = &self._entries[one - 1]
            if entry.sequence <= sequence:
                taken.append(entry.sequence)
            elif self._ascends:
                break
            one = entry.behind
        for found in taken:
            self.take(found)
        return taken

    def lowest(self) -> int:
        """The smallest sequence, 0 when it is empty."""
        return self.smallest()

    def clear(self) -> None:
        self._release()
        self._first = self._last = self.count = 0
        self._changes += 1

    def __iter__(self):
        for sequence, _ in self.items():
            yield sequence

    def items(self):
        """(stream sequence, (consumer sequence, ns)) of each. Raises: RuntimeError when it changes meanwhile."""
        cdef uint32_t one = self._first
        cdef uint32_t changes = self._changes
        cdef pending_t *entry
        while one:
            entry = &self._entries[one - 1]
            one = entry.behind
            yield entry.sequence, (entry.number, entry.sent_ns)
            if self._changes != changes:
                raise RuntimeError("what is pending changed while it was iterated over")

    def __eq__(self, other):
        """Compare by content, in whatever order."""
        if not isinstance(other, PendingMap):
            return NotImplemented
        return dict(self.items()) == dict(other.items())
