# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""S2, the compression of connections between servers: streams of chunks, and the blocks in them.

**A stream** is chunks of a type (one byte), a length (three, little endian, of what follows), and a body:

    ff  identifier: "S2sTwO" (blocks of up to 4 MiB) or "sNaPpY" (64 KiB); first, and wherever one begins anew
    00  compressed: masked CRC32C of the data (four bytes), a block
    01  uncompressed: masked CRC32C, the data
    02 to 7f  unknown, and cannot be left out: an error
    80 to fe  padding, an index, anything else: left out

**A block** is the length of its data as a varint, then elements. The two low bits of the first byte say which:

    0  literal: length - 1 in the six others; 60 to 63: in the next one to four bytes
    1  copy: length - 4 (three bits), offset (eleven bits: three here, eight in the next byte). Offset 0: that of
       the last copy; length - 4 from 5 on then stands for 4 + a byte, 256 + two bytes, 65536 + three bytes
    2  copy: length - 1 (six bits), offset in two bytes
    3  copy: length - 1, offset in four bytes

Bytes come from a peer: every length and offset is checked against what is there before it is used, a chunk is
refused for its length before it is waited for, and nothing is given on whose checksum is wrong. What is written
are blocks of up to 64 KiB by one greedy matcher, as chunks of their own: whoever reads may do so at each flush.
Source: the Snappy framing format, and the public description of S2.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.checksum cimport hr_crc, hr_crc_prepare
from headrace.engine.memory cimport buf_append, buf_free, buf_reserve, give, take
from headrace.engine.structs cimport HR_GUARD, buf_t, s2_t

hr_crc_prepare()

cdef enum:
    HEAD = 4                     # of a chunk
    SUM = 4                      # bytes of a checksum
    CHUNK_COMPRESSED = 0x00
    CHUNK_UNCOMPRESSED = 0x01
    CHUNK_SKIPPABLE = 0x80       # from here on
    CHUNK_IDENTIFIER = 0xff
    IDENTIFIER = 6
    MAX_BLOCK = 4 << 20
    MAX_SNAPPY_BLOCK = 64 << 10
    BLOCK = 64 << 10             # of what is written
    KEPT = 64 << 10              # a buffer that is empty keeps no more
    MARGIN = 15                  # nothing is looked for so close to the end: four bytes can be read anywhere
    TABLE_BITS = 14
    MIN_TABLE_BITS = 8

    ERROR_NONE = 0
    ERROR_NO_IDENTIFIER = 1
    ERROR_IDENTIFIER = 2
    ERROR_CHUNK_TYPE = 3
    ERROR_CHUNK_LENGTH = 4
    ERROR_BLOCK_LENGTH = 5
    ERROR_BLOCK = 6
    ERROR_CHECKSUM = 7

cdef dict TEXTS = {
    ERROR_NO_IDENTIFIER: "the stream does not begin with its identifier",
    ERROR_IDENTIFIER: "an identifier is not that of S2",
    ERROR_CHUNK_TYPE: "a chunk is of an unknown type",
    ERROR_CHUNK_LENGTH: "a chunk has an impossible length",
    ERROR_BLOCK_LENGTH: "a block is too large",
    ERROR_BLOCK: "a block is corrupt",
    ERROR_CHECKSUM: "a checksum does not match",
}

cdef const char *S2_MAGIC = b"S2sTwO"
cdef const char *SNAPPY_MAGIC = b"sNaPpY"


# ---- numbers ------------------------------------------------------------------------------------

cdef inline uint32_t load32(const uint8_t *p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)
    return v


cdef inline uint32_t masked(const void *data, size_t n) noexcept nogil:
    """The checksum of data as chunks have it."""
    cdef uint32_t c = hr_crc(0, data, n)
    return (c >> 15 | c << 17) + <uint32_t> 0xA282EAD8


cdef inline size_t bound(size_t n) noexcept nogil:
    """No block of n bytes of data is longer than that."""
    return 32 + n + n // 6


cdef inline uint32_t little(const uint8_t *p, int n) noexcept nogil:
    cdef uint32_t v = 0
    cdef int i
    for i in range(n):
        v |= <uint32_t> p[i] << (8 * i)
    return v


cdef inline uint8_t *put_little(uint8_t *p, uint32_t v, int n) noexcept nogil:
    cdef int i
    for i in range(n):
        p[i] = <uint8_t> (v >> (8 * i))
    return p + n


# ---- blocks: decoding ---------------------------------------------------------------------------

