"""Looking after the channels of a running streaming server, over the blocking client.

Requests and typed answers; a text of the server is the exception's text. Nothing is asked of a user here,
nothing is retried. Source of the shapes: `headrace.protocol.admin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from headrace.client.errors import NoRespondersError, StreamingRefusedError
from headrace.errors import ProtocolError
from headrace.protocol.admin import (
    AdoptRequest,
    ChannelPurgeRequest,
    DeleteRequest,
    ListRequest,
    read_answer,
)
from headrace.protocol.documents import name_of, raw_name
from headrace.protocol.rfc3339 import parse_time
from headrace.protocol.stan import ADMINISTRATION_PREFIX

if TYPE_CHECKING:
    from headrace.client.blocking import Connection

DEFAULT_TIMEOUT: Final = 30.0


class SubscriptionInfo(Struct, frozen=True):
    """One subscription of a channel, under the names of /streaming/channelsz."""

    client_id: str
    durable_name: str
    queue_name: str
    is_offline: bool
    last_sent: int
    pending_count: int


class ChannelInfo(Struct, frozen=True):
    """One channel. An empty one's `first_seq` is one above its `last_seq`. Times are ns, 0: there is none."""

    name: str
    """Bytes that are not UTF-8 are lone surrogates, as `os.fsdecode` has them."""
    msgs: int
    bytes: int
    first_seq: int
    last_seq: int
    subs_count: int
    last_time_ns: int
    created_ns: int
    damaged: int
    """Messages found unreadable since the server was started."""
    subscriptions: list[SubscriptionInfo] = field(default_factory=list)


class StreamingAdmin:
    """Administration of the channels of a streaming server.

    Every method raises: StreamingRefusedError; NoRespondersError when no streaming server of the cluster ID
    is there; ClientTimeoutError; what ends the connection; ProtocolError for a bad answer.
    """

    def __init__(self, connection: Connection, cluster_id: str, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Administer the channels of a cluster ID over a connection. `timeout` in seconds, for one answer."""
        self._connection = connection
        self._subject = f"{ADMINISTRATION_PREFIX}{cluster_id}"
        self._timeout = timeout

    def channels(self, channel: str = ">", *, subscriptions: bool = False) -> list[ChannelInfo]:
        """Channels by name, those that a name or wildcards mean."""
        pattern = channel.encode("utf-8", "surrogateescape")
        found: list[ChannelInfo] = []
        while True:
            request = ListRequest(pattern, len(found))
            answer = self._ask("report" if subscriptions else "channels", request.encode())
            try:
                page = [_channel(one) for one in answer["channels"]]
                total = int(answer["total"])
            except (KeyError, TypeError, ValueError) as error:
                raise ProtocolError(f"not a streaming server's list of channels: {error!r}") from error
            found += page
            if not page or len(found) >= total:
                return found

    def purge(
        self,
        channel: str,
        *,
        before_sequence: int | None = None,
        before_time_ns: int | None = None,
        keep: int = 0,
    ) -> tuple[int, ChannelInfo]:
        """Remove messages of one channel; return their number, and the channel after it.

        It is durable when this returns.
        """
        request = ChannelPurgeRequest(
            channel.encode("utf-8", "surrogateescape"), before_sequence, before_time_ns, keep
        )
        answer = self._ask("purge", request.encode())
        try:
            return int(answer["purged"]), _channel(answer["channel"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not the answer to a purge: {error!r}") from error

    def delete(self, channel: str) -> tuple[int, int]:
        """Remove one channel and end its subscriptions; return the number of messages and subscriptions it
        had.
        """
        answer = self._ask("delete", DeleteRequest(channel.encode("utf-8", "surrogateescape")).encode())
        try:
            return int(answer["messages"]), int(answer["subscriptions"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not the answer to a deletion: {error!r}") from error

    def adopt(
        self, channel: str, durable: str, *, client_id: str = "", consumer: str = ""
    ) -> tuple[str, str, int]:
        """A durable becomes a consumer: its stream, its name, and how many messages it has pending."""
        raw = (text.encode("utf-8", "surrogateescape") for text in (channel, durable, client_id, consumer))
        answer = self._ask("adopt", AdoptRequest(*raw).encode())
        try:
            return str(answer["stream"]), str(answer["consumer"]), int(answer["pending"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not the answer to an adoption: {error!r}") from error

    def _ask(self, verb: str, payload: bytes) -> dict[str, Any]:
        try:
            message = self._connection.request(f"{self._subject}.{verb}", payload, timeout=self._timeout)
        except NoRespondersError as nobody:
            cluster = self._subject.removeprefix(ADMINISTRATION_PREFIX)
            raise NoRespondersError(
                f"no NATS Streaming (STAN) server of cluster ID {cluster} answers"
            ) from nobody
        answer = read_answer(message.data)
        error = answer.get("error")
        if error is None:
            return answer
        if not isinstance(error, dict) or not isinstance(error.get("code"), int):
            raise ProtocolError("an error of the streaming server has no code")
        raise StreamingRefusedError(error["code"], str(error.get("description", "")))


def _channel(one: dict[str, Any]) -> ChannelInfo:
    return ChannelInfo(
        name=name_of(raw_name(one["name"])),
        msgs=int(one["msgs"]),
        bytes=int(one["bytes"]),
        first_seq=int(one["first_seq"]),
        last_seq=int(one["last_seq"]),
        subs_count=int(one["subs_count"]),
        last_time_ns=parse_time(one["last_time"]) if one.get("last_time") else 0,
        created_ns=parse_time(one["created"]),
        damaged=int(one["damaged"]),
        subscriptions=[_subscription(sub) for sub in one.get("subscriptions") or ()],
    )


def _subscription(one: dict[str, Any]) -> SubscriptionInfo:
    return SubscriptionInfo(
        client_id=str(one["client_id"]),
        durable_name=str(one["durable_name"]),
        queue_name=str(one["queue_name"]),
        is_offline=bool(one["is_offline"]),
        last_sent=int(one["last_sent"]),
        pending_count=int(one["pending_count"]),
    )
