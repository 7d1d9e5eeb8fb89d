"""A message by its outline: what removing it needs to know, without its parts.

Here live the shapes that the compiled scan gives and takes; never anything that reads or writes.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Filters: TypeAlias = list[bytes] | bytes | None
"""Patterns of which one must match, or one subject byte for byte, or everything."""


class Outline(NamedTuple):
    """The outline of one record, in the order of `Scan.outline`."""

    sequence: int
    size: int
    """The size that counts for limits: `headrace.log.port.size_of`."""
    subject: bytes
    time_ns: int
    expiry: int
    """The time at which its TTL ends; 0: it has none."""
    previous: int
    """The sequence of its subject's message before it, removed or not; 0: there was none."""
    offset: int
    """The offset of its record, from its segment's first one."""
    length: int
