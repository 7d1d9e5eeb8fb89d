"""Publishing into NATS Streaming channels in a pipeline, over the blocking client.

Here live registering with the streaming server, its heartbeats, and messages with their acknowledgements.
NATS Streaming knows no message ids: after an outage everything unacknowledged is sent again, and what had
been stored is there twice (at least once). Source: NATS Streaming specification, sections 2 to 4 and 12.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

from headrace.client.errors import (
    ClientTimeoutError,
    ConnectionLostError,
    NoRespondersError,
    StreamingRefusedError,
)
from headrace.client.pipeline import NumberedAnswer, PublishAnswer
from headrace.errors import ProtocolError
from headrace.protocol.protobuf import varint
from headrace.protocol.stan import CloseRequest, ConnectRequest, ConnectResponse, PubAck, PubMsg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.client.blocking import Connection
    from headrace.client.codec import MessageBatch
    from headrace.client.pipeline import MessageColumns, Sent

DEFAULT_DISCOVERY: Final = "_STAN.discover"

_PROTOCOL: Final = 1
_PING_INTERVAL: Final = 5  # seconds; the wire says how often clients would ping, this one need not
_PING_MAX: Final = 88
_TIMEOUT: Final = 5.0
_FORGOTTEN: Final = b"stan: invalid publish request"
_GUID, _REPLY, _DATA = b"\x12", b"\x22", b"\x2a"  # keys of PubMsg's fields 2, 4 and 5


class StreamingWire:
    """Messages for channels, under a client ID of the writer's own."""

    def __init__(self, cluster_id: str, client_id: str, *, discovery: str = DEFAULT_DISCOVERY) -> None:
        self._subject = f"{discovery}.{cluster_id}"
        self._cluster_id = cluster_id
        self._client_id = client_id.encode()
        self._conn_id = secrets.token_hex(16).encode()
        token = secrets.token_hex(8).encode()
        self._heartbeats = b""
        self._acks = b"_STAN.acks.%b" % token
        self._guid = token
        self._subjects: ConnectResponse | None = None
        self._heads: dict[bytes, bytes] = {}
        self._sids: tuple[bytes, ...] = ()

    def open(self, connection: Connection) -> None:
        """Listen and register; after an outage the registration is still there, unless the server forgot it.

        Raises: StreamingRefusedError with the server's text, such as that the client ID is taken.
        """
        self._heartbeats = self._heartbeats or connection.new_inbox()
        self._sids = connection.subscribe(self._heartbeats), connection.subscribe(self._acks)
        if self._subjects is not None:
            return
        request = ConnectRequest(
            self._client_id, self._heartbeats, _PROTOCOL, self._conn_id, _PING_INTERVAL, _PING_MAX
        )
        try:
            answer = connection.request(self._subject, request.encode(), timeout=_TIMEOUT)
        except NoRespondersError as error:
            raise NoRespondersError(f"no streaming server of cluster {self._cluster_id} is there") from error
        response = ConnectResponse.decode(answer.data)
        if response.error:
            raise StreamingRefusedError(400, response.error.decode(errors="replace"))
        if not response.pub_prefix or not response.close_requests:
            raise ProtocolError("the streaming server's answer to connecting lacks subjects")
        self._subjects = response

    def encode(self, first: int, columns: MessageColumns, start: int, stop: int) -> list[bytes]:
        frames = []
        for number, row in enumerate(range(start, stop), first):
            channel, data = columns.subjects[row], columns.payloads[row]
            guid = b"%b%x" % (self._guid, number)
            reply = columns.replies[row] if columns.replies is not None else None
            body = b"%b%b%b%b%b%b%b%b" % (
                self._head(channel),
                _GUID + varint(len(guid)),
                guid,
                _REPLY + varint(len(reply)) if reply else b"",
                reply or b"",
                _DATA if data else b"",
                varint(len(data)) if data else b"",
                data,
            )
            frames.append(b"PUB %b %b %d\r\n%b\r\n" % (self._to(channel), self._acks, len(body), body))
        return frames

    def overhead(self, channel: bytes, reply: bytes | None = None) -> int:
        """Return the largest number of bytes by which a message is longer than its payload."""
        head = PubMsg(self._client_id, self._guid + b"f" * 16, channel, reply or b"", b"", self._conn_id)
        return len(head.encode()) + 8

    def again(self, frame: bytes) -> bytes:
        return frame

    def settle(
        self, connection: Connection, on_their_way: Mapping[int, Sent], timeout: float
    ) -> list[NumberedAnswer]:
        deadline = time.monotonic() + timeout
        while batch := connection.receive(max(deadline - time.monotonic(), 0.0)):
            acks = self._read(connection, batch)
            if acks:
                return acks
        return []

    def stored(self, connection: Connection, on_their_way: Mapping[int, Sent]) -> list[int]:
        """Unknown: everything is sent again."""
        return []

    def close(self, connection: Connection) -> None:
        """Leave the server, so that the client ID is free."""
        if self._subjects is None:
            return
        request = CloseRequest(self._client_id).encode()
        try:
            connection.request(self._subjects.close_requests, request, timeout=_TIMEOUT)
        except ClientTimeoutError:  # it finds out by its heartbeats
            pass
        for sid in self._sids:
            connection.unsubscribe(sid)

    def _head(self, channel: bytes) -> bytes:
        """Return the bytes that every message of a channel begins with."""
        head = self._heads.get(channel)
        if head is None:
            head = PubMsg(self._client_id, b"", channel, conn_id=self._conn_id).encode()
            self._heads[channel] = head
        return head

    def _to(self, channel: bytes) -> bytes:
        assert self._subjects is not None
        return b"%b.%b" % (self._subjects.pub_prefix, channel)

    def _read(self, connection: Connection, batch: MessageBatch) -> list[NumberedAnswer]:
        acks = []
        skip = len(self._guid)
        for head, payload in zip(batch.heads, batch.payloads, strict=True):
            if head[0] == self._heartbeats:
                if head[2] is not None:
                    connection.publish(head[2])
                continue
            if head[0] != self._acks:
                continue
            ack = PubAck.decode(payload)
            if ack.error == _FORGOTTEN:
                self._subjects = None
                raise ConnectionLostError("the streaming server has forgotten this client")
            number = int(ack.guid[skip:], 16)
            text = ack.error.decode(errors="replace")
            acks.append(NumberedAnswer(number, PublishAnswer.REFUSED if text else PublishAnswer.STORED, text))
        return acks
