"""Stored channels for whoever copies them elsewhere (`headrace.copying`): which there are, and their pages.

Only what is as durable as the policy promises is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.copying import LogPage, extent_of, read_page

if TYPE_CHECKING:
    from headrace.copying import LogExtent
    from headrace.streaming.channels import Channel, Channels


class StoredChannels:
    """The channels of a service that serves."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def names(self) -> list[bytes]:
        """Return the names of all channels that are not about to be deleted, sorted."""
        return sorted(channel.name for channel in self._channels.all() if not channel.deleting)

    def state(self, name: bytes) -> LogExtent | None:
        """Return the state of a channel; None: there is no such channel."""
        channel = self._get(name)
        if channel is None:
            return None
        return extent_of(channel.log.state(), channel.visible, channel.created_ns)

    def page(self, name: bytes, first: int, end: int) -> LogPage:
        """The messages from `first` on, below `end`. Raises: LogError."""
        channel = self._get(name)
        if channel is None:
            return LogPage([], [], first)
        page = read_page(channel.log, name, first, min(end, channel.visible + 1))
        for damaged in page.damaged:
            channel.report_damage(damaged, "unreadable")
        return page

    def _get(self, name: bytes) -> Channel | None:
        channel = self._channels.get(name)
        return None if channel is None or channel.deleting else channel
