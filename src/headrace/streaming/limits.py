"""The limits of a channel: the global ones, and entries by name or pattern, the most specific first.

Pure functions over options; the log keeps count, bytes and age, the service channels, subscriptions and
inactivity. Source: streaming specification, 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from headrace.conf.streaming_options import ChannelLimits
from headrace.log.port import Limits
from headrace.subjects.grammar import matches, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.conf.streaming_options import StoreLimits

_NS: Final = 1_000_000_000
_Number = TypeVar("_Number", int, float)


def limits_for(name: bytes, limits: StoreLimits) -> ChannelLimits:
    """The limits of a channel, resolved: 0 is no limit."""
    chain = [limits.channels[pattern] for pattern in _matching(name, limits)]
    return ChannelLimits(
        **{
            name: _first(getattr(entry, name) for entry in (*chain, limits))
            for name in ChannelLimits.__struct_fields__
        }
    )


def log_limits(limits: ChannelLimits, *, compresses: bool = False) -> Limits:
    """Return the limits that the log itself keeps."""
    age = round(limits.max_age * _NS)
    return Limits(limits.max_msgs, limits.max_bytes, age, compresses=compresses)


def _first(values: Iterator[_Number]) -> _Number:
    """The first that is set; a negative one is no limit."""
    for value in values:
        if value:
            return value if value > 0 else type(value)(0)
    return type(value)(0)


def _matching(name: bytes, limits: StoreLimits) -> list[str]:
    patterns = [pattern for pattern in limits.channels if matches(pattern.encode(), name)]
    return sorted(patterns, key=_width)


def _width(pattern: str) -> list[int]:
    """Sort the narrower pattern first: at the first token that differs a literal, then `*`, then `>`."""
    return [{b"*": 1, b">": 2}.get(token, 0) for token in tokens(pattern.encode())]


def limit_lines(limits: StoreLimits) -> Iterator[str]:
    """The limits as the lines that nats-streaming-server logs when it starts; `*` marks a global default."""
    yield "---------- Store Limits ----------"
    yield f"Channels:        {_count(limits.max_channels):>13} {_mark(limits.max_channels == 100)}".rstrip()
    yield "--------- Channels Limits --------"
    defaults = type(limits)()
    rows = [
        (
            "Subscriptions",
            _count(limits.max_subscriptions),
            limits.max_subscriptions == defaults.max_subscriptions,
        ),
        ("Messages     ", _count(limits.max_msgs), limits.max_msgs == defaults.max_msgs),
        ("Bytes        ", _size(limits.max_bytes), limits.max_bytes == defaults.max_bytes),
        ("Age          ", _duration(limits.max_age), limits.max_age == defaults.max_age),
        ("Inactivity   ", _duration(limits.max_inactivity), limits.max_inactivity == defaults.max_inactivity),
    ]
    for title, value, is_default in rows:
        yield f"  {title}: {value:>13} {_mark(is_default)}".rstrip()
    for pattern in sorted(limits.channels):
        yield f"Channel: {pattern}"
        yield from _override_lines(limits.channels[pattern])
    yield "-" * 34


def _override_lines(entry: ChannelLimits) -> Iterator[str]:
    rows = [
        ("Subscriptions", entry.max_subscriptions, _count(entry.max_subscriptions)),
        ("Messages     ", entry.max_msgs, _count(entry.max_msgs)),
        ("Bytes        ", entry.max_bytes, _size(entry.max_bytes)),
        ("Age          ", entry.max_age, _duration(entry.max_age)),
        ("Inactivity   ", entry.max_inactivity, _duration(entry.max_inactivity)),
    ]
    for title, value, text in rows:
        if value:
            yield f" |-> {title} {text:>12}"


def _mark(is_default: bool) -> str:
    return "*" if is_default else ""


def _count(value: int) -> str:
    return str(value) if value > 0 else "unlimited"


def _size(value: int) -> str:
    if value <= 0:
        return "unlimited"
    size = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.2f} {unit}" if unit != "B" else f"{value} B"
        size /= 1024
    return f"{size:.2f} TB"


def _duration(seconds: float) -> str:
    if seconds <= 0:
        return "unlimited"
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{rest:g}s"
    if hours or minutes:
        text = f"{int(minutes)}m{text}"
    return f"{int(hours)}h{text}" if hours else text
