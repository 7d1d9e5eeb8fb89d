"""The options of tables that a server makes of what it stores: of its channels, of its streams.

Frozen data only, and the rules for its values. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headrace.conf.keys import Keyed, key, required
from headrace.conf.problems import shown
from headrace.protocol.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ArchiveOptions(Keyed, frozen=True):
    """Tables that a server makes every `interval` seconds, below `to`: a directory or a URL.

    `retain`: as of `headrace tables archive`; None leaves it to the table. `file_size`: about how large files
    become.
    """

    to: str = required("A directory or a URL for the tables")
    interval: float = key(60.0, "Time between two rounds", shown_default="1m0s")
    retain: str | None = key(
        None, "As `--retain` of `headrace tables archive`: `stream`, `forever` or a duration"
    )
    file_size: int = key(256 << 20, "Bytes that files have, about", shown_default="256MB")


class ChannelArchiveOptions(ArchiveOptions, frozen=True):
    """Tables of channels. `channels`: names, with wildcards."""

    channels: tuple[str, ...] = key((">",), "Names, with wildcards", shown_default="all")


class StreamArchiveOptions(ArchiveOptions, frozen=True):
    """Tables of streams. `accounts` whose they are; none: all accounts. In names `*` is any text."""

    accounts: tuple[str, ...] = key(
        (), "Accounts; tables of another one than `$G` are in a directory of its name", shown_default="all"
    )
    streams: tuple[str, ...] = key(
        ("*",), "Names; `*` is any text, but begins no bucket's name (`KV_*`)", shown_default="all"
    )
    buckets: tuple[str, ...] = key((), "Key-value buckets, for tables of their latest values")
    bucket_histories: tuple[str, ...] = key((), "Key-value buckets, for tables of their operations")


def archive_problems(values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the values of an `archive` block: the option, and what is said of it."""
    for option in ("interval", "file_size"):
        if option in values and cast("float", values[option]) <= 0:
            yield option, "must be more than 0"
    retain = values.get("retain")
    if retain is not None and not _is_retention(str(retain)):
        yield "retain", f"cannot be {shown(str(retain))}: stream, forever and durations are known"


def _is_retention(text: str) -> bool:
    if text in ("stream", "forever"):
        return True
    try:
        return parse_duration(text) > 0
    except ValueError:
        return False
