# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Records of the log on disk: checksums, packing a batch, reading a buffer back. No file is opened here.

A record, version 1; numbers are little-endian, nothing is aligned or padded:

     0  u32  CRC32C of bytes 4 to 47, begun with the segment's salt
     4  u32  CRC32C of the body, begun with the salt
     8  u8   version, 1
     9  u8   kind: 1 message, 2 ranges, 3 floor, 4 erased, 5 segments, 6 header
    10  u16  length of the subject
    12  u32  length of the body
    16  u64  sequence          message: its own; floor: the lowest that is left; ranges: the first of them
    24  i64  time, ns since 1970
    32  u64  previous          message: its subject's message before it, 0 for none; others: the log's last
    40  u32  length of the headers
    44  u16  length of the reply subject
    46  u16  flags: 1 the body begins with a TTL (i64 ns), 2 the body is sealed
    48       body: [TTL] subject reply headers payload; of ranges: pairs of u64, first and last, both removed;
             of segments: pairs of u64, what became of a segment, and its base in front. Behind it a lower
             number: it was taken away, and that is the base of the one before it. A higher number: it was
             rewritten without what was removed, while the segment of that base was the last one;
             of header: the segment's header once more

The header has a checksum of its own, so that damage to a body costs one message and its sequence is known,
and so that the next record is found again after damage to a header. The salt is random per segment: bytes
that a publisher chose never pass for a record, nor do those of another segment. An erased record is a
message whose body was overwritten with zeros. A sealed body is what the sealer made of the plain one, and
`overhead` longer; the lengths are those of the plain one.

Every length is checked before it is used. What is damaged is reported by sequence and stepped over; damage
with no valid record behind it is left to the caller (`bad_from`): it may be a write that was cut off.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyTypeObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.checksum cimport hr_crc, hr_crc_by_table, hr_crc_prepare
from headrace.engine.memory cimport give, take
from headrace.engine.messages cimport NewMessages, StoredMessages, hr_new_tuple, message_t, put
from headrace.engine.sequence_set cimport SequenceSet
from headrace.engine.subject_index cimport SubjectIndex, hr_subject_matches, subject_t
from headrace.errors import MessageTooLarge

cdef uint64_t LAST_SEQUENCE = 0x7FFFFFFFFFFFFFFF
cdef int64_t LONGEST = 0x7FFFFFFFFFFFFFFF

HEADER_BYTES = HEAD
LARGEST_BODY = (1 << 31) - 1
"""Bytes of a body at most: what one write takes with room to spare."""
HAS_SSE42 = bool(hr_crc_prepare())


cdef Py_ssize_t LARGE = 64 << 10
"""Bytes above which other threads may run meanwhile: less is done sooner than the interpreter is left."""


def crc32c(data: bytes | memoryview, uint32_t start=0, bint portable=False) -> int:
    """CRC32C (Castagnoli) of `data`, going on from `start`; `portable` asks for the table's answer.

    Raises: TypeError, BufferError for what has no bytes one behind the other.
    """
    cdef Py_buffer view
    cdef const char *at
    cdef Py_ssize_t size
    cdef uint32_t found
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    at, size = <const char *>view.buf, view.len
    try:
        if portable:
            found = hr_crc_by_table(start, at, size)
        elif size < LARGE:
            found = hr_crc(start, at, size)
        else:
            with nogil:
                found = hr_crc(start, at, size)
    finally:
        PyBuffer_Release(&view)
    return found


def join(tuple pieces not None) -> bytes:
    """Join bytes as `b"".join` does, but let other threads run while large ones are copied.

    Raises: TypeError for what is not bytes.
    """
    cdef Py_ssize_t total = 0, size
    cdef const char *source
    cdef char *at
    for piece in pieces:
        if not PyBytes_Check(piece):
            raise TypeError(f"only bytes are joined, not {type(piece).__name__}")
        total += PyBytes_GET_SIZE(piece)
    made = PyBytes_FromStringAndSize(NULL, total)
    at = PyBytes_AS_STRING(made)
    for piece in pieces:
        source, size = PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece)
        if size < LARGE:
            memcpy(at, source, size)
        else:
            with nogil:
                memcpy(at, source, size)
        at += size
    return made


def join_checked(bytes magic not None, tuple pieces not None) -> bytes:
    """Join four bytes of magic, the CRC32C of all pieces (little-endian), and the pieces, which are copied once.

    Other threads run meanwhile where they are large together. Raises: TypeError, BufferError for what has no bytes
    one behind the other, ValueError for another length of the magic.
    """
    cdef Py_ssize_t count = len(pieces), total = 0, i, held = 0
    cdef Py_buffer *views
    cdef char *start
    cdef uint32_t found
    if PyBytes_GET_SIZE(magic) != 4:
        raise ValueError("the magic has four bytes")
    views = <Py_buffer *> take(max(count, 1) * sizeof(Py_buffer))
    try:
        for i in range(count):
            PyObject_GetBuffer(pieces[i], &views[i], PyBUF_SIMPLE)
            held += 1
            total += views[i].len
        made = PyBytes_FromStringAndSize(NULL, 8 + total)
        start = PyBytes_AS_STRING(made)
        memcpy(start, PyBytes_AS_STRING(magic), 4)
        if total < LARGE:
            found = copied(start + 8, views, count, total)
        else:
            with nogil:
                found = copied(start + 8, views, count, total)
        for i in range(4):
            start[4 + i] = <char> (found >> 8 * i & 0xFF)
    finally:
        for i in range(held):
            PyBuffer_Release(&views[i])
        give(views)
    return made


