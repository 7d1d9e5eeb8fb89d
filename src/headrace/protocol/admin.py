"""Looking after channels over NATS: requests and answers as JSON, on `_STAN.admin.<cluster ID>.<verb>`.

Shapes only; what is done is `streaming.administration`. Requests, every key optional but where a channel is
one, and answers:

    channels  {"channel": "orders.>", "offset": 0}
              {"total": 2, "offset": 0, "channels": [channel, ...]}
    report    the same; each channel with "subscriptions"
    purge     {"channel": "orders.eu", "before_sequence": 9, "before_time": "2026-11-21T08:00:00Z", "keep": 1}
              {"purged": 8, "channel": channel}
    delete    {"channel": "orders.eu"}
              {"deleted": true, "messages": 8, "subscriptions": 1}
    adopt     {"channel": "orders.eu", "client_id": "me", "durable": "work", "consumer": "WORK"}
              {"stream": "ORDERS", "consumer": "WORK", "pending": 3}
    any       {"error": {"code": 404, "description": "..."}}

An answer holds as many channels as fit into a message: whoever has fewer than the total asks again, with the
offset of the first one that is missing. A channel has the field names of /streaming/channelsz, and besides
`last_time`, `created` (both RFC 3339) and `damaged`.
"""

from __future__ import annotations

import json
from typing import Any, Final, Self

from msgspec import Struct

from headrace.errors import ProtocolError
from headrace.protocol import documents
from headrace.protocol.rfc3339 import format_time

VERBS: Final = ("channels", "report", "purge", "delete", "adopt")


class ListRequest(Struct, frozen=True):
    """A request to list channels."""

    channel: bytes = b">"
    offset: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Read a request to list channels; without a payload: all. Raises: ProtocolError."""
        fields = {"channel": documents.a_name, "offset": documents.a_number}
        return cls(**documents.read_document(payload or b"{}", fields))

    def encode(self) -> bytes:
        return documents.write_document({"channel": documents.name_of(self.channel), "offset": self.offset})


class ChannelPurgeRequest(Struct, frozen=True):
    """Messages that are below the sequence and older than the time, but for the last `keep` of these."""

    channel: bytes
    before_sequence: int | None = None
    before_time_ns: int | None = None
    keep: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Read a request to purge a channel. Raises: ProtocolError."""
        fields = {
            "channel": documents.a_name,
            "before_sequence": documents.a_number,
            "before_time": documents.a_time,
            "keep": documents.a_number,
        }
        values = documents.read_document(payload, fields)
        if "before_time" in values:
            values["before_time_ns"] = values.pop("before_time")
        return cls(**_with_channel(values))

    def encode(self) -> bytes:
        before = self.before_time_ns
        return documents.write_document(
            {
                "channel": documents.name_of(self.channel),
                "before_sequence": self.before_sequence,
                "before_time": None if before is None else format_time(before),
                "keep": self.keep or None,
            }
        )


class DeleteRequest(Struct, frozen=True):
    """A request to delete a channel."""

    channel: bytes

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Read a request to delete a channel. Raises: ProtocolError."""
        return cls(**_with_channel(documents.read_document(payload, {"channel": documents.a_name})))

    def encode(self) -> bytes:
        return documents.write_document({"channel": documents.name_of(self.channel)})


class AdoptRequest(Struct, frozen=True):
    """A durable of `client_id`, or without one the durable queue group `durable`, becomes a consumer."""

    channel: bytes
    durable: bytes
    client_id: bytes = b""
    consumer: bytes = b""
    """Empty: named as the durable."""

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Read a request to adopt a channel. Raises: ProtocolError."""
        names = dict.fromkeys(("channel", "client_id", "durable", "consumer"), documents.a_name)
        values = _with_channel(documents.read_document(payload, names))
        if "durable" not in values:
            raise ProtocolError("durable is missing")
        return cls(**values)

    def encode(self) -> bytes:
        return documents.write_document(
            {
                "channel": documents.name_of(self.channel),
                "durable": documents.name_of(self.durable),
                "client_id": documents.name_of(self.client_id) or None,
                "consumer": documents.name_of(self.consumer) or None,
            }
        )


def _with_channel(values: dict[str, Any]) -> dict[str, Any]:
    if "channel" not in values:
        raise ProtocolError("channel is missing")
    return values


def error_document(code: int, description: str) -> dict[str, Any]:
    return {"error": {"code": code, "description": description}}


def read_answer(payload: bytes) -> dict[str, Any]:
    """An answer's object, an error too. Raises: ProtocolError."""
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the answer of the streaming server is not JSON: {error}") from None
    if not isinstance(answer, dict):
        raise ProtocolError("the answer of the streaming server is not a JSON object")
    return answer
