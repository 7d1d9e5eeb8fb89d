# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Message blocks as nats-server writes them: the records in one, their checksums, what is damaged.

A record; numbers are little-endian, nothing is aligned:

     0  u32  length of the whole record; the highest bit says that there are headers
     4  u64  sequence; bit 63: the message was erased, or the sequence passed over; bit 62: a tombstone, which
             says that this sequence is deleted, wherever its record is
    12  i64  time, ns since 1970
    20  u16  length of the subject
    22       subject, [u32 length of the headers, headers], payload
             HighwayHash-64 of bytes 4 to 19, subject, headers and payload, keyed by the block

HighwayHash is here a checksum, with a key that everybody knows: it tells damage, not forgery. Every length is
checked before it is used. What is damaged is stepped over: where the length of a damaged record leads to a whole
record or to the end it is believed; else the next whole record is looked for, byte by byte. Bytes at random look
like the head of a record here and there; so that a block of them takes no minutes, a long record must have another
one, or the end, behind it, and the search ends when HASHED_TIMES the bytes of the block were hashed in vain.
Source: nats-server 2.15 (filestore.go); the description of HighwayHash, portable form.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    HEAD = 22
    SUM = 8
    SMALLEST = HEAD + SUM
    LARGEST = 32 << 20           # what nats-server takes for possible
    KEY = 32
    PACKET = 32
    SHORT = 64 << 10             # bytes of a record that needs no other one behind it
    HASHED_TIMES = 32            # as many times the bytes of a block are hashed in vain at most

cdef uint32_t HEADED = <uint32_t>1 << 31
cdef uint64_t ERASED = <uint64_t>1 << 63
cdef uint64_t TOMBSTONE = <uint64_t>1 << 62

MESSAGE = 0
GONE = 1
DELETES = 2

cdef struct hash_t:
    uint64_t v0[4]
    uint64_t v1[4]
    uint64_t m0[4]
    uint64_t m1[4]
    uint8_t waiting[PACKET]
    size_t held

cdef struct record_t:
    uint32_t length
    uint64_t sequence
    int64_t time
    uint32_t subject
    uint32_t headers             # their length, and where the body begins
    uint32_t body
    bint headed


# ---- HighwayHash ---------------------------------------------------------------------------------

cdef inline uint64_t load64(const uint8_t *p) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, p, 8)
    return v


cdef inline uint64_t halves(uint64_t v) noexcept nogil:
    return v >> 32 | v << 32


cdef void hash_begin(hash_t *h, const uint8_t *key) noexcept nogil:
    cdef int i
    cdef uint64_t word
    h.m0[0] = 0xdbe6d5d5fe4cce2fULL
    h.m0[1] = 0xa4093822299f31d0ULL
    h.m0[2] = 0x13198a2e03707344ULL
    h.m0[3] = 0x243f6a8885a308d3ULL
    h.m1[0] = 0x3bd39e10cb0ef593ULL
    h.m1[1] = 0xc0acf169b5f18a8cULL
    h.m1[2] = 0xbe5466cf34e90c6cULL
    h.m1[3] = 0x452821e638d01377ULL
    for i in range(4):
        word = load64(key + 8 * i)
        h.v0[i] = h.m0[i] ^ word
        h.v1[i] = h.m1[i] ^ halves(word)
    h.held = 0


cdef inline void zipper(uint64_t b, uint64_t a, uint64_t *to_b, uint64_t *to_a) noexcept nogil:
    to_a[0] += (
        ((a & 0xff000000ULL) | (b & 0xff00000000ULL)) >> 24
        | ((a & 0xff0000000000ULL) | (b & 0xff000000000000ULL)) >> 16
        | (a & 0xff0000ULL) | (a & 0xff00ULL) << 32 | (b & 0xff00000000000000ULL) >> 8 | a << 56
    )
    to_b[0] += (
        ((b & 0xff000000ULL) | (a & 0xff00000000ULL)) >> 24
        | (b & 0xff0000ULL) | (b & 0xff0000000000ULL) >> 16 | (b & 0xff00ULL) << 24
        | (a & 0xff000000000000ULL) >> 8 | (b & 0xffULL) << 48 | (a & 0xff00000000000000ULL)
    )


