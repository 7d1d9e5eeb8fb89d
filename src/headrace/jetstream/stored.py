"""Stored streams for whoever copies them elsewhere (`headrace.copying`): which there are, and their pages.

A stream is called as its log is (`assets.stream_log`), so that streams of all accounts are told apart. Only
what is as durable as the policy promises is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.copying import LogPage, extent_of, read_page
from headrace.jetstream.assets import stream_log
from headrace.protocol.jetstream.configs import RetentionPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.copying import LogExtent
    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.stream.stream import Stream
    from headrace.protocol.jetstream.configs import StreamConfig


class StoredStreams:
    """The streams of accounts, which are served, by name."""

    def __init__(self, accounts: Mapping[str, AccountJetStream]) -> None:
        self._accounts = accounts

    def names(self) -> list[bytes]:
        """Return the names of the logs of all streams, sorted."""
        return sorted(
            stream_log(account.name, name) for account in self._accounts.values() for name in account.streams
        )

    def state(self, name: bytes) -> LogExtent | None:
        """Return the state of a stream; None: there is no such stream."""
        stream = self._get(name)
        if stream is None:
            return None
        keeps_order = removes_front_only(stream.config)
        return extent_of(
            stream.log.state(),
            stream.visible,
            stream.created_ns,
            keeps_order=keeps_order,
            metadata=stream.config.metadata,
        )

    def page(self, name: bytes, first: int, end: int) -> LogPage:
        """The messages from `first` on, below `end`. Raises: LogError."""
        stream = self._get(name)
        if stream is None:
            return LogPage([], [], first)
        return read_page(stream.log, stream.name.encode(), first, min(end, stream.visible + 1))

    def _get(self, name: bytes) -> Stream | None:
        account, _, stream = name.decode("utf-8", "replace").rpartition("/streams/")
        found = self._accounts.get(account)
        return None if found is None else found.streams.get(stream)


def removes_front_only(config: StreamConfig) -> bool:
    """True if a stream removes messages by itself only from its front: none is replaced, none consumed."""
    return config.retention is RetentionPolicy.LIMITS and config.max_msgs_per_subject <= 0
