"""A streaming client that speaks the protocol by hand, and the ways to start a streaming server."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from harness.processes import BIN, Program
from headrace.protocol import stan

if TYPE_CHECKING:
    from harness.processes import ServerProcess
    from harness.wire import Wire

SERVE: Final = Program("headrace-serve", (str(BIN / "headrace"), "serve"))
READY: Final = r"\[INF\] STREAM: Streaming Server is ready$"
_requests = count(1)


class Client:
    """A streaming client over a raw connection: one request at a time."""

    def __init__(self, server: ServerProcess, client_id: bytes, cluster: bytes = b"test-cluster") -> None:
        self.id = client_id
        self.wire: Wire = server.connect(b"")
        self.wire.send(b"SUB heartbeat.%b 1\r\nSUB answers.> 2\r\n" % client_id)
        request = stan.ConnectRequest(client_id=client_id, heartbeat_inbox=b"heartbeat." + client_id)
        answer = self.ask(b"_STAN.discover." + cluster, request.encode())
        self.prefixes = stan.ConnectResponse.decode(answer)

    def ask(self, subject: bytes, request: bytes) -> bytes:
        reply = b"answers.%d" % next(_requests)
        self.wire.send(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(request), request))
        return self.message(reply)

    def message(self, subject: bytes) -> bytes:
        """The next message on a subject; others before it are dropped."""
        while True:
            words, payload = self.wire.take_message()
            if words[1] == subject:
                return payload

    def publish(self, channel: bytes, data: bytes) -> bytes:
        """The error of the answer, empty when it is acknowledged."""
        message = stan.PubMsg(client_id=self.id, guid=b"g%d" % next(_requests), subject=channel, data=data)
        answer = self.ask(self.prefixes.pub_prefix + b"." + channel, message.encode())
        return stan.PubAck.decode(answer).error

    def read(self, channel: bytes, messages: int) -> list[tuple[int, bytes]]:
        """So many stored messages from the first on."""
        inbox = b"inbox.%d" % next(_requests)
        self.wire.send(b"SUB %b 3%d\r\n" % (inbox, next(_requests)))
        request = stan.SubscriptionRequest(
            client_id=self.id,
            subject=channel,
            inbox=inbox,
            max_in_flight=1000,
            ack_wait_in_secs=30,
            start_position=stan.StartPosition.FIRST,
        )
        answer = stan.SubscriptionResponse.decode(self.ask(self.prefixes.sub_requests, request.encode()))
        assert answer.error == b""
        found = (stan.MsgProto.decode(self.message(inbox)) for _ in range(messages))
        return [(message.sequence, message.data) for message in found]
