"""The name of a cluster: servers with different names do not connect.

A name that was made up gives way to a configured one, and to a made-up one that is greater.
Source: cluster specification, B7.
"""

from __future__ import annotations


class ClusterName:
    """`is_dynamic`: nobody configured it, so it may give way."""

    __slots__ = ("is_dynamic", "text")

    def __init__(self, text: str, *, is_dynamic: bool) -> None:
        self.text = text
        self.is_dynamic = is_dynamic

    def gives_way_to(self, other: str, *, is_dynamic: bool) -> bool:
        """Whether this server takes on the other name, which is not its own."""
        return self.is_dynamic and (not is_dynamic or self.text < other)
