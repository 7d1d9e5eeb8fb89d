"""Registering with a streaming server, without one."""

from __future__ import annotations

from headrace.client.blocking import ReceivedMessage
from headrace.client.streaming_publish import StreamingWire
from headrace.protocol.stan import ConnectRequest, ConnectResponse


class Line:
    """A connection to a streaming server that takes everybody."""

    def __init__(self) -> None:
        self.inboxes = 0
        self.subscribed: list[bytes] = []
        self.requests: list[ConnectRequest] = []

    def new_inbox(self) -> bytes:
        self.inboxes += 1
        return b"_MINE.%d" % self.inboxes

    def subscribe(self, subject: bytes) -> bytes:
        self.subscribed.append(subject)
        return b"%d" % len(self.subscribed)

    def request(self, subject: str, data: bytes, *, timeout: float) -> ReceivedMessage:
        self.requests.append(ConnectRequest.decode(data))
        return ReceivedMessage(
            subject, ConnectResponse(pub_prefix=b"_STAN.pub", close_requests=b"_STAN.c").encode(), None, {}
        )


def test_heartbeats_come_where_the_connection_may_listen_and_stay_there() -> None:
    line = Line()
    wire = StreamingWire("mine", "me")
    wire.open(line)  # type: ignore[arg-type]
    assert line.subscribed[0] == line.requests[0].heartbeat_inbox == b"_MINE.1"

    wire.open(line)  # type: ignore[arg-type] - after an outage: the server knows this client already
    assert line.subscribed[2] == b"_MINE.1"
    assert len(line.requests) == 1
