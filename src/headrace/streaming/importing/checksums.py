"""The CRC-32 that protects a foreign store's records: which polynomial it has, if any.

The server always writes a checksum, by a polynomial of its configuration (`file_crc_poly`, IEEE unless told
otherwise); `file_crc: false` only keeps it from looking. Stores whose checksums fit no known polynomial are
read without: then only a record's shape, and the index, tell damage.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NOT_A_POLYNOMIAL: Final = "a polynomial is a whole number of 32 bits, in reversed form (IEEE is 0xedb88320)"

IEEE: Final = 0xEDB88320
CASTAGNOLI: Final = 0x82F63B78
KOOPMAN: Final = 0xEB31D82E
KNOWN: Final = (IEEE, CASTAGNOLI, KOOPMAN)
"""The polynomials that Go's crc32 package names, in the form of `file_crc_poly`; tried in this order."""


class Checksum:
    """A CRC-32 by one polynomial, given in reversed form as Go's `crc32.MakeTable` takes it.

    Any but IEEE is computed byte by byte in Python: some 10 MB/s.
    """

    def __init__(self, polynomial: int) -> None:
        if not 0 < polynomial < 1 << 32:
            raise ValueError(_NOT_A_POLYNOMIAL)
        self.polynomial = polynomial
        self.of: Callable[[bytes], int] = zlib.crc32 if polynomial == IEEE else self._slow
        """The checksum of some bytes."""

    def _slow(self, data: bytes) -> int:
        table = _table(self.polynomial)
        value = 0xFFFFFFFF
        for byte in data:
            value = value >> 8 ^ table[(value ^ byte) & 255]
        return value ^ 0xFFFFFFFF


def detect(samples: Iterable[tuple[bytes, int]]) -> Checksum | None:
    """The known checksum that at least one of the samples (bytes, their checksum) carries; None for none.

    One is enough: of 2^32 damaged samples one would fit by chance.
    """
    tried = [Checksum(polynomial) for polynomial in KNOWN]
    for data, stored in samples:
        for checksum in tried:
            if checksum.of(data) == stored:
                return checksum
    return None


@cache
def _table(polynomial: int) -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ polynomial if value & 1 else value >> 1
        return value

    return tuple(entry(byte) for byte in range(256))
