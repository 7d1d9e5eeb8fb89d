"""Counters for monitoring: messages and bytes in and out."""

from __future__ import annotations


class Counters:
    """The counters of the service for monitoring."""

    __slots__ = ("in_bytes", "in_msgs", "out_bytes", "out_msgs")

    def __init__(self) -> None:
        self.in_msgs = self.in_bytes = self.out_msgs = self.out_bytes = 0

    def received(self, messages: int, size: int) -> None:
        self.in_msgs += messages
        self.in_bytes += size

    def sent(self, messages: int, size: int) -> None:
        self.out_msgs += messages
        self.out_bytes += size
