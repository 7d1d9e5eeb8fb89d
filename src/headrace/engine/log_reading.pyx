# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Single messages of a log, read without Python: by sequence, and the last one of a subject.

A message of a file log is read with one small `pread`, or with none where the one before it was read last. A block is the records from one mark of the sparse index
(`headrace.log.index`) to the next, about 64 KiB. The first read in a block goes over the headers of its records and
notes where one begins, about every 4 KiB; a later read begins at the nearest of these marks. They are kept for the
last BLOCKS blocks: about 350 bytes each.

Both checksums of the message and its sequence are verified as everywhere. Whatever is not as expected is left to the
reader in Python, which says what is wrong with the file: damage, a file that was cut, a disk that fails. So nothing
here needs to be known about sealed or compressed segments either: `locate` names none of them.

A read from a disk that is slow blocks the interpreter, as it blocks the loop that it is done on.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memmove, memset
from posix.types cimport off_t

from headrace.engine.checksum cimport hr_crc, hr_crc_prepare
from headrace.engine.log_core cimport LogCounts
from headrace.engine.memory cimport buf_free, buf_grow, give, resize, take
from headrace.engine.messages cimport StoredMessages, message_t
from headrace.engine.records cimport ERASED, HEAD, MESSAGE, SEALED, find_parts, hr_record_t, look
from headrace.engine.structs cimport HR_GUARD, buf_t
from headrace.engine.subject_index cimport LAST_LOOSE, subject_t

cdef extern from "<unistd.h>" nogil:
    ssize_t pread(int descriptor, void *data, size_t n, off_t offset)

cdef enum:
    STEP = 4096              # bytes of records between two marks at least
    FIRST_CHUNK = 4096       # bytes of records that are gone over at once: the first time, then GROWTH times as many
    LARGEST_CHUNK = 65536
    GROWTH = 4
    OPEN_MOST = 131072       # bytes after which the last block of a log ends: by then the index has another mark
    BLOCKS = 4096            # blocks whose marks are kept
    FIRST_ROOM = 8
    KEPT = 262144            # an empty buffer larger than this gives its memory back

cdef uint64_t FOREVER = <uint64_t> -1

hr_crc_prepare()


cdef void free_block(block_t *block) noexcept:
    give(block.marks)
    give(block)


cdef int add_mark(block_t *block, uint64_t sequence, uint64_t offset) except -1:
    cdef uint32_t room = max(2 * block.room, <uint32_t> FIRST_ROOM)
    if block.count == block.room:
        block.marks = <mark_t *> resize(block.marks, room * sizeof(mark_t))
        block.room = room  # only now: the call before may raise
    block.marks[block.count].sequence = sequence
    block.marks[block.count].offset = offset
    block.count += 1
    return 0


cdef uint32_t mark_before(block_t *block, uint64_t sequence) noexcept:
    """The place of the last mark not above a sequence, which must be in the block."""
    cdef uint32_t low = 0, high = block.count, middle
    while high - low > 1:
        middle = (low + high) // 2
        if block.marks[middle].sequence <= sequence:
            low = middle
        else:
            high = middle
    return low