cdef void hash_words(hash_t *h, uint64_t a, uint64_t b, uint64_t c, uint64_t d) noexcept nogil:
    cdef uint64_t words[4]
    cdef int i
    words[0], words[1], words[2], words[3] = a, b, c, d
    for i in range(4):
        h.v1[i] += h.m0[i] + words[i]
        h.m0[i] ^= (h.v1[i] & 0xffffffffULL) * (h.v0[i] >> 32)
        h.v0[i] += h.m1[i]
        h.m1[i] ^= (h.v0[i] & 0xffffffffULL) * (h.v1[i] >> 32)
    zipper(h.v1[1], h.v1[0], &h.v0[1], &h.v0[0])
    zipper(h.v1[3], h.v1[2], &h.v0[3], &h.v0[2])
    zipper(h.v0[1], h.v0[0], &h.v1[1], &h.v1[0])
    zipper(h.v0[3], h.v0[2], &h.v1[3], &h.v1[2])


cdef inline void hash_packet(hash_t *h, const uint8_t *p) noexcept nogil:
    hash_words(h, load64(p), load64(p + 8), load64(p + 16), load64(p + 24))


cdef void hash_add(hash_t *h, const uint8_t *p, size_t n) noexcept nogil:
    cdef size_t part
    if h.held:
        part = min(PACKET - h.held, n)
        memcpy(h.waiting + h.held, p, part)
        h.held += part
        p += part
        n -= part
        if h.held < PACKET:
            return
        hash_packet(h, h.waiting)
        h.held = 0
    while n >= PACKET:
        hash_packet(h, p)
        p += PACKET
        n -= PACKET
    memcpy(h.waiting, p, n)
    h.held = n


cdef uint64_t hash_end(hash_t *h) noexcept nogil:
    cdef uint8_t packet[PACKET]
    cdef size_t n = h.held, whole = n & ~<size_t>3, odd = n & 3
    cdef const uint8_t *rest = h.waiting + whole
    cdef uint32_t low, high
    cdef int i
    if n:
        memset(packet, 0, PACKET)
        for i in range(4):
            h.v0[i] += (<uint64_t>n << 32) + n
            low, high = <uint32_t>h.v1[i], <uint32_t>(h.v1[i] >> 32)
            low = low << n | low >> (32 - n)
            high = high << n | high >> (32 - n)
            h.v1[i] = <uint64_t>high << 32 | low
        memcpy(packet, h.waiting, whole)
        if n & 16:
            for i in range(4):
                packet[28 + i] = h.waiting[n - 4 + i]
        elif odd:
            packet[16] = rest[0]
            packet[17] = rest[odd >> 1]
            packet[18] = rest[odd - 1]
        hash_packet(h, packet)
    for i in range(4):
        hash_words(h, halves(h.v0[2]), halves(h.v0[3]), halves(h.v0[0]), halves(h.v0[1]))
    return h.v0[0] + h.v1[0] + h.m0[0] + h.m1[0]


cdef const uint8_t *key_of(bytes key) except NULL:
    if len(key) != KEY:
        raise ValueError("a key has 32 bytes")
    return <const uint8_t *>key


def checksum(bytes key, const uint8_t[::1] data not None):
    """The HighwayHash-64 of data, eight bytes. Raises: ValueError for a key that has not 32."""
    cdef hash_t h
    cdef uint64_t value
    hash_begin(&h, key_of(key))
    if data.shape[0]:
        hash_add(&h, &data[0], data.shape[0])
    value = hash_end(&h)
    return PyBytes_FromStringAndSize(<char *>&value, SUM)


# ---- records -------------------------------------------------------------------------------------

cdef bint head_at(const uint8_t *p, size_t left, record_t *r) noexcept nogil:
    """True if a record may begin here, by its lengths."""
    cdef uint32_t length, inner
    cdef uint16_t subject
    if left < SMALLEST:
        return False
    memcpy(&length, p, 4)
    memcpy(&r.sequence, p + 4, 8)
    memcpy(&r.time, p + 12, 8)
    memcpy(&subject, p + 20, 2)
    r.headed = (length & HEADED) != 0
    r.length = length & ~HEADED
    r.subject = subject
    if r.length < SMALLEST or r.length > LARGEST or r.length > left:
        return False
    inner = r.length - SMALLEST
    if r.subject + (4 if r.headed else 0) > inner:
        return False
    r.headers = 0
    r.body = HEAD + r.subject
    if r.headed:
        memcpy(&r.headers, p + r.body, 4)
        r.body += 4
    return True