cdef int64_t data_length(const uint8_t *src, size_t n, size_t *at) noexcept nogil:
    """Return the length of a block's data, -1 if it does not say; `at`: the offset of its elements."""
    cdef int64_t length = 0
    cdef size_t i
    for i in range(5):
        if i == n:
            return -1
        length |= <int64_t> (src[i] & 0x7F) << (7 * i)
        if src[i] < 0x80:
            at[0] = i + 1
            return length if length >> 32 == 0 else -1
    return -1


cdef inline void copy_within(uint8_t *d, size_t offset, size_t length) noexcept nogil:
    """d[:length] = what stands `offset` before, which may reach into itself."""
    cdef size_t i = 0, n
    while i < length:  # always whole repetitions, and what was copied can be copied again
        n = min(offset + i, length - i)
        memcpy(d + i, d - offset, n)
        i += n


cdef bint decode(const uint8_t *src, size_t n, uint8_t *dst, size_t size) noexcept nogil:
    """Elements to exactly `size` bytes of data; False when they are not that."""
    cdef size_t s = 0, d = 0, length, offset = 0, more
    cdef uint8_t tag
    while s < n:
        tag = src[s]
        s += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                more = length - 59
                if more > n - s:
                    return False
                length = little(src + s, <int> more)
                s += more
            length += 1
            if length > n - s or length > size - d:
                return False
            memcpy(dst + d, src + s, length)
            s += length
            d += length
            continue
        if tag & 3 == 1:
            if s == n:
                return False
            more = <size_t> (tag & 0xE0) << 3 | src[s]
            s += 1
            length = tag >> 2 & 7
            if more:
                offset = more
            elif length >= 5:
                more = length - 4
                if more > n - s:
                    return False
                length = little(src + s, <int> more) + (4 if more == 1 else 256 if more == 2 else 65536)
                s += more
            length += 4
        else:
            more = 2 if tag & 3 == 2 else 4
            if more > n - s:
                return False
            length = <size_t> (tag >> 2) + 1
            offset = little(src + s, <int> more)
            s += more
        if offset == 0 or offset > d or length > size - d:
            return False
        copy_within(dst + d, offset, length)
        d += length
    return d == size


# ---- blocks: encoding ---------------------------------------------------------------------------

cdef inline uint8_t *put_literal(uint8_t *p, const uint8_t *data, size_t n) noexcept nogil:
    cdef uint32_t less = <uint32_t> n - 1
    if less < 60:
        p[0] = <uint8_t> (less << 2)
        p += 1
    elif less < 256:
        p[0] = 60 << 2
        p[1] = <uint8_t> less
        p += 2
    else:
        p[0] = 61 << 2
        p = put_little(p + 1, less, 2)
    memcpy(p, data, n)
    return p + n


cdef inline uint8_t *put_copy(uint8_t *p, uint32_t offset, size_t n) noexcept nogil:
    """`offset` below 65536, n from 4 on."""
    cdef uint32_t first, rest
    if n < 12 and offset < 2048:
        p[0] = <uint8_t> (1 | (n - 4) << 2 | (offset >> 8) << 5)
        p[1] = <uint8_t> offset
        return p + 2
    first = <uint32_t> n if n <= 64 else 60  # so that at least five are left for what repeats it
    p[0] = <uint8_t> (2 | (first - 1) << 2)
    p = put_little(p + 1, offset, 2)
    if n == first:
        return p
    rest = <uint32_t> (n - first) - 4
    p[1] = 0
    if rest <= 4:
        p[0] = <uint8_t> (1 | rest << 2)
        return p + 2
    if rest < 260:
        p[0] = 1 | 5 << 2
        return put_little(p + 2, rest - 4, 1)
    p[0] = 1 | 6 << 2
    return put_little(p + 2, rest - 256, 2)


cdef inline uint32_t hash32(uint32_t v, int shift) noexcept nogil:
    return (v * <uint32_t> 0x1E35A7BD) >> shift