cdef uint32_t copied(char *to, Py_buffer *views, Py_ssize_t count, Py_ssize_t total) noexcept nogil:
    """Copy the bytes of all views one behind the other, and return their checksum."""
    cdef char *at = to
    cdef Py_ssize_t i
    for i in range(count):
        memcpy(at, views[i].buf, views[i].len)
        at += views[i].len
    return hr_crc(0, to, total)


# ---- packing ------------------------------------------------------------------------------------

cdef void close_header(char *at, hr_record_t *r, uint32_t salt) noexcept:
    """Writes a header, its body's checksum in it and its own in front."""
    hr_record_order(r)
    memcpy(at, r, HEAD)
    hr_record_order(r)
    hr_put32(at, hr_crc(salt, at + 4, HEAD - 4))


cdef size_t body_size(message_t *m) except? 0:
    """Bytes of the plain body. Raises MessageTooLarge where a length does not fit its field."""
    cdef size_t body = <size_t> m.subject_len + m.payload_len + m.reply_len + m.headers_len + (8 if m.ttl else 0)
    if m.subject_len > 0xFFFF or m.reply_len > 0xFFFF:
        raise MessageTooLarge("a subject or reply is longer than 65,535 bytes")
    if body + 64 > <size_t> LARGEST_BODY:
        raise MessageTooLarge(f"a message of {body} bytes does not fit a record")
    return body


cdef void pack_body(char *at, message_t *m, hr_record_t *r) noexcept:
    """Fills in a plain body and the lengths of its parts."""
    if m.ttl:
        r.flags |= HAS_TTL
        hr_put64(at, <uint64_t> m.ttl)
        at += 8
    r.subject = <uint16_t> m.subject_len
    memcpy(at, m.subject, m.subject_len)
    at += m.subject_len
    r.reply = <uint16_t> m.reply_len
    memcpy(at, m.reply, m.reply_len)
    at += m.reply_len
    r.headers = m.headers_len
    memcpy(at, m.headers, m.headers_len)
    at += m.headers_len
    memcpy(at, m.payload, m.payload_len)


cdef char *pack_message(char *at, message_t *m, size_t body, uint64_t sequence, int64_t time, uint64_t previous,
                        uint32_t salt) noexcept:
    """Writes the record of a message whose plain body is of `body` bytes; gives where it ends."""
    cdef hr_record_t r
    memset(&r, 0, sizeof(r))
    r.version = VERSION
    r.kind = MESSAGE
    r.sequence = sequence
    r.time = time
    r.previous = previous
    r.body = <uint32_t> body
    pack_body(at + HEAD, m, &r)
    r.body_crc = hr_crc(salt, at + HEAD, r.body)
    close_header(at, &r, salt)
    return at + HEAD + body


cdef uint64_t previous_of(SubjectIndex table, dict earlier, message_t *m, uint64_t sequence) except? 0:
    """The subject's message before this one: in this batch, or else in the log."""
    cdef subject_t *entry
    cdef bytes subject
    if earlier is not None:
        subject = m.subject[:m.subject_len]
        found = earlier.get(subject)
        earlier[subject] = sequence
        if found is not None:
            return found
    entry = table.find(m.subject, m.subject_len)
    return entry.last if entry != NULL else 0


cdef bint has_one_subject(NewMessages batch) noexcept:
    cdef Py_ssize_t i
    cdef message_t *m = batch.items
    for i in range(1, batch.count):
        if m[i].subject_len != m[0].subject_len or memcmp(m[i].subject, m[0].subject, m[0].subject_len) != 0:
            return False
    return True


cdef char *pack_sealed(char *at, message_t *m, size_t body, uint64_t sequence, int64_t time, uint64_t previous,
                       uint32_t salt, object sealer, uint32_t overhead) except NULL:
    """`pack_message` with a body that `sealer` makes `overhead` bytes longer."""
    cdef hr_record_t r
    cdef bytes plain = PyBytes_FromStringAndSize(NULL, body)
    memset(&r, 0, sizeof(r))
    r.version = VERSION
    r.kind = MESSAGE
    r.sequence = sequence
    r.time = time
    r.previous = previous
    r.body = <uint32_t> body + overhead
    pack_body(PyBytes_AS_STRING(plain), m, &r)
    r.flags |= SEALED
    close_header(at, &r, salt)
    sealed = sealer(plain, PyBytes_FromStringAndSize(at + 8, HEAD - 8))
    if <size_t> len(sealed) != r.body:
        raise ValueError("a sealed body has not the length that was announced")
    memcpy(at + HEAD, PyBytes_AS_STRING(sealed), r.body)
    r.body_crc = hr_crc(salt, at + HEAD, r.body)
    close_header(at, &r, salt)
    return at + HEAD + r.body