cdef bint is_whole(const uint8_t *p, const record_t *r, const uint8_t *key) noexcept nogil:
    """True if the checksum of the record is right, and its headers lie within it."""
    cdef hash_t h
    hash_begin(&h, key)
    hash_add(&h, p + 4, 16)
    hash_add(&h, p + HEAD, r.subject)
    hash_add(&h, p + r.body, r.length - SUM - r.body)
    if hash_end(&h) != load64(p + r.length - SUM):
        return False
    return r.sequence & (ERASED | TOMBSTONE) != 0 or r.headers <= r.length - SUM - r.body


cdef bint hash_holds(const uint8_t *p, const record_t *r, const uint8_t *key, uint64_t *left) noexcept nogil:
    """True if the record is whole; if not, its bytes are subtracted from what may yet be hashed in vain."""
    if r.length > left[0]:
        return False
    if is_whole(p, r, key):
        return True
    left[0] -= r.length
    return False


cdef bint whole_at(const uint8_t *p, size_t n, const uint8_t *key, record_t *r, uint64_t *left) noexcept nogil:
    return head_at(p, n, r) and hash_holds(p, r, key, left)


cdef size_t next_whole(const uint8_t *p, size_t at, size_t size, const uint8_t *key, uint64_t *left) noexcept nogil:
    """Find the offset of the next whole record after damage at `at`; `size`: there is none."""
    cdef record_t r, behind
    cdef size_t after, end
    if head_at(p + at, size - at, &r):
        after = at + r.length
        if after == size or whole_at(p + after, size - after, key, &behind, left):
            return after
    for after in range(at + 1, size):
        if not head_at(p + after, size - after, &r):
            continue
        end = after + r.length
        if r.length > SHORT and end != size and not head_at(p + end, size - end, &behind):
            continue
        if r.length > left[0]:
            return size
        if hash_holds(p + after, &r, key, left):
            return after
    return size


cdef object entry(const uint8_t *p, const record_t *r, bint bodies):
    cdef uint64_t sequence = r.sequence
    cdef uint32_t end = r.length - SUM
    if sequence & TOMBSTONE:
        return DELETES, sequence & ~(ERASED | TOMBSTONE), r.time, b"", b"", b""
    if sequence & ERASED or sequence == 0:
        return GONE, sequence & ~ERASED, r.time, b"", b"", b""
    if not bodies:
        return MESSAGE, sequence, r.time, b"", b"", b""
    return (
        MESSAGE, sequence, r.time,
        PyBytes_FromStringAndSize(<char *>p + HEAD, r.subject),
        PyBytes_FromStringAndSize(<char *>p + r.body, r.headers),
        PyBytes_FromStringAndSize(<char *>p + r.body + r.headers, end - r.body - r.headers),
    )


def scan(bytes key, const uint8_t[::1] block not None, bint bodies=True):
    """The records of a block and its damaged places.

    A record is (`MESSAGE`, `GONE` or `DELETES`, sequence, ns since 1970, subject, headers, payload), the last
    three empty without `bodies` and for what is no message. A place is (offset, length, how many records are
    before it, whether the block ends within a record). Raises: ValueError for a key that has not 32 bytes.
    """
    cdef const uint8_t *k = key_of(key)
    cdef size_t size = block.shape[0], at = 0, on
    cdef uint64_t left = <uint64_t>size * HASHED_TIMES  # bytes that may yet be hashed in vain
    cdef const uint8_t *p
    cdef record_t r
    cdef list records = [], places = []
    if size == 0:
        return records, places
    p = &block[0]
    while at < size:
        if whole_at(p + at, size - at, k, &r, &left):
            records.append(entry(p + at, &r, bodies))
            at += r.length
            continue
        with nogil:
            on = next_whole(p, at, size, k, &left)
        places.append((at, on - at, len(records), on == size and not head_at(p + at, size - at, &r)))
        at = on
    return records, places
