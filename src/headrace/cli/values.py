"""Values of the command line: numbers, durations, sizes, times, headers, and how people are shown them.

Here lives reading and writing of single values. Never lives here: which flag has which (`command_rows`).
Durations are ns, sizes bytes, times ns since 1970 UTC. A date without a zone is UTC, as everything that is
printed.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.command_rows import ValueKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
_LONG: Final = r"([0-9]+)([wd])"
_SIZE: Final = r"(?i)([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgtpe])(i?b?)|b)?"
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


def read_duration(text: str) -> int:
    """Return a duration in ns: `1h30m`, `2d`, `1w2d`, `300ms`. Raises: ValueError with the reason."""
    from headrace.protocol.durations import parse_ns

    total, rest = 0, text
    while match := re.match(_LONG, rest):
        total += int(match[1]) * _DAY * (7 if match[2] == "w" else 1)
        rest = rest[match.end() :]
    if rest == text:
        return parse_ns(text)
    return total + (parse_ns(rest) if rest else 0)


def read_size(text: str) -> int:
    """Return a size in bytes: `1GB`, `512KiB`, `1.5M`, `100`. Raises: ValueError with the reason.

    A letter alone counts in thousands, with `b`, `i` or `ib` behind it in 1024s, as in configurations.
    """
    match = re.fullmatch(_SIZE, text)
    if match is None:
        raise ValueError("not a size such as 1GB, 512KiB or 100")
    number, scale, ending = match.groups()
    factor = 1 if scale is None else (1024 if ending else 1000) ** ("kmgtpe".index(scale.lower()) + 1)
    from fractions import Fraction

    found = int(Fraction(number) * factor)
    if found >= 1 << 63:
        raise ValueError("the size does not fit into 64 bits")
    return found


def read_time(text: str, now_ns: int | None = None, *, back: bool = False) -> int:
    """Return a time in ns since 1970 UTC. Raises: ValueError with the reason.

    `back`: a duration without a sign counts back from now; without this a duration needs its sign.
    """
    from headrace.protocol.rfc3339 import parse_time

    now = time.time_ns() if now_ns is None else now_ns
    if text == "now":
        return now
    if text in ("today", "yesterday"):
        return now - now % _DAY - (_DAY if text == "yesterday" else 0)
    if re.fullmatch(_DATE, text):
        return parse_time(f"{text}T00:00:00Z")
    if re.match(_DATE, text):
        return parse_time(text)
    sign = text[:1]
    if sign in ("+", "-"):
        away = read_duration(text[1:])
        return now + away if sign == "+" else now - away
    if back:
        return now - read_duration(text)
    raise ValueError("not a time such as 2026-11-22T08:00:00Z, 2026-11-22, today, -15m or +15m")


def read_until(text: str, now_ns: int | None = None) -> int:
    """Return a time to come in ns since 1970 UTC, out of a time or a duration. Raises: ValueError."""
    now = time.time_ns() if now_ns is None else now_ns
    try:
        found = now + read_duration(text)
    except ValueError:
        found = read_time(text, now)
    if found <= now:
        raise ValueError("the time is over")
    return found


def read_header(text: str) -> tuple[str, str]:
    """Return the name and the value of `NAME:VALUE`. Raises: ValueError."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or any(char in text for char in "\r\n"):
        raise ValueError("not a header such as NAME:VALUE in one line")
    return name.strip(), value.strip()


def read_pair(text: str) -> tuple[str, str]:
    """Return the name and the value of `NAME=VALUE`. Raises: ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError("not a pair such as NAME=VALUE")
    return name, value


def read_subject(text: str) -> str:
    """Return a subject that can stand in a line of the protocol. Raises: ValueError."""
    if not text or any(char.isspace() for char in text):
        raise ValueError("a subject is not empty and has no space")
    if text.startswith(".") or text.endswith(".") or ".." in text:
        raise ValueError("a subject has no empty token")
    return text


def read_number(text: str) -> int:
    """Return a whole number that is not negative, also `100k` or `1_000`. Raises: ValueError."""
    plain = text.replace("_", "").replace(",", "")
    if plain.isascii() and plain.isdigit():
        return int(plain)
    if re.fullmatch(r"(?i)[0-9.]+[kmg]", plain):
        return read_size(plain)
    raise ValueError("not a whole number")


def read_json(text: str) -> dict[str, Any]:
    """Return a JSON object that stands there, or in the file behind `@`. Raises: ValueError."""
    import json

    if text.startswith("@"):
        try:
            with open(text[1:], encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise ValueError(f"cannot read {text[1:]}: {error.strerror or error}") from None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return found


def _read_name(text: str) -> str:
    if not text or any(char.isspace() or char in ".*>/\\" for char in text):
        raise ValueError("a name is not empty and has no space, dot, star, > or slash")
    return text


def _read_decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("not a number") from None


_READERS: Final[Mapping[ValueKind, Callable[[str], Any]]] = {
    ValueKind.NUMBER: read_number,
    ValueKind.DECIMAL: _read_decimal,
    ValueKind.DURATION: read_duration,
    ValueKind.SIZE: read_size,
    ValueKind.TIME: read_time,
    ValueKind.SINCE: lambda text: read_time(text, back=True),
    ValueKind.UNTIL: read_until,
    ValueKind.SUBJECT: read_subject,
    ValueKind.HEADER: read_header,
    ValueKind.PAIR: read_pair,
    ValueKind.JSON: read_json,
    ValueKind.STREAM: _read_name,
    ValueKind.CONSUMER: _read_name,
    ValueKind.BUCKET: _read_name,
    ValueKind.SERVICE: _read_name,
}


def read_value(kind: ValueKind, text: str) -> Any:
    """Return the value that a text stands for. Raises: ValueError with the reason."""
    reader = _READERS.get(kind)
    return text if reader is None else reader(text)


def shown_size(count: int) -> str:
    """Return a size for people: `512 B`, `1.5 KiB`, `3.2 GiB`."""
    amount = float(count)
    for unit in _BINARY:
        if abs(amount) < 1024 or unit == _BINARY[-1]:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit takes all sizes")


def shown_duration(ns: int) -> str:
    """Return a duration for people, two units at most: `3m12s`, `2d4h`, `1.23ms`."""
    if ns < 0:
        return f"-{shown_duration(-ns)}"
    for name, unit in (("µs", 1_000), ("ms", 1_000_000), ("s", _SECOND)):
        if ns < unit * (1000 if name != "s" else 60):
            return f"{ns / unit:.3g}{name}" if ns else "0s"
    seconds = ns // _SECOND
    units = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    first = next(place for place, (_, unit) in enumerate(units) if seconds >= unit)
    (name, unit), (lesser, small) = units[first], units[first + 1]
    whole, rest = divmod(seconds, unit)
    return f"{whole}{name}{rest // small}{lesser}" if rest // small else f"{whole}{name}"


def shown_time(ns: int) -> str:
    """Return a time for people, to the second: `2026-11-22 08:00:00`; UTC."""
    from headrace.protocol.rfc3339 import format_second

    return format_second(ns // _SECOND).replace("T", " ")


def short_shown_time(ns: int) -> str:
    """Return a time where there is little room: `11-22 08:00`, of another year `2030-01-01`; UTC."""
    found = shown_time(ns)
    is_this_year = found[:4] == shown_time(time.time_ns())[:4]
    return found[5:16] if is_this_year else found[:10]


def exact_time(ns: int) -> str:
    """Return a time for programs: RFC 3339 with Z, to the nanosecond."""
    from headrace.protocol.rfc3339 import short_time

    return short_time(ns)