def encode(NewMessages batch not None, uint64_t first, int64_t last_time, int64_t now, uint32_t salt,
           SubjectIndex table, bytes lead=b"", sealer=None, uint32_t overhead=0) -> bytes:
    """A batch as it is written, `lead` (other records) before it; sequences go up from `first`.

    A message's time of 0 is `now`, and none is below the one before; each has the time of its record then.
    `sealer(plain, header)` gives a body of `overhead` more bytes. Raises: MessageTooLarge.
    """
    cdef size_t total = PyBytes_GET_SIZE(lead), n
    cdef char *at
    cdef uint64_t previous
    cdef message_t *m
    cdef Py_ssize_t i
    cdef bint is_single = has_one_subject(batch)  # then each one's message before it is plain to see
    cdef dict earlier = None if is_single else {}
    for i in range(batch.count):
        total += HEAD + body_size(&batch.items[i]) + overhead
    out = PyBytes_FromStringAndSize(NULL, total)
    at = PyBytes_AS_STRING(out)
    memcpy(at, PyBytes_AS_STRING(lead), PyBytes_GET_SIZE(lead))
    at += PyBytes_GET_SIZE(lead)
    for i in range(batch.count):
        m = &batch.items[i]
        n = body_size(m)
        m.time = last_time = max(m.time or now, last_time)
        previous = first - 1 if is_single and i else previous_of(table, earlier, m, first)
        if overhead == 0:
            at = pack_message(at, m, n, first, last_time, previous, salt)
        else:
            at = pack_sealed(at, m, n, first, last_time, previous, salt, sealer, overhead)
        first += 1
    return out


def encode_removal(ranges, uint64_t floor, uint64_t last, int64_t time, uint32_t salt, *, bint by_limits=False) -> bytes:
    """Records that say what was removed: everything below `floor` (0: nothing said) and each of `ranges`.

    `by_limits`: because of what was appended before; where that was lost, so is the removal (`Scan.removals`).
    """
    cdef hr_record_t r
    cdef size_t count, i, start
    cdef uint16_t flags = BY_LIMITS if by_limits else 0
    parts = []
    if floor:
        memset(&r, 0, sizeof(r))
        r.version, r.kind, r.sequence, r.time, r.previous = VERSION, FLOOR, floor, time, last
        r.flags = flags
        r.body_crc = hr_crc(salt, NULL, 0)
        out = PyBytes_FromStringAndSize(NULL, HEAD)
        close_header(PyBytes_AS_STRING(out), &r, salt)
        parts.append(out)
    for start in range(0, len(ranges), RANGES_AT_ONCE):
        some = ranges[start:start + RANGES_AT_ONCE]
        count = len(some)
        out = PyBytes_FromStringAndSize(NULL, HEAD + 16 * count)
        for i in range(count):
            hr_put64(PyBytes_AS_STRING(out) + HEAD + 16 * i, some[i][0])
            hr_put64(PyBytes_AS_STRING(out) + HEAD + 16 * i + 8, some[i][1])
        memset(&r, 0, sizeof(r))
        r.version, r.kind, r.sequence, r.time, r.previous = VERSION, RANGES, some[0][0], time, last
        r.flags = flags
        r.body = <uint32_t> (16 * count)
        r.body_crc = hr_crc(salt, PyBytes_AS_STRING(out) + HEAD, r.body)
        close_header(PyBytes_AS_STRING(out), &r, salt)
        parts.append(out)
    return b"".join(parts)


def encode_segments(pairs, uint64_t last, int64_t time, uint32_t salt) -> bytes:
    """The record that says what became of segments; nothing for no pairs. `last`: the log's last sequence."""
    cdef hr_record_t r
    cdef size_t count = len(pairs), i
    if not count:
        return b""
    out = PyBytes_FromStringAndSize(NULL, HEAD + 16 * count)
    for i in range(count):
        hr_put64(PyBytes_AS_STRING(out) + HEAD + 16 * i, pairs[i][0])
        hr_put64(PyBytes_AS_STRING(out) + HEAD + 16 * i + 8, pairs[i][1])
    memset(&r, 0, sizeof(r))
    r.version, r.kind, r.sequence, r.time, r.previous = VERSION, SEGMENTS, pairs[0][0], time, last
    r.body = <uint32_t> (16 * count)
    r.body_crc = hr_crc(salt, PyBytes_AS_STRING(out) + HEAD, r.body)
    close_header(PyBytes_AS_STRING(out), &r, salt)
    return out