cdef class PointReads:
    """Reads messages of one log by their sequences.

    locate(sequence)   where to look for a message: (descriptor of the file, salt of its records, offset of a record
                       in the file, a sequence that no record from there on is below, a sequence that the block ends
                       before or 0); None: in no plain file
    make               the class of what `message` gives, as for `StoredMessages`

    The descriptor must stay open until `forget` was told of it.
    """

    def __cinit__(self, locate, type make not None):
        memset(&self._data, 0, sizeof(buf_t))
        self._held_descriptor = -1
        self._locate = locate
        self._made = StoredMessages(make)

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self._count):
            free_block(self._blocks[i])
        self._release()

    cdef void _release(self) noexcept:
        """Gives memory back that no block needs."""
        give(self._blocks)
        self._blocks = NULL
        self._count = self._room = 0
        self._held_descriptor = -1
        buf_free(&self._data)

    def message(self, uint64_t sequence, uint64_t last):
        """The message of a sequence if it can be read from here; else None. `last`: the log's last sequence."""
        cdef message_t m
        return self._made.pack(&m) if self.read(sequence, last, &m) == FOUND else None

    def forget(self, int descriptor) -> None:
        """A file is closed, or has other records now."""
        cdef uint32_t i, left = 0
        if descriptor == self._held_descriptor:
            self._held_descriptor = -1
        for i in range(self._count):
            if self._blocks[i].descriptor == descriptor:
                free_block(self._blocks[i])
            else:
                self._blocks[left] = self._blocks[i]
                left += 1
        self._count = left
        if left == 0:
            self._release()

    def __len__(self):
        """Blocks whose marks are kept."""
        return self._count

    cdef int read(self, uint64_t sequence, uint64_t last, message_t *m) except -1:
        """Points `m` at a message until the next read: FOUND, or SLOW. The caller knows that it is live."""
        cdef block_t *block = self._block_of(sequence)
        cdef hr_record_t r
        cdef size_t at
        if block == NULL or not self._go_over(block, sequence, last) or not self._hold(block, sequence):
            return SLOW
        at = self._held_at
        while at < self._held:
            if look(self._data.data, self._held, at, block.salt, &r) != 1:
                return SLOW
            if r.kind == MESSAGE and r.sequence == sequence:
                self._held_at = at + HEAD + <size_t> r.body
                self._held_next = sequence + 1
                return self._take(block, at, &r, m)
            at += HEAD + <size_t> r.body
        return SLOW

    cdef bint _hold(self, block_t *block, uint64_t sequence) except -1:
        """Has the records from the mark before a sequence on in the buffer; False when they cannot be read.

        Records that somebody has gone over stay as they are, but for those of messages that are erased.
        """
        cdef uint32_t place = mark_before(block, sequence)
        cdef uint64_t start = block.marks[place].offset
        cdef uint64_t stop = block.marks[place + 1].offset if place + 1 < block.count else block.gone_over
        cdef size_t n = <size_t> min(stop - start, <uint64_t> STEP + HEAD)
        cdef Py_ssize_t found
        if self._held_descriptor == block.descriptor and self._held_from == start and self._held == n \
                and sequence >= self._held_next:
            return True
        found = self._pread(block.descriptor, 0, n, start)
        if found < 0:
            return False
        self._held_descriptor = block.descriptor if found == <Py_ssize_t> n else -1
        self._held_from = start
        self._held = <size_t> found
        self._held_at = 0
        self._held_next = 0
        return True

    cdef int _take(self, block_t *block, size_t at, hr_record_t *r, message_t *m) except -1:
        """Checks the body of a record that begins at a place of what is held, and perhaps ends behind that."""
        cdef size_t end = at + HEAD + <size_t> r.body, n = self._held
        cdef const char *body
        if r.flags & SEALED:
            return SLOW
        if end > n and self._pread(block.descriptor, n, end - n, self._held_from + n) != <Py_ssize_t> (end - n):
            return SLOW
        body = self._data.data + at + HEAD
        if hr_crc(block.salt, body, r.body) != r.body_crc:
            return SLOW
        find_parts(m, r, body, r.body)
        return FOUND

    cdef Py_ssize_t _pread(self, int descriptor, size_t start, size_t n, uint64_t offset) except -2:
        """Reads into the buffer from `start` on, whose first bytes stay. Gives how many; -1: it failed."""
        cdef Py_ssize_t found
        if start == 0:
            self._held_descriptor = -1
        if start == 0 and self._data.cap > KEPT >= n:
            buf_free(&self._data)
        if start + n > self._data.cap:
            self._data.end = start
            buf_grow(&self._data, start + n)
        HR_GUARD(start + n <= self._data.cap)
        found = pread(descriptor, self._data.data + start, n, <off_t> offset)
        self.reads += 1
        self.read_bytes += max(found, 0)
        return found

    # ---- blocks ---------------------------------------------------------------------------------

    cdef uint32_t _place_of(self, uint64_t sequence) noexcept:
        """Number of blocks that begin at or below a sequence."""
        cdef uint32_t low = 0, high = self._count, middle
        while low < high:
            middle = (low + high) // 2
            if self._blocks[middle].first <= sequence:
                low = middle + 1
            else:
                high = middle
        return low

    cdef block_t *_block_of(self, uint64_t sequence) except? NULL:
        """The block that a sequence is in; NULL: it is in none that can be read here."""
        cdef uint32_t place = self._place_of(sequence)
        cdef block_t *block
        if place:
            block = self._blocks[place - 1]
            if block.end == FOREVER and block.gone_over - block.marks[0].offset >= OPEN_MOST:
                block.end = block.next
            if sequence < block.end:
                return block
        return self._add(sequence)

    cdef block_t *_add(self, uint64_t sequence) except? NULL:
        cdef block_t *block
        cdef object found = self._locate(sequence)
        if found is None:
            return NULL
        block = <block_t *> take(sizeof(block_t))
        memset(block, 0, sizeof(block_t))
        try:
            block.descriptor, block.salt, block.gone_over, block.first, block.end = found
            block.next = block.first
            block.end = block.end or FOREVER
            if not block.first <= sequence < block.end:
                raise ValueError(f"sequence {sequence} is not in the block that was named for it")
            add_mark(block, block.first, block.gone_over)
            self._insert(block)
        except BaseException:
            free_block(block)
            raise
        return block

    cdef int _insert(self, block_t *block) except -1:
        """Adds a block; one that begins with the same sequence goes, and another one when there are many."""
        cdef uint32_t place = self._place_of(block.first), room
        if place and self._blocks[place - 1].first == block.first:
            self._give_up(place - 1)
        elif self._count == BLOCKS:
            self._hand = (self._hand + 1) % BLOCKS
            self._give_up(self._hand)
        elif self._count == self._room:
            room = max(2 * self._room, <uint32_t> FIRST_ROOM)
            self._blocks = <block_t **> resize(self._blocks, room * sizeof(block_t *))
            self._room = room
        place = self._place_of(block.first)
        memmove(&self._blocks[place + 1], &self._blocks[place], (self._count - place) * sizeof(block_t *))
        self._blocks[place] = block
        self._count += 1
        return 0

    cdef void _give_up(self, uint32_t place) noexcept:
        free_block(self._blocks[place])
        self._count -= 1
        memmove(&self._blocks[place], &self._blocks[place + 1], (self._count - place) * sizeof(block_t *))

    cdef bint _go_over(self, block_t *block, uint64_t sequence, uint64_t last) except -1:
        """Notes where records begin up to that of a sequence; False when there is none that is whole and valid."""
        cdef uint64_t at = block.gone_over, following
        cdef size_t chunk = FIRST_CHUNK
        cdef Py_ssize_t n
        while block.next <= sequence:
            n = self._pread(block.descriptor, 0, chunk, at)
            following = self._note(block, n, at, last) if n > 0 else at
            if following == at:
                return False
            at = following
            chunk = min(GROWTH * chunk, <size_t> LARGEST_CHUNK)
        return True

    cdef uint64_t _note(self, block_t *block, size_t n, uint64_t offset, uint64_t last) except? 0:
        """Goes over `n` bytes of records that were read at an offset; gives the offset to go on at.

        Only what ends with a message of the log counts as gone over: what lies behind the last one may be left of a
        write that failed, and something else be written there later.
        """
        cdef hr_record_t r
        cdef size_t at = 0
        while at < n and look(self._data.data, n, at, block.salt, &r) == 1:
            if r.kind == MESSAGE or r.kind == ERASED:
                if r.sequence < block.next or r.sequence > last or r.sequence >= block.end:
                    break
                if offset + at >= block.marks[block.count - 1].offset + STEP:
                    add_mark(block, r.sequence, offset + at)
                block.next = r.sequence + 1
                block.gone_over = offset + at + HEAD + r.body
            at += HEAD + <size_t> r.body
        return offset + at


