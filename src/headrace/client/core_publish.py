"""Publishing to core subjects in a pipeline: the server's PONG stands for the acknowledgement.

That says the server has taken the messages, not that anybody received them: core subjects keep nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.codec import encode_pub
from headrace.client.pipeline import NumberedAnswer, PublishAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.client.blocking import Connection
    from headrace.client.pipeline import MessageColumns, Sent


class CoreWire:
    """Messages for whoever is subscribed."""

    def open(self, connection: Connection) -> None:
        """Prepare nothing: a core publication needs no more than a connection."""

    def encode(self, first: int, columns: MessageColumns, start: int, stop: int) -> list[bytes]:
        frames = []
        for row in range(start, stop):
            lines = columns.headers[row] if columns.headers is not None else b""
            reply = columns.replies[row] if columns.replies is not None else None
            block = b"NATS/1.0\r\n%b\r\n" % lines if lines else b""
            frames.append(encode_pub(columns.subjects[row], columns.payloads[row], reply, block))
        return frames

    def again(self, frame: bytes) -> bytes:
        return frame

    def settle(
        self, connection: Connection, on_their_way: Mapping[int, Sent], timeout: float
    ) -> list[NumberedAnswer]:
        connection.flush(timeout)
        return [NumberedAnswer(number, PublishAnswer.STORED) for number in on_their_way]

    def stored(self, connection: Connection, on_their_way: Mapping[int, Sent]) -> list[int]:
        """Unknown: what no PONG confirmed is sent again."""
        return []

    def close(self, connection: Connection) -> None:
        """End nothing: a core publisher leaves no state at the server."""