def encode_header(bytes header not None, uint64_t base, int64_t time, uint32_t salt) -> bytes:
    """The record that holds a segment's header once more. Raises: ValueError for another length."""
    cdef hr_record_t r
    if PyBytes_GET_SIZE(header) != SEGMENT_HEAD:
        raise ValueError(f"a segment's header has {SEGMENT_HEAD} bytes")
    out = PyBytes_FromStringAndSize(NULL, HEAD + SEGMENT_HEAD)
    memcpy(PyBytes_AS_STRING(out) + HEAD, PyBytes_AS_STRING(header), SEGMENT_HEAD)
    memset(&r, 0, sizeof(r))
    r.version, r.kind, r.sequence, r.time, r.previous = VERSION, HEADER, base, time, base - 1 if base else 0
    r.body = SEGMENT_HEAD
    r.body_crc = hr_crc(salt, PyBytes_AS_STRING(out) + HEAD, r.body)
    close_header(PyBytes_AS_STRING(out), &r, salt)
    return out


def erased(bytes record, uint32_t salt) -> bytes:
    """The record that takes a message's place: its length, sequence, time and link, zeros for a body."""
    cdef hr_record_t r
    cdef size_t n = PyBytes_GET_SIZE(record)
    if look(PyBytes_AS_STRING(record), n, 0, salt, &r) != 1 or HEAD + <size_t> r.body != n:
        raise ValueError("not one whole record")
    out = PyBytes_FromStringAndSize(NULL, n)
    memset(PyBytes_AS_STRING(out), 0, n)
    r.kind, r.subject, r.reply, r.headers, r.flags = ERASED, 0, 0, 0, 0
    r.body_crc = hr_crc(salt, PyBytes_AS_STRING(out) + HEAD, r.body)
    close_header(PyBytes_AS_STRING(out), &r, salt)
    return out


# ---- reading ------------------------------------------------------------------------------------

cdef int look(const char *data, size_t n, size_t at, uint32_t salt, hr_record_t *r) noexcept:
    """Reads a header: 1 it is valid, 0 too few bytes, -1 it is none."""
    cdef uint64_t parts
    if n - at < HEAD:
        return 0
    if data[at + 8] != VERSION or <uint8_t> (data[at + 9] - 1) >= HEADER:
        return -1
    memcpy(r, data + at, HEAD)
    hr_record_order(r)
    if r.header_crc != hr_crc(salt, data + at + 4, HEAD - 4):
        return -1
    parts = <uint64_t> r.subject + r.reply + r.headers + (8 if r.flags & HAS_TTL else 0)
    if parts > r.body or r.body > <uint32_t> LARGEST_BODY or r.sequence > LAST_SEQUENCE or r.time < 0:
        return -1
    if (r.kind == RANGES or r.kind == SEGMENTS) and r.body % 16:
        return -1
    if r.kind == HEADER and r.body != SEGMENT_HEAD:
        return -1
    return 1


cdef void find_parts(message_t *m, hr_record_t *r, const char *body, size_t n) noexcept:
    """Points a message into the plain body of its record, of `n` bytes that the lengths in its header fit."""
    m.sequence = r.sequence
    m.time = r.time
    m.subject = body + (8 if r.flags & HAS_TTL else 0)
    m.subject_len = r.subject
    m.reply = m.subject + r.subject
    m.reply_len = r.reply
    m.headers = m.reply + r.reply
    m.headers_len = r.headers
    m.payload = m.headers + r.headers
    m.payload_len = <uint32_t> (n - (m.payload - body))