# ---- logs ---------------------------------------------------------------------------------------

cdef class LogReads:
    """The live messages of a log, one by one. Each answer is FOUND, ABSENT or SLOW: then the log has to be asked."""

    cdef bint is_removed(self, uint64_t sequence) except -1:
        """Tell whether it is known, without a look at the file, that a sequence has no message any more."""
        return False

    cdef int read(self, uint64_t sequence, message_t *m) except -1:
        """Points `m` at the message of a sequence until the next read."""
        return SLOW

    cdef int last_of(self, const char *subject, size_t n, uint64_t *sequence) except -1:
        """The sequence of the last message of a subject that is none with wildcards or empty tokens."""
        return SLOW


cdef class FileReads(LogReads):
    """The reads of a file log. `counts` say what is live."""

    def __init__(self, PointReads points not None, LogCounts counts not None):
        self._points = points
        self._counts = counts

    cdef bint is_removed(self, uint64_t sequence) except -1:
        return sequence < self._counts.floor or self._counts.removed.has(sequence)

    cdef int read(self, uint64_t sequence, message_t *m) except -1:
        cdef uint64_t last = self._counts.last_sequence
        if sequence > last or self.is_removed(sequence):
            return ABSENT
        return SLOW if self._counts.unreadable else self._points.read(sequence, last, m)

    cdef int last_of(self, const char *subject, size_t n, uint64_t *sequence) except -1:
        cdef subject_t *entry = self._counts.table.find(subject, n)
        if entry == NULL:
            return ABSENT
        sequence[0] = entry.last
        return SLOW if entry.loose & LAST_LOOSE else FOUND
