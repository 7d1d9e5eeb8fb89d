"""Stored channels for whoever copies them elsewhere: which there are, how far they are, pages of messages.

Called on the loop's thread, one page at a time, as replays take theirs. Only what is as durable as the policy
promises is shown. Never here: threads, and what becomes of the messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.engine.columns import ColumnsBuilder
from headrace.protocol import columns

if TYPE_CHECKING:
    from headrace.streaming.channels import Channel, Channels

PAGE: Final = 4096
PAGE_BYTES: Final = 1 << 20
"""Messages and about the bytes of one page: what the loop does for a copy at once."""


class ChannelExtent(NamedTuple):
    """The first and last sequence of a channel. The first sequence of an empty one is one above its last."""

    first_sequence: int
    last_sequence: int
    messages: int
    created_ns: int


class StoredPage(NamedTuple):
    """Messages as columns (`protocol.columns`), each frame one page of them; sequences that are unreadable;
    where the next page begins. `next` is `first` at the end.
    """

    frames: list[bytes]
    damaged: list[int]
    next: int


class StoredChannels:
    """The channels of a service that serves."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def names(self) -> list[bytes]:
        """Return the names of all channels that are not about to be deleted, sorted."""
        return sorted(channel.name for channel in self._channels.all() if not channel.deleting)

    def state(self, name: bytes) -> ChannelExtent | None:
        """Return the state of a channel; None: there is no such channel."""
        channel = self._get(name)
        if channel is None:
            return None
        state = channel.log.state()
        waiting = max(state.last_sequence - channel.visible, 0)  # just appended: none of them is gone yet
        last = min(channel.visible, state.last_sequence)
        return ChannelExtent(
            min(state.first_sequence, last + 1), last, max(state.messages - waiting, 0), channel.created_ns
        )

    def page(self, name: bytes, first: int, end: int) -> StoredPage:
        """The messages from `first` on, below `end`. Raises: LogError."""
        channel = self._get(name)
        end = 0 if channel is None else min(end, channel.visible + 1)
        if channel is None or first >= end:
            return StoredPage([], [], first)
        page = channel.log.read_from(first, max_messages=PAGE, max_bytes=PAGE_BYTES, up_to=end)
        for damaged in page.damaged:
            channel.report_damage(damaged, "unreadable")
        builder, frames, done = ColumnsBuilder(), [], 0
        while done < len(page.messages):
            builder.clear()
            done += builder.add(page.messages, done, len(page.messages) - done, name, columns.FRAME_BYTES)
            frames.append(columns.pack(builder))
        return StoredPage(frames, list(page.damaged), max(page.next_sequence, first))

    def _get(self, name: bytes) -> Channel | None:
        channel = self._channels.get(name)
        return None if channel is None or channel.deleting else channel