cdef class Scan:
    """Reads a segment's records in order, one buffer after the other.

    Each call takes the bytes from where the last one stopped and sets `at` to how many of them it used;
    the next buffer begins there. `need` is how long it must be when one record is longer than this one.
    `final`: the segment ends with this buffer.
    """

    cdef uint32_t _salt
    cdef bint _lost            # a header was unreadable since the last valid record: sequences may be missing
    cdef uint64_t _lost_bytes
    cdef list _pending         # damage that counts once a valid record follows
    cdef object _opener
    cdef uint32_t _overhead
    cdef readonly bint has_sealed
    """True if there was a sealed body, without an opener."""
    cdef object _plain         # what the opener gave for the record at hand: keeps its bytes alive
    cdef const char *_body     # the record's plain body
    cdef size_t _body_n
    cdef readonly uint64_t expected
    """The sequence that comes next if none is missing."""
    cdef readonly uint64_t settled
    """The value of `expected` at the last valid record."""
    cdef uint64_t _ceiling
    cdef readonly size_t at
    cdef readonly size_t need
    cdef readonly object bad_from
    """Offset of the first damage that no valid record follows; None: there is none."""
    cdef readonly uint64_t base
    """The offset of the buffer at hand, from the segment's first record; `origin` at the start."""
    cdef public list damaged
    """(first, last) of sequences found unreadable, in order."""
    cdef readonly list ranges
    """(first, last) of what records say was removed, as `removals` and `survivors` find it."""
    cdef readonly list segments
    """The pairs of records of segments, as the same find them."""
    cdef public uint32_t besides
    """The bytes that a message counts for besides its parts, and `headed` more when it has headers."""
    cdef public uint32_t headed
    cdef readonly uint64_t messages
    cdef readonly uint64_t message_bytes
    cdef readonly uint64_t record_bytes
    cdef readonly uint64_t expiring
    """Live messages with a TTL, as `census` counts them; before it their number, what they count for, their records."""
    cdef readonly uint64_t floor
    cdef readonly int64_t last_time
    cdef readonly uint64_t last_message
    cdef readonly int64_t expiry
    """The time when the first message with a TTL expires, among those before the first mark that `census` gave."""

    def __cinit__(self, uint32_t salt, uint64_t expected, uint64_t ceiling, uint64_t origin=0, opener=None,
                  uint32_t overhead=0):
        self._salt = salt
        self.besides = SIZE_BESIDES
        self.base = origin
        self.expected = self.settled = expected
        self._ceiling = min(ceiling, LAST_SEQUENCE)
        self._opener = opener
        self._overhead = overhead
        self._pending = []
        self.damaged = []
        self.ranges = []
        self.segments = []
        self.expiry = LONGEST

    cdef int _begin(self) except -1:
        self.base += self.at
        self.at = 0
        self.need = 0
        return 0

    cdef int _bad(self) except -1:
        if self.bad_from is None:
            self.bad_from = self.base + self.at
        return 0

    cdef int _missing(self, uint64_t last) except -1:
        """Bytes were lost before a record that says the log had come to `last`."""
        cdef uint64_t most = self._lost_bytes // HEAD
        if last >= self.expected and most:
            self._pending.append((self.expected, min(last, self.expected + most - 1)))
        self._lost = False
        self._lost_bytes = 0
        return 0

    cdef int _settle(self) except -1:
        """A valid record: the damage before it is damage, not an end."""
        if self._pending:
            self.damaged += self._pending
            self._pending = []
        self.bad_from = None
        self.settled = self.expected
        return 0

    def finish(self) -> None:
        """End the pass, nothing being cut: whatever is unreadable up to the ceiling is damage."""
        if self._lost:
            self._missing(self._ceiling - 1)
        self._settle()

    cdef int _resync(self, const char *data, size_t n) except -1:
        """Steps on to where a header could begin."""
        cdef size_t start = self.at
        cdef hr_record_t r
        self._bad()
        self._lost = True
        self.at += 1
        while self.at < n:
            if look(data, n, self.at, self._salt, &r) >= 0:
                break
            self.at += 1
        self._lost_bytes += self.at - start
        return 0

    cdef int _open(self, const char *body, hr_record_t *r) except -1:
        """Checks a body and finds its plain form: 1, or 0 when damaged. Without an opener it stays sealed."""
        cdef hr_record_t header
        if hr_crc(self._salt, body, r.body) != r.body_crc:
            return 0
        self._body = body
        self._body_n = r.body
        if r.flags & SEALED and r.kind == MESSAGE:
            if self._opener is None:
                self.has_sealed = True
                return 1
            header = r[0]
            close_header(<char *> &header, &header, self._salt)
            self._plain = self._opener(PyBytes_FromStringAndSize(body, r.body),
                                       PyBytes_FromStringAndSize(<char *> &header + 8, HEAD - 8))
            if self._plain is None or <size_t> len(self._plain) + self._overhead != r.body:
                return 0
            self._body = PyBytes_AS_STRING(self._plain)
            self._body_n = PyBytes_GET_SIZE(self._plain)
            return (<uint64_t> r.subject + r.reply + r.headers + (8 if r.flags & HAS_TTL else 0)
                    <= self._body_n)
        return 1

    cdef int _step(self, const char *data, size_t n, bint final, hr_record_t *r) except -1:
        """The next valid record: 1, and `at` is behind it; 0 when there is none in this buffer."""
        cdef int found
        cdef size_t total
        while self.at < n:
            found = look(data, n, self.at, self._salt, r)
            if found < 0:
                self._resync(data, n)
                continue
            total = HEAD + <size_t> r.body if found else HEAD
            if n - self.at < total:
                if not final:
                    self.need = total
                    return 0
                self._bad()
                self._lost = True
                self._lost_bytes += n - self.at
                self.at = n
                return 0
            if self._accept(data + self.at + HEAD, r):
                self.at += total
                return 1
            self.at += total
        return 0

    cdef int _accept(self, const char *body, hr_record_t *r) except -1:
        """Judges a record whose bytes are all here: 1 valid, 0 to be stepped over."""
        cdef bint whole = self._open(body, r)
        if r.kind == MESSAGE or r.kind == ERASED:
            if r.sequence < self.expected or r.sequence >= self._ceiling:
                self._bad()  # twice, or out of place: not one of this log's messages
                return 0
            if self._lost:
                self._missing(r.sequence - 1)
            self.expected = r.sequence + 1
            if not whole:
                self._bad()
                self._pending.append((r.sequence, r.sequence))
                return 0
        elif not whole:
            self._bad()
            return 0
        else:
            if self._lost:
                self._missing(r.previous)
            self.expected = max(self.expected, min(r.previous, LAST_SEQUENCE) + 1)
        self._settle()
        return 1

    cdef void _stop(self, hr_record_t *r) noexcept:
        """Leaves the record at hand for the next read; what was before it is dealt with."""
        self.at -= HEAD + <size_t> r.body
        self.expected = r.sequence

    def messages_in(self, bytes data, bint final, uint64_t first, uint64_t last, object filters,
                    SequenceSet removed, uint64_t floor, StoredMessages out, Py_ssize_t most, int64_t room) -> int:
        """Adds live messages from `first` to `last` that match to `out`: no more than `most` in it, and no
        more than `room` bytes but for the first. Gives the room left, -1 when it or `most` stopped it.
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data), size
        cdef hr_record_t r
        self._begin()
        while True:
            if not self._step(p, n, final, &r):
                return room
            if r.kind != MESSAGE or r.sequence < first:
                continue
            if r.sequence > last:
                self._stop(&r)
                return -1
            if r.sequence < floor or removed.has(r.sequence) or not self._wanted(filters, &r):
                continue
            size = SIZE_BESIDES + self._body_n - (8 if r.flags & HAS_TTL else 0)
            if out.count >= most or (out.count and <int64_t> size > room):
                self._stop(&r)
                return -1
            room = max(room - <int64_t> size, 0)
            self._take(out, data, &r)

    cdef inline size_t _weight(self, hr_record_t *r) noexcept:
        """The bytes that the message at hand counts for, those of its TTL included."""
        return self.besides + (self.headed if r.headers else 0) + self._body_n

    cdef bint _wanted(self, object filters, hr_record_t *r) except -1:
        """`filters`: a list of patterns, or one subject byte for byte, or None for everything."""
        cdef const char *subject = self._body + (8 if r.flags & HAS_TTL else 0)
        if filters is None:
            return True
        if PyBytes_Check(filters):
            return PyBytes_GET_SIZE(filters) == r.subject and \
                memcmp(PyBytes_AS_STRING(filters), subject, r.subject) == 0
        for pattern in <list> filters:
            if hr_subject_matches(PyBytes_AS_STRING(pattern), PyBytes_GET_SIZE(pattern), subject, r.subject):
                return True
        return False

    cdef int _take(self, StoredMessages out, bytes data, hr_record_t *r) except -1:
        """Adds the message at hand; its parts stay where they are, in the buffer or in what was unsealed."""
        cdef message_t *m = out.place()
        out.keep(self._plain if r.flags & SEALED and self._opener is not None else data)
        find_parts(m, r, self._body, self._body_n)
        return 0

    def outline(self, bytes data, bint final, make, uint64_t first, uint64_t last, object filters,
                SequenceSet removed, uint64_t floor, list out, Py_ssize_t most) -> bool:
        """Adds outlines of live messages to `out`: tuples of type `make` (sequence, size, subject, time,
        expiry or 0, previous, offset from the first record, length). True when `most` or `last` stopped it.
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data), ttl
        cdef hr_record_t r
        self._begin()
        while True:
            if not self._step(p, n, final, &r):
                return False
            if r.kind != MESSAGE or r.sequence < first:
                continue
            if r.sequence > last or len(out) >= most:
                self._stop(&r)
                return True
            if r.sequence < floor or removed.has(r.sequence) or not self._wanted(filters, &r):
                continue
            ttl = 8 if r.flags & HAS_TTL else 0
            found = hr_new_tuple(<PyTypeObject *> make, 8)
            put(found, 0, r.sequence)
            put(found, 1, self._weight(&r) - ttl)
            put(found, 2, PyBytes_FromStringAndSize(self._body + ttl, r.subject))
            put(found, 3, r.time)
            put(found, 4, expires(self._body, &r) if ttl else 0)
            put(found, 5, r.previous)
            put(found, 6, self.base + self.at - HEAD - r.body)
            put(found, 7, HEAD + r.body)
            out.append(found)

    def tally(self, bytes data, bint final, uint64_t first, uint64_t last, object filters,
              SequenceSet removed, uint64_t floor) -> bool:
        """Adds to `messages` how many live ones from `first` to `last` match. True when `last` stopped it."""
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data)
        cdef hr_record_t r
        self._begin()
        while self._step(p, n, final, &r):
            if r.kind != MESSAGE or r.sequence < first:
                continue
            if r.sequence > last:
                self._stop(&r)
                return True
            if r.sequence >= floor and not removed.has(r.sequence) and self._wanted(filters, &r):
                self.messages += 1
        return False

    def removals(self, bytes data, bint final, SequenceSet removed, uint64_t widest) -> int:
        """Adds what records of ranges say to `removed` and `ranges`, and raises `floor`; gives how many such
        records there were. A range of more than `widest` sequences is not believed: no log holds as many. Nor is a
        removal by limits behind damage: the message that had no room beside what was removed may be the one that was
        lost. A segment before this one was synced before this one was begun, so it is not looked at.
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data), known = len(self.ranges)
        cdef hr_record_t r
        cdef int found = 0
        self._begin()
        while self._step(p, n, final, &r):
            self.last_time = max(self.last_time, r.time)
            if r.flags & BY_LIMITS and (r.kind == FLOOR or r.kind == RANGES) and self.damaged:
                found += 1
            elif r.kind == FLOOR:
                self.floor = max(self.floor, r.sequence)
                found += 1
            elif r.kind == RANGES:
                found += 1
                self._pairs(self.ranges, widest)
            elif r.kind == SEGMENTS:
                self._pairs(self.segments, LAST_SEQUENCE)
            elif r.kind != HEADER:
                self.last_message = r.sequence
        for first, last in self.ranges[known:]:
            removed.put(first, last)
        return found

    cdef int _pairs(self, list found, uint64_t widest) except -1:
        """Adds the pairs of the body at hand, but for ranges that cannot be."""
        cdef size_t i
        cdef uint64_t first, second
        for i in range(0, self._body_n, 16):
            first = hr_get64(self._body + i)
            second = hr_get64(self._body + i + 8)
            if widest == LAST_SEQUENCE or (first <= second and second - first < widest):
                found.append((first, second))
        return 0

    def survivors(self, bytes data, bint final, SequenceSet removed, uint64_t floor) -> bytes:
        """The records of live messages as they are, or without their seal where there is an opener; what others say
        goes to `ranges` and `segments`.
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data), start = 0, end = 0, begin
        cdef hr_record_t r
        parts = []
        self._begin()
        while self._step(p, n, final, &r):
            if r.kind == RANGES:
                self._pairs(self.ranges, LAST_SEQUENCE)
            elif r.kind == SEGMENTS:
                self._pairs(self.segments, LAST_SEQUENCE)
            if r.kind == MESSAGE or r.kind == ERASED:
                self.last_message = r.sequence
                self.last_time = max(self.last_time, r.time)
            if r.kind != MESSAGE or r.sequence < floor or removed.has(r.sequence):
                continue
            begin = self.at - HEAD - r.body
            if r.flags & SEALED and self._opener is not None:
                parts.append(PyBytes_FromStringAndSize(p + start, end - start))
                parts.append(self._unsealed(&r))
                start = end = self.at
                continue
            if begin != end:
                parts.append(PyBytes_FromStringAndSize(p + start, end - start))
                start = begin
            end = self.at
        parts.append(PyBytes_FromStringAndSize(p + start, end - start))
        return b"".join(parts)

    def resealed(self, bytes data, bytes header, sealer=None, uint32_t overhead=0, bint blanks=False) -> bytes:
        """All records of a segment with the bodies of messages sealed once more, by `sealer(plain, header)` that adds
        `overhead` bytes, and `header` in the place of the record of the segment's header. What cannot be read stays
        byte for byte; with `blanks` it becomes zeros. Without a sealer bodies stay as they are.
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data), start = 0, behind = 0, begin
        cdef hr_record_t r
        parts = []
        self._begin()
        while self._step(p, n, True, &r):
            begin = self.at - HEAD - r.body
            if blanks and behind < begin:
                parts.append(PyBytes_FromStringAndSize(p + start, behind - start))
                parts.append(bytes(begin - behind))
                start = begin
            behind = self.at
            if r.kind == HEADER:
                again = header
            elif r.kind == MESSAGE and sealer is not None:
                again = self._sealed(&r, sealer, overhead)
            else:
                continue
            parts.append(PyBytes_FromStringAndSize(p + start, begin - start))
            parts.append(again)
            start = self.at
        if blanks:
            parts.append(PyBytes_FromStringAndSize(p + start, behind - start))
            parts.append(bytes(n - behind))
        else:
            parts.append(PyBytes_FromStringAndSize(p + start, n - start))
        return b"".join(parts)

    cdef bytes _sealed(self, hr_record_t *found, sealer, uint32_t overhead):
        """The record at hand with its body sealed."""
        cdef hr_record_t r = found[0]
        cdef bytes out = PyBytes_FromStringAndSize(NULL, HEAD + self._body_n + overhead)
        r.flags |= SEALED
        r.body = <uint32_t> (self._body_n + overhead)
        close_header(PyBytes_AS_STRING(out), &r, self._salt)
        sealed = sealer(PyBytes_FromStringAndSize(self._body, self._body_n),
                        PyBytes_FromStringAndSize(PyBytes_AS_STRING(out) + 8, HEAD - 8))
        if <size_t> len(sealed) != r.body:
            raise ValueError("a sealed body has not the length that was announced")
        memcpy(PyBytes_AS_STRING(out) + HEAD, PyBytes_AS_STRING(sealed), r.body)
        r.body_crc = hr_crc(self._salt, PyBytes_AS_STRING(out) + HEAD, r.body)
        close_header(PyBytes_AS_STRING(out), &r, self._salt)
        return out

    cdef bytes _unsealed(self, hr_record_t *sealed):
        """The record at hand with its plain body."""
        cdef hr_record_t r = sealed[0]
        cdef bytes out = PyBytes_FromStringAndSize(NULL, HEAD + self._body_n)
        r.flags &= ~SEALED
        r.body = <uint32_t> self._body_n
        r.body_crc = hr_crc(self._salt, self._body, self._body_n)
        memcpy(PyBytes_AS_STRING(out) + HEAD, self._body, self._body_n)
        close_header(PyBytes_AS_STRING(out), &r, self._salt)
        return out

    def withdraw(self, bytes data, bint final, SubjectIndex table, SequenceSet removed, uint64_t floor,
                 SequenceSet gone, uint64_t new_floor) -> int:
        """Takes messages out of `table` that are live by `removed` and `floor` and not any more by `gone` and
        `new_floor`; they are in the counts that `census` has too. Gives how many of them `gone` named.
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data), ttl
        cdef hr_record_t r
        cdef int named = 0
        self._begin()
        while self._step(p, n, final, &r):
            if r.kind != MESSAGE or r.sequence < floor or removed.has(r.sequence):
                continue
            if r.sequence >= new_floor:
                if not gone.has(r.sequence):
                    continue
                named += 1
            ttl = 8 if r.flags & HAS_TTL else 0
            self.expiring += ttl != 0
            self.messages += 1
            self.message_bytes += self._weight(&r) - ttl
            self.record_bytes += HEAD + r.body
            table.take(self._body + ttl, r.subject, r.sequence, r.previous)
        return named

    def drop(self, bytes data, bint final, SubjectIndex table, SequenceSet removed, uint64_t floor,
             uint64_t messages, uint64_t size, uint64_t most) -> bool:
        """Takes the first live messages out of `table`, until so many and so many bytes of them, but no more than
        `most`, are in the counts that `census` has too; `last_message` is the last one. True when that or damage
        stopped it: what lies behind damage is left for a closer look.
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data), ttl
        cdef hr_record_t r
        self._begin()
        while self._step(p, n, final, &r):
            if r.kind != MESSAGE or r.sequence < floor or removed.has(r.sequence):
                continue
            if self.damaged or self.messages >= most or (self.messages >= messages and self.message_bytes >= size):
                self._stop(&r)
                return True
            ttl = 8 if r.flags & HAS_TTL else 0
            self.expiring += ttl != 0
            self.messages += 1
            self.message_bytes += self._weight(&r) - ttl
            self.record_bytes += HEAD + r.body
            self.last_message = r.sequence
            table.take(self._body + ttl, r.subject, r.sequence, r.previous)
        return False

    def census(self, bytes data, bint final, SubjectIndex table, SequenceSet removed, uint64_t floor,
               uint64_t marked, uint64_t spacing) -> list:
        """Counts the live messages, in `table` too, and gives marks for the sparse index.

        A mark is [offset, sequence, time, first expiry before the next mark]; there is one for the first
        message at least `spacing` bytes behind the last (`marked`: its offset).
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data), ttl
        cdef uint64_t offset
        cdef int64_t expiry
        cdef hr_record_t r
        cdef list mark = None
        marks = []
        self._begin()
        while self._step(p, n, final, &r):
            self.last_time = max(self.last_time, r.time)
            if r.kind != MESSAGE:
                if r.kind == ERASED:
                    self.last_message = r.sequence
                continue
            self.last_message = r.sequence
            offset = self.base + self.at - HEAD - r.body
            if offset >= marked + spacing:
                marked = offset
                mark = [offset, r.sequence, r.time, LONGEST]
                marks.append(mark)
            if r.sequence < floor or removed.has(r.sequence):
                continue
            ttl = 8 if r.flags & HAS_TTL else 0
            if ttl:
                self.expiring += 1
                expiry = expires(self._body, &r)
                if mark is None:
                    self.expiry = min(self.expiry, expiry)
                elif expiry < <int64_t> mark[3]:
                    mark[3] = expiry
            self.messages += 1
            self.message_bytes += self._weight(&r) - ttl
            self.record_bytes += HEAD + r.body
            table.count_in(self._body + ttl, r.subject, r.sequence)
        return marks


cdef int64_t expires(const char *body, hr_record_t *r) noexcept:
    """The time at which a message with a TTL expires; never beyond the end of time."""
    cdef uint64_t ttl = hr_get64(body)
    if ttl > <uint64_t> (LONGEST - r.time):
        return LONGEST
    return r.time + <int64_t> ttl
