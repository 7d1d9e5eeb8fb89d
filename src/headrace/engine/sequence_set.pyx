# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A compact set of sequences: a bitmap in buckets of 4,096.

A bucket that has any sequences takes one bit for each of its 4,096; a full bucket is only a mark. 100 million
sequences take 12.5 MB at most, plus 150 bytes per bucket.
"""

import struct

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    BUCKET_BITS = 12
    BUCKET = 1 << BUCKET_BITS
    BUCKET_BYTES = BUCKET // 8

_BUCKET_HEAD = struct.Struct("<QB")


cdef class SequenceSet:
    """A set of sequences; `count` is how many there are. `add` and `has` cost one dictionary look-up per bucket."""

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
        """Count the sequences of the set from `first` to `last`, both included."""
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
        """Drop the buckets that lie wholly below a sequence; a bucket that contains it stays whole."""
        cdef uint64_t limit = sequence >> BUCKET_BITS
        gone = [key for key in self._buckets if key < limit]
        for key in gone:
            found = self._buckets.pop(key)
            self.count -= BUCKET if found is None else int.from_bytes(found, "little").bit_count()
        self._key = <uint64_t> -1
        self._bits = NULL
        self._full = False

    def dump(self) -> bytes:
        """Return the whole set as bytes, for `load`."""
        parts = []
        for key, found in self._buckets.items():
            parts.append(_BUCKET_HEAD.pack(key, found is None))
            if found is not None:
                parts.append(bytes(found))
        return b"".join(parts)

    def load(self, data: bytes) -> None:
        """Add the sequences that `dump` wrote. Raises ValueError for any other bytes."""
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
