"""The price of a bucket by the month: what its requests and its bytes come to at S3's list prices.

An estimate, in US dollars, for one region without a discount: other providers ask about as much. Bytes
between a server and a bucket of its region cost nothing; those that leave a cloud do, and are not in it.
Source: the price list of Amazon S3 Standard, us-east-1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.bucket.status import RequestCount

PER_WRITE: Final = 0.005 / 1000
"""Dollars for a request that writes or lists."""
PER_READ: Final = 0.0004 / 1000
"""Dollars for a request that reads, or asks whether an object is there."""
PER_GB_MONTH: Final = 0.023
"""Dollars for 10^9 bytes that are kept for a month."""
MONTH_S: Final = 30 * 24 * 3600.0
"""Seconds of the month that a price is told for."""

_BY_KIND: Final = {
    "create": PER_WRITE,
    "put": PER_WRITE,
    "list": PER_WRITE,
    "get": PER_READ,
    "head": PER_READ,
    "delete": 0.0,
}


def monthly_price(requests: Iterable[RequestCount], seconds: float, stored_bytes: int) -> float:
    """Return the dollars a month of stored bytes, and of requests that go on as in the given seconds.

    Requests that were refused are paid for, too. In a time of less than a second there is no rate to go by:
    only the bytes count then.
    """
    stored = stored_bytes / 1e9 * PER_GB_MONTH
    if seconds < 1.0:
        return stored
    return stored + sum(each.count * _BY_KIND[each.kind] for each in requests) / seconds * MONTH_S