cdef size_t encode(const uint8_t *src, size_t n, uint8_t *dst) noexcept nogil:
    """A block of up to BLOCK bytes of data, at `dst` with room for bound(n); its length."""
    cdef uint16_t table[1 << TABLE_BITS]
    cdef uint8_t *p = dst
    cdef size_t at = 1, following, emitted = 0, limit, found, base
    cdef uint32_t hash, skip, left = <uint32_t> n
    cdef int bits = MIN_TABLE_BITS, shift
    while left >= 0x80:
        p[0] = <uint8_t> (left | 0x80)
        p += 1
        left >>= 7
    p[0] = <uint8_t> left
    p += 1
    if n > MARGIN + 2:
        while bits < TABLE_BITS and <size_t> 1 << bits < n:
            bits += 1
        shift = 32 - bits
        memset(table, 0, sizeof(uint16_t) << bits)
        limit = n - MARGIN
        hash = hash32(load32(src + 1), shift)
        while True:
            skip = 32
            following = at
            while True:  # the longer nothing is found, the larger the steps
                at = following
                following = at + (skip >> 5)
                skip += skip >> 5
                if following > limit:
                    break
                found = table[hash]
                table[hash] = <uint16_t> at
                hash = hash32(load32(src + following), shift)
                if load32(src + at) == load32(src + found):
                    break
            if following > limit:
                break
            p = put_literal(p, src + emitted, at - emitted)
            while True:
                base = at
                at += 4
                found += 4
                while at < n and src[at] == src[found]:
                    at += 1
                    found += 1
                p = put_copy(p, <uint32_t> (at - found), at - base)
                emitted = at
                if at >= limit:
                    break
                table[hash32(load32(src + at - 1), shift)] = <uint16_t> (at - 1)
                hash = hash32(load32(src + at), shift)
                found = table[hash]
                table[hash] = <uint16_t> at
                if load32(src + at) != load32(src + found):
                    at += 1
                    hash = hash32(load32(src + at), shift)
                    break
            if at >= limit:
                break
    if emitted < n:
        p = put_literal(p, src + emitted, n - emitted)
    return p - dst


# ---- streams ------------------------------------------------------------------------------------

cdef s2_t *new_s2(int level) except NULL:
    """Return the state of a new connection. `level` 0: what is written stays uncompressed."""
    cdef s2_t *c = <s2_t *> take(sizeof(s2_t))
    memset(c, 0, sizeof(s2_t))
    c.level = level
    return c


cdef void free_s2(s2_t *c) noexcept:
    if c != NULL:
        buf_free(&c.raw)
        buf_free(&c.plain)
        give(c)


cdef str s2_error(s2_t *c):
    """Return the text of the stream's error."""
    return TEXTS[c.error]


cdef int broken(s2_t *c, int error) noexcept:
    c.error = error
    return S2_BROKEN


cdef int keep(s2_t *c) noexcept:
    """Gives up room that nothing needs now."""
    if c.raw.start == c.raw.end:
        c.raw.start = c.raw.end = 0
        if c.raw.cap > KEPT:
            buf_free(&c.raw)
    return S2_MORE


cdef int next_chunk(s2_t *c) except -1:
    """Decodes on in `raw`, until a chunk has given data to `plain`, more has to come, or it is broken for good."""
    cdef uint8_t *p
    cdef size_t have, length
    cdef int got
    if c.error:
        return S2_BROKEN
    if c.plain.cap > KEPT:
        buf_free(&c.plain)
    c.plain.start = c.plain.end = 0
    while True:
        have = c.raw.end - c.raw.start
        if c.skip:
            length = min(have, c.skip)
            c.raw.start += length
            c.skip -= length
            have -= length
        if have < HEAD:
            return keep(c)
        p = <uint8_t *> c.raw.data + c.raw.start
        length = little(p + 1, 3)
        if p[0] == CHUNK_IDENTIFIER:
            if length != IDENTIFIER:
                return broken(c, ERROR_IDENTIFIER)
            if have < HEAD + IDENTIFIER:
                return S2_MORE
            if memcmp(p + HEAD, S2_MAGIC, IDENTIFIER) == 0:
                c.max_block = MAX_BLOCK
            elif memcmp(p + HEAD, SNAPPY_MAGIC, IDENTIFIER) == 0:
                c.max_block = MAX_SNAPPY_BLOCK
            else:
                return broken(c, ERROR_IDENTIFIER)
            c.raw.start += HEAD + IDENTIFIER
        elif c.max_block == 0:
            return broken(c, ERROR_NO_IDENTIFIER)
        elif p[0] >= CHUNK_SKIPPABLE:
            c.raw.start += HEAD
            c.skip = length
        elif p[0] > CHUNK_UNCOMPRESSED:
            return broken(c, ERROR_CHUNK_TYPE)
        else:
            if length < SUM or length - SUM > (c.max_block if p[0] else bound(c.max_block)):
                return broken(c, ERROR_CHUNK_LENGTH)
            if have < HEAD + length:
                return S2_MORE
            c.raw.start += HEAD + length
            got = take_data(c, p[0], p + HEAD, length)
            if got != S2_MORE:
                return got


