"""The subscriptions of a client, which outlive its connections: numbered once, made again on the next one.

Calls in, frames out. Nothing is sent here, and nothing of messages is known.
"""

from __future__ import annotations

from headrace.client.codec import encode_sub, encode_unsub


class SubscriptionTable:
    """Subscriptions by sid. No sid is used twice, so a late message is never another subscription's."""

    def __init__(self) -> None:
        self._open: dict[int, bytes] = {}
        self._last_sid = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, subject: bytes, queue: bytes | None = None) -> tuple[int, bytes]:
        """Return the sid of a new subscription and its SUB. Raises: ValueError for words with separators."""
        sid = self._last_sid + 1
        frame = encode_sub(subject, b"%d" % sid, queue)
        self._last_sid = sid
        self._open[sid] = frame
        return sid, frame

    @property
    def last_sid(self) -> int:
        """The number of the subscription that was made last, 0 before there is one."""
        return self._last_sid

    def next_sid(self) -> int:
        """Return the number of a subscription that ends with this connection, and is not kept here."""
        self._last_sid += 1
        return self._last_sid

    def remove(self, sid: int) -> bytes:
        """Return the UNSUB of a subscription, b"" for one that is not there."""
        return b"" if self._open.pop(sid, None) is None else encode_unsub(b"%d" % sid)

    def frames(self) -> bytes:
        """Return the SUBs of all subscriptions, in the order in which they were made."""
        return b"".join(self._open.values())
