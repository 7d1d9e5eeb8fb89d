"""The places and times from which a user may connect: networks, times of the day, time zones, as tokens write
them.

Here live reading and comparison, given an address or a time. Never lives here: the clock, what follows from
an answer.
Source: nats-server 2.15.1, and of Go's library what it takes for a network, a time or a zone.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from headrace.protocol.jwt.claims import TimeRange

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_TIME: Final = re.compile(r"([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,][0-9]+)?\Z")
_PREFIX: Final = re.compile(r"[0-9]{1,6}\Z")
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")


def network(text: str) -> Network:
    """The network of `192.0.2.0/24`; one of IPv4 written as IPv6 is one of IPv4.

    Raises: ValueError, also for an address without a prefix.
    """
    address, slash, prefix = text.partition("/")
    if not slash or not _PREFIX.match(prefix) or "%" in address:
        raise ValueError("not a network")
    found = ipaddress.ip_network((address, int(prefix)), strict=False)
    if isinstance(found, ipaddress.IPv6Network) and found.subnet_of(_MAPPED):
        packed = found.network_address.packed[-4:]
        return ipaddress.IPv4Network((packed, found.prefixlen - 96))
    return found


def is_source_allowed(networks: Sequence[str], host: str) -> bool:
    """True if an address is in one of the networks, or if there are none.

    An invalid network ends the search, since its meaning is not known.
    """
    if not networks:
        return True
    try:
        address = ipaddress.ip_address(host)
        if isinstance(address, ipaddress.IPv6Address):
            if address.scope_id is not None:
                return False
            address = address.ipv4_mapped or address
        return any(address in network(text) for text in networks)
    except ValueError:
        return False


def time_of_day(text: str) -> time:
    """Return the time of day `15:04:05`; a fraction of a second is not used.

    Raises: ValueError for another text.
    """
    found = _TIME.match(text)
    if found is None:
        raise ValueError("not a time of the day")
    hour, minute, second = map(int, found.groups())
    return time(hour, minute, second)


def location(name: str) -> tzinfo | None:
    """The time zone of this name; None for the server's own.

    Raises: ValueError if there is none.
    """
    if name in ("", "Local"):
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError("not a time zone") from None


def seconds_left(times: Sequence[TimeRange], zone: str, now: float) -> float | None:
    """Return the seconds until the end of the latest range that `now` is in; None if it is in none of them.

    Units: `now` is seconds since 1970.
    Raises: ValueError if a range or the zone is malformed.
    """
    where = location(zone)
    today = datetime.fromtimestamp(now, where).date()
    found = (_left(entry, today, where, now) for entry in times)
    return max((left for left in found if left is not None), default=None)


def _left(entry: TimeRange, today: date, where: tzinfo | None, now: float) -> float | None:
    start, end = time_of_day(entry.start), time_of_day(entry.end)
    begins, ends = _instant(today, start, where), _instant(today, end, where)
    if begins < now < ends:
        return ends - now
    if begins > ends:  # over midnight
        if now < ends:
            return ends - now
        ends = _instant(today + timedelta(days=1), end, where)
        if begins < now < ends:
            return ends - now
    return None


def _instant(day: date, at: time, where: tzinfo | None) -> float:
    # Differences are taken of instants: those of local times would not see a clock being set.
    return datetime.combine(day, at, where).timestamp()