cdef int take_data(s2_t *c, uint8_t kind, const uint8_t *body, size_t n) except -1:
    """One whole chunk with data; S2_MORE: it had none."""
    cdef size_t at = 0
    cdef int64_t size = n - SUM
    if kind == CHUNK_COMPRESSED:
        size = data_length(body + SUM, n - SUM, &at)
        if size < 0:
            return broken(c, ERROR_BLOCK)
        if size > c.max_block:
            return broken(c, ERROR_BLOCK_LENGTH)
    buf_reserve(&c.plain, max(size, 1))  # so that it is somewhere
    if kind == CHUNK_UNCOMPRESSED:
        memcpy(c.plain.data, body + SUM, size)
    elif not decode(body + SUM + at, n - SUM - at, <uint8_t *> c.plain.data, size):
        return broken(c, ERROR_BLOCK)
    if masked(c.plain.data, size) != little(body, SUM):
        return broken(c, ERROR_CHECKSUM)
    c.plain.end = size
    return S2_DATA if size else S2_MORE


cdef int compress(s2_t *c, const char *data, size_t n, buf_t *out) except -1:
    """Appends chunks that say this data, and before the first ones the identifier."""
    cdef size_t part, length
    cdef uint8_t *p
    if not c.has_begun:
        buf_append(out, b"\xff\x06\x00\x00S2sTwO", HEAD + IDENTIFIER)
        c.has_begun = True
    while n:
        part = min(n, <size_t> BLOCK)
        buf_reserve(out, HEAD + SUM + bound(part))
        p = <uint8_t *> out.data + out.end
        length = encode(<const uint8_t *> data, part, p + HEAD + SUM) if c.level else part
        if length >= part - part // 8:  # not worth the other side's time
            p[0] = CHUNK_UNCOMPRESSED
            length = part
            memcpy(p + HEAD + SUM, data, part)
        else:
            p[0] = CHUNK_COMPRESSED
        put_little(p + 1, <uint32_t> (SUM + length), 3)
        put_little(p + HEAD, masked(data, part), SUM)
        out.end += HEAD + SUM + length
        HR_GUARD(out.end <= out.cap)
        data += part
        n -= part
    return 0


cdef int compress_tail(s2_t *c, buf_t *out) except -1:
    """Compress the bytes that were written to an outbox since the last call (behind `ready`)."""
    cdef buf_t packed
    cdef size_t plain = out.end - out.start - c.ready
    if plain == 0:
        return 0
    memset(&packed, 0, sizeof(buf_t))
    try:
        compress(c, out.data + out.end - plain, plain, &packed)
        out.end -= plain
        buf_append(out, packed.data, packed.end)
    finally:
        buf_free(&packed)
    c.ready = out.end - out.start
    return 0


# ---- for tests and tools ------------------------------------------------------------------------

def decode_block(bytes block not None, size_t limit=MAX_BLOCK):
    """The data of one block. Raises: ValueError when it is corrupt, or more than `limit` bytes."""
    cdef const uint8_t *src = <const uint8_t *> <const char *> block
    cdef size_t at = 0
    cdef int64_t size = data_length(src, len(block), &at)
    cdef bytearray found
    if size < 0 or size > <int64_t> limit:
        raise ValueError(TEXTS[ERROR_BLOCK] if size < 0 else TEXTS[ERROR_BLOCK_LENGTH])
    found = bytearray(size)
    if not decode(src + at, len(block) - at, <uint8_t *> <char *> found, size):
        raise ValueError(TEXTS[ERROR_BLOCK])
    return bytes(found)


def encode_block(bytes data not None):
    """One block of up to 64 KiB. Raises: ValueError for more."""
    if len(data) > BLOCK:
        raise ValueError("a block has 64 KiB at most")
    cdef bytearray room = bytearray(bound(len(data)))
    cdef size_t n = encode(<const uint8_t *> <const char *> data, len(data), <uint8_t *> <char *> room)
    return bytes(room[:n])


cdef class Stream:
    """The compression of one connection, in both directions; `level` 0 writes without compressing."""

    cdef s2_t *_state

    def __cinit__(self, int level=1):
        self._state = new_s2(level)

    def __dealloc__(self):
        free_s2(self._state)

    def compress(self, bytes data not None):
        """Compress bytes, and return those to send."""
        cdef buf_t out
        memset(&out, 0, sizeof(buf_t))
        try:
            compress(self._state, data, len(data), &out)
            return out.data[:out.end] if out.end else b""
        finally:
            buf_free(&out)

    def decompress(self, bytes data not None):
        """Decompress bytes, and return those that are whole now.

        Raises: ValueError, from then on always, if the stream is broken.
        """
        cdef list found = []
        cdef int got
        if data:
            buf_append(&self._state.raw, data, len(data))
        while True:
            got = next_chunk(self._state)
            if got == S2_MORE:
                return b"".join(found)
            if got == S2_BROKEN:
                raise ValueError(s2_error(self._state))
            found.append(self._state.plain.data[:self._state.plain.end])

    @property
    def held(self):
        """Bytes that wait for the rest of their chunk."""
        return self._state.raw.end - self._state.raw.start
