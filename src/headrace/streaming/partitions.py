"""Partitions: which channels are this server's, and the check that no other server has one of them too.

Servers of one cluster ID each serve the channels they are configured with. They tell each other their lists
on `_STAN.part.<cluster ID>`, at the start and from time to time, since two NATS servers may find each other
later. What requests for a foreign channel get (no answer) is said where requests are read.
Source: streaming specification, 11.

A list on the wire is, for each channel or pattern, 2 bytes of length (little-endian) and the name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from headrace.core.service import Delivery
from headrace.engine.batches import Gathered
from headrace.errors import ProtocolError
from headrace.protocol.stan import CtrlMsg, CtrlType
from headrace.streaming import error_texts
from headrace.streaming.naming import new_inbox, shown
from headrace.subjects.grammar import matches, overlaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.streaming.context import Context

    Owns = Callable[[bytes], bool]
    Route = Callable[[Delivery], None]
    Taker = Callable[[Gathered[Delivery]], None]

ANSWER_S: Final = 0.5
"""Seconds that other servers have to object before clients are served."""
RECHECK_S: Final = 10.0
"""Seconds between two looks at what the others have by now."""
_LIST_BYTES: Final = 256 << 10
"""Bytes of one message; longer lists take several."""
_REMEMBERED: Final = 4096
"""Channels of which it is remembered whose they are."""


class Partitions:
    """The channels that this server serves, where several share a cluster ID.

    `on_conflict` is called with a text when a channel turns out to be another server's too.
    """

    def __init__(self, context: Context, server_id: str, on_conflict: Callable[[str], object]) -> None:
        options = context.options
        self.channels: Final = tuple(name.encode() for name in options.limits.channels)
        self._context = context
        self._server_id = server_id.encode()
        self._on_conflict = on_conflict
        self._subject = b"_STAN.part." + options.cluster_id.encode()
        self._inbox = new_inbox()
        self._serving = False
        self.owns: Final[Owns] = lru_cache(_REMEMBERED)(self._owns)
        """True if a channel is this server's."""

    def _owns(self, channel: bytes) -> bool:
        return any(matches(pattern, channel) for pattern in self.channels)

    def publications(self, prefix: bytes, receive: Taker) -> Iterator[tuple[bytes, Taker]]:
        """Yield the subjects to subscribe to for publications, each with its function; every message is taken
        once.
        """
        for number, pattern in enumerate(self.channels):
            earlier = [other for other in self.channels[:number] if overlaps(other, pattern)]
            route = _unless(receive, [prefix + b"." + other for other in earlier]) if earlier else receive
            yield prefix + b"." + pattern, route

    def routes(self) -> dict[bytes, Route]:
        """Return the subjects to subscribe to for the check."""
        return {self._subject: self._asked, self._inbox: self._answered}

    def check(self, then: Callable[[], object]) -> None:
        """Tell the others the list; `then` is called when they had the time to object."""
        self._tell()

        def serve() -> None:
            self._serving = True
            self._context.later(RECHECK_S, self._check_again)
            then()

        self._context.later(ANSWER_S, serve)

    def _check_again(self) -> None:
        self._tell()
        self._context.later(RECHECK_S, self._check_again)

    def _tell(self) -> None:
        for part in _in_parts(self.channels):
            message = CtrlMsg(CtrlType.PARTITIONING, self._server_id, encode_channels(part))
            self._context.host.publish(self._subject, message.encode(), reply=self._inbox)

    def _asked(self, delivery: Delivery) -> None:
        """Answer another server's list of channels with the first channel in common, or nothing."""
        message = self._read(delivery)
        if message is None or message.server_id == self._server_id or not delivery.reply:
            return
        try:
            theirs = decode_channels(message.data)
        except ProtocolError as error:
            self._context.note.error("partitioning request not understood: %s", error)
            return
        common = next(
            (one for one in theirs if any(overlaps(one, own) for own in self.channels)),
            b"",
        )
        answer = CtrlMsg(CtrlType.PARTITIONING, self._server_id, common)
        self._context.host.publish(delivery.reply, answer.encode())

    def _answered(self, delivery: Delivery) -> None:
        message = self._read(delivery)
        if message is None or not message.data or message.server_id == self._server_id:
            return
        text = error_texts.channel_conflict(shown(message.data), shown(message.server_id))
        if self._serving and self._server_id < message.server_id:
            # Both are at work and both find out: one of them has to go on.
            self._context.note.error("%s", text)
            return
        self._on_conflict(text)

    def _read(self, delivery: Delivery) -> CtrlMsg | None:
        try:
            message = CtrlMsg.decode(delivery.payload)
        except ProtocolError as error:
            self._context.note.error("partitioning message not understood: %s", error)
            return None
        return message if message.msg_type == CtrlType.PARTITIONING else None


def _unless(receive: Taker, earlier: Sequence[bytes]) -> Taker:
    """The route of a pattern that shares channels with earlier ones, which have theirs."""

    def route(run: Gathered[Delivery]) -> None:
        own = [one for one in run if not any(matches(pattern, one.subject) for pattern in earlier)]
        receive(run if len(own) == len(run) else Gathered(Delivery, run.sid, own))

    return route


def _in_parts(channels: Iterable[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for channel in channels:
        if part and size + len(channel) > _LIST_BYTES:
            yield part
            part, size = [], 0
        part.append(channel)
        size += 2 + len(channel)
    yield part


def encode_channels(channels: Iterable[bytes]) -> bytes:
    """Encode a list of channel names. Raises: OverflowError for a name of more than 65,535 bytes."""
    return b"".join(len(channel).to_bytes(2, "little") + channel for channel in channels)


def decode_channels(data: bytes) -> list[bytes]:
    """Decode a list of channel names. Raises: ProtocolError when the list is cut off."""
    channels = []
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "little")
        if at + 2 > len(data) or end > len(data):
            raise ProtocolError(f"list of channels is cut off at byte {at}")
        channels.append(data[at + 2 : end])
        at = end
    return channels
