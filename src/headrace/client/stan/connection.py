"""The STAN client: one registered connection over a NATS connection of nats-py.

Here live connecting, requests and the end of a connection; publishing, subscriptions and pings have modules
of their own. After NATS has reconnected everything goes on under the same connection ID, since that is all
the streaming server knows of us. Source: NATS Streaming specification, sections 2, 3 and 12.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import secrets
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from headrace.client.errors import ClientError, ConnectError
from headrace.client.stan.errors import (
    BAD_SUBSCRIPTION,
    CLOSE_TIMEOUT,
    CLOSED,
    CONNECT_TIMEOUT,
    NOT_SUPPORTED,
    SUBSCRIBE_TIMEOUT,
    UNSUBSCRIBE_TIMEOUT,
    StanClosedError,
    StanConnectionLostError,
    StanError,
    StanTimeoutError,
    translated,
)
from headrace.client.stan.liveness import Pings
from headrace.client.stan.publishing import PublishWindow
from headrace.client.stan.replaying import REPLAY_TIMEOUT, Replay, replay_request
from headrace.client.stan.subscription import Message, Subscription, start_of
from headrace.errors import ProtocolError
from headrace.protocol.stan import (
    CloseRequest,
    CloseResponse,
    ConnectRequest,
    ConnectResponse,
    Ping,
    PingResponse,
    PubAck,
    StartPosition,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime, timedelta
    from types import ModuleType, TracebackType

    from nats.aio.client import Client as NatsClient
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription as NatsSubscription

    from headrace.client.stan.publishing import AckHandler

    ConnectionLost = Callable[["Client", StanConnectionLostError], object]

PROTOCOL: Final = 1
"""Protocol of streaming that is spoken: with connection IDs and pings."""

_log = logging.getLogger(__name__)

_Response = TypeVar("_Response", CloseResponse, ConnectResponse, SubscriptionResponse)


async def connect(
    cluster_id: str,
    client_id: str,
    *,
    nats: NatsClient | None = None,
    servers: str | Sequence[str] = "nats://127.0.0.1:4222",
    ping_interval: float = 5,
    ping_max_out: int = 88,
    connect_timeout: float = 2,
    pub_ack_timeout: float = 30,
    max_pub_acks_in_flight: int = 16384,
    discover_prefix: str = "_STAN.discover",
    connection_lost: ConnectionLost | None = None,
) -> Client:
    """A client registered as `client_id` with the streaming servers of `cluster_id`; times in seconds.

    Over the connection `nats` of nats-py, which stays open when the client closes, or over one of its own to
    `servers`, which reconnects for ever. `connect_timeout` is also what subscribing and closing wait.
    `connection_lost(client, error)`, a function or a coroutine function, is called once when the server has
    forgotten this connection or answers no pings; the client is closed then. The wire says `ping_interval` in
    whole seconds; the server may answer with other values, which are taken.

    Raises: ConnectError when nats-py is missing or no NATS server is there; StanTimeoutError; StanError with
    the server's text, such as that the client ID is taken; ValueError for a setting that makes no sense.
    """
    if ping_interval <= 0 or ping_max_out < 1 or max_pub_acks_in_flight < 1:
        raise ValueError("ping_interval, ping_max_out and max_pub_acks_in_flight must be positive")
    owned = nats is None
    connection = await _connect_nats(servers, client_id, connect_timeout) if nats is None else nats
    client = Client(
        connection,
        cluster_id,
        client_id,
        owned=owned,
        timeout=connect_timeout,
        connection_lost=connection_lost,
    )
    request = ConnectRequest(
        client_id.encode(),
        connection.new_inbox().encode(),
        PROTOCOL,
        secrets.token_hex(16).encode(),
        min(math.ceil(ping_interval), (1 << 31) - 1),
        ping_max_out,
    )
    try:
        await client._register(
            f"{discover_prefix}.{cluster_id}", request, ping_interval, max_pub_acks_in_flight, pub_ack_timeout
        )
    except BaseException:
        await client._let_go()
        raise
    return client


class Client:
    """A registered connection, made by `connect`; also `async with`, which closes it."""

    def __init__(
        self,
        nats: NatsClient,
        cluster_id: str,
        client_id: str,
        *,
        owned: bool,
        timeout: float,
        connection_lost: ConnectionLost | None,
    ) -> None:
        self.nats = nats
        self.cluster_id = cluster_id
        self.client_id = client_id
        self._owned = owned
        self._timeout = timeout
        self._connection_lost = connection_lost
        self._subjects = ConnectResponse()
        self._inboxes: list[NatsSubscription] = []
        self._subscriptions: dict[Subscription, NatsSubscription] = {}
        self._publisher: PublishWindow
        self._pings: Pings
        self._ack_subject = f"_STAN.acks.{secrets.token_hex(11)}"
        self._closed = False
        self._lost: StanConnectionLostError | None = None
        self._ending: asyncio.Task[None] | None = None

    # -- facts ------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True once `close` was called or the connection was lost."""
        return self._closed

    @property
    def unacknowledged(self) -> int:
        """Published messages on their way."""
        return self._publisher.unacknowledged

    # -- for the application ----------------------------------------------------------------------

    async def publish(self, channel: str, data: bytes) -> str:
        """Publish and wait until the server has stored it; the message's guid.

        Raises: StanTimeoutError when no acknowledgement came (it may be stored nevertheless); StanError with
        the server's text; StanConnectionLostError, StanClosedError; MaxPayloadError.
        """
        return await (await self.publish_async(channel, data))

    async def publish_async(
        self, channel: str, data: bytes, on_ack: AckHandler | None = None
    ) -> asyncio.Future[str]:
        """Publish, waiting only for room among the unacknowledged; a future of the guid.

        The future fails as `publish` does. `on_ack(guid, error)` is called as well, with None for success.
        Raises: StanClosedError, StanConnectionLostError, MaxPayloadError: nothing was sent.
        """
        self._check_open()
        return await self._publisher.publish(channel, data, on_ack)

    async def subscribe(
        self,
        channel: str,
        callback: Callable[[Message], object] | None = None,
        *,
        queue: str = "",
        durable_name: str = "",
        start_at: StartPosition | None = None,
        sequence: int | None = None,
        time: datetime | None = None,
        time_delta: timedelta | None = None,
        max_in_flight: int = 1024,
        ack_wait: int = 30,
        manual_acks: bool = False,
    ) -> Subscription:
        """Subscribe to a channel; without a start it begins with the next new message.

        The callback is a function or a coroutine function; one message at a time, in order. While it waits,
        heartbeats and pings go on. Without a callback, iterate over the subscription. `ack_wait` in seconds.

        Raises: StanTimeoutError; StanError with the server's text; StanClosedError; ValueError for a start
        that contradicts itself.
        """
        self._check_open()
        start = start_of(start_at, sequence, time, time_delta)
        subscription = Subscription(
            self,
            channel,
            self.nats.new_inbox(),
            queue=queue,
            durable_name=durable_name,
            max_in_flight=max_in_flight,
            manual_acks=manual_acks,
            callback=callback,
        )
        request = SubscriptionRequest(
            self.client_id.encode(),
            channel.encode(),
            queue.encode(),
            subscription.inbox.encode(),
            max_in_flight,
            ack_wait,
            durable_name.encode(),
            start.position,
            start.sequence,
            start.delta_ns,
        )
        await self._open(subscription, request)
        return subscription

    def replay(
        self,
        channel: str,
        *,
        start_sequence: int | None = None,
        start_time: datetime | None = None,
        time_delta: timedelta | None = None,
        end_sequence: int | None = None,
        end_time: datetime | None = None,
        max_messages: int | None = None,
        order: str = "",
        timeout: float = REPLAY_TIMEOUT,
    ) -> Replay:
        """The stored messages of a channel, or of all that `*` and `>` match, to be iterated over.

        Without a start from the first one, and up to what is there when the iteration begins; both ends
        belong to it. `order` is "time" (what wildcards have by default) or "channel". Nothing is acknowledged
        or redelivered; `timeout` is how many seconds the server may be silent.

        Raises: ValueError for a request that contradicts itself.
        """
        self._check_open()
        request = replay_request(
            channel,
            start_sequence=start_sequence,
            start_time=start_time,
            time_delta=time_delta,
            end_sequence=end_sequence,
            end_time=end_time,
            max_messages=max_messages,
            order=order,
        )
        return Replay(self.nats, self.cluster_id, request, timeout)

    async def close(self) -> None:
        """Leave the server. Subscriptions end, durable ones can be opened again; publishes in flight fail.

        A second call does nothing. Raises: StanTimeoutError; StanError with the server's text; closed it is
        in any case.
        """
        if self._closed:
            if self._ending is not None and self._ending is not asyncio.current_task():
                await self._ending
            return
        self._end(StanClosedError(CLOSED))
        try:
            request = CloseRequest(self.client_id.encode())
            await self._request(self._subjects.close_requests, request, CloseResponse, CLOSE_TIMEOUT)
        finally:
            await self._let_go()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for subscriptions ------------------------------------------------------------------------

    async def send_ack(self, ack_inbox: str, ack: bytes) -> None:
        """Send an acknowledgement. Raises: StanClosedError, or another ClientError for what NATS refuses."""
        self._check_open()
        await self._send(ack_inbox, ack)

    async def leave(self, subscription: Subscription, *, for_good: bool) -> None:
        """End a subscription here and at the server. Raises: as `Subscription.unsubscribe`."""
        self._check_open()
        if subscription not in self._subscriptions:
            raise StanError(BAD_SUBSCRIPTION)
        subject = self._subjects.unsub_requests if for_good else self._subjects.sub_close_requests
        if not subject:
            raise StanError(NOT_SUPPORTED)
        subscription.end()
        await self._drop(self._subscriptions.pop(subscription))
        timeout = UNSUBSCRIBE_TIMEOUT if for_good else CLOSE_TIMEOUT
        await self._request(
            subject, self._farewell(subscription, subscription.ack_inbox), SubscriptionResponse, timeout
        )

    def failed(self, subscription: Subscription, what: str, error: Exception) -> None:
        """Tell the event loop's exception handler, as asyncio does for what no caller is there for."""
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"STAN subscription to {subscription.channel!r}: {what}", "exception": error}
        )

    # -- connecting -------------------------------------------------------------------------------

    async def _register(
        self, discovery: str, request: ConnectRequest, ping_interval: float, window: int, ack_timeout: float
    ) -> None:
        """Register and start what a registered connection has running."""
        ping_inbox = self.nats.new_inbox()
        await self._listen(request.heartbeat_inbox.decode(), self._heartbeat)
        await self._listen(ping_inbox, self._ping_answered)
        await self._listen(self._ack_subject, self._publish_acknowledged)
        answer = await self._request(discovery.encode(), request, ConnectResponse, CONNECT_TIMEOUT)
        if not (
            answer.pub_prefix and answer.sub_requests and answer.unsub_requests and answer.close_requests
        ):
            raise ProtocolError("the streaming server's answer to connecting lacks subjects")
        self._subjects = answer
        prefix = answer.pub_prefix.decode()
        self._publisher = PublishWindow(
            lambda channel, message: self._send(f"{prefix}.{channel}", message, self._ack_subject),
            request.client_id,
            request.conn_id,
            window=window,
            timeout=ack_timeout,
        )
        if answer.ping_interval > 0 and answer.ping_interval != request.ping_interval:
            ping_interval = answer.ping_interval
        ping = Ping(request.conn_id).encode()
        self._pings = Pings(
            lambda: self._ping(ping, ping_inbox),
            self._lose,
            ping_interval,
            answer.ping_max_out or request.ping_max_out,
        )
        self._pings.start()

    async def _listen(self, subject: str, handler: Callable[[Msg], Awaitable[None]]) -> None:
        try:
            self._inboxes.append(await self.nats.subscribe(subject, cb=handler))
        except _nats_module().errors.Error as error:
            raise translated(error) from error

    async def _open(self, subscription: Subscription, request: SubscriptionRequest) -> None:
        """Ask for a subscription, its inbox being subscribed to before on the same connection, so that no
        message can come too early."""

        async def arrive(message: Msg) -> None:
            subscription.arrive(message.data)

        payload = request.encode()  # raises for numbers that do not fit, before anything is there to undo
        try:
            inbox = await self.nats.subscribe(subscription.inbox, cb=arrive)
        except _nats_module().errors.Error as error:
            raise translated(error) from error
        try:
            answer = await self._ask(
                self._subjects.sub_requests, payload, SubscriptionResponse, SUBSCRIBE_TIMEOUT
            )
            self._check_open()
        except BaseException as error:
            await self._drop(inbox)
            if isinstance(error, StanTimeoutError | asyncio.CancelledError):
                await self._disown(subscription)
            raise
        self._subscriptions[subscription] = inbox
        subscription.begin(answer.ack_inbox.decode())

    async def _disown(self, subscription: Subscription) -> None:
        """Close a subscription that the server may have made unknown to us; it finds it by its inbox."""
        subject = self._subjects.sub_close_requests or self._subjects.unsub_requests
        try:
            await self._send(subject.decode(), self._farewell(subscription, subscription.inbox).encode())
        except ClientError as error:
            _log.debug("subscription to %s not disowned: %s", subscription.channel, error)

    def _farewell(self, subscription: Subscription, inbox: str) -> UnsubscribeRequest:
        return UnsubscribeRequest(
            self.client_id.encode(),
            subscription.channel.encode(),
            inbox.encode(),
            subscription.durable_name.encode(),
        )

    # -- what comes by itself ---------------------------------------------------------------------

    async def _heartbeat(self, message: Msg) -> None:
        if message.reply:
            await self.nats.publish(message.reply, b"")

    async def _publish_acknowledged(self, message: Msg) -> None:
        try:
            ack = PubAck.decode(message.data)
        except ProtocolError as error:
            _log.warning("malformed publish acknowledgement ignored: %s", error)
            return
        self._publisher.acknowledge(ack)

    async def _ping(self, ping: bytes, inbox: str) -> None:
        """One ping; of what cannot be sent just now the count of unanswered ones takes care."""
        if self.nats.is_closed:
            return self._lose(CLOSED)
        if not self._subjects.ping_requests:
            return self._pings.answered("")
        try:
            await self._send(self._subjects.ping_requests.decode(), ping, inbox)
        except ClientError as error:
            _log.debug("ping not sent: %s", error)
        return None

    async def _ping_answered(self, message: Msg) -> None:
        if message.headers:  # 503: NATS is there, the streaming server is not
            return
        try:
            answer = PingResponse.decode(message.data)
        except ProtocolError as error:
            _log.warning("malformed ping response ignored: %s", error)
            return
        self._pings.answered(answer.error.decode(errors="replace"))

    # -- the end ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StanClosedError(CLOSED) from self._lost

    def _lose(self, reason: str) -> None:
        """The connection is lost; the application hears of it when everything has ended."""
        if self._closed:
            return
        self._lost = error = StanConnectionLostError(reason)
        self._end(error)
        # A task of its own: this may run in one of the tasks that are ended.
        self._ending = asyncio.get_running_loop().create_task(self._end_lost(error), name="stan-lost")

    async def _end_lost(self, error: StanConnectionLostError) -> None:
        await self._let_go()
        if self._connection_lost is not None:
            result = self._connection_lost(self, error)
            if inspect.isawaitable(result):
                await result

    def _end(self, reason: StanError) -> None:
        self._closed = True
        self._pings.stop()
        self._publisher.end(reason)
        for subscription in self._subscriptions:
            subscription.end(self._lost)

    async def _let_go(self) -> None:
        """Close the NATS connection; one that the caller gave stays open, without our subscriptions."""
        inboxes = [*self._inboxes, *self._subscriptions.values()]
        self._inboxes.clear()
        self._subscriptions.clear()
        if self._owned:
            await self.nats.close()
            return
        for inbox in inboxes:
            await self._drop(inbox)

    async def _drop(self, inbox: NatsSubscription) -> None:
        # A NATS connection that is closed or draining has no subscriptions left to end.
        with contextlib.suppress(_nats_module().errors.Error):
            await inbox.unsubscribe()

    # -- NATS -------------------------------------------------------------------------------------

    async def _request(self, subject: bytes, request: Any, kind: type[_Response], if_late: str) -> _Response:
        return await self._ask(subject, request.encode(), kind, if_late)

    async def _ask(self, subject: bytes, payload: bytes, kind: type[_Response], if_late: str) -> _Response:
        """The server's answer. Raises: StanTimeoutError(if_late); StanError with the server's text."""
        errors = _nats_module().errors
        try:
            message = await self.nats.request(subject.decode(), payload, timeout=self._timeout)
        except (errors.TimeoutError, errors.NoRespondersError) as error:
            raise StanTimeoutError(if_late) from error
        except errors.Error as error:
            raise translated(error) from error
        answer = kind.decode(message.data)
        if answer.error:
            raise StanError(answer.error.decode(errors="replace"))
        return answer

    async def _send(self, subject: str, payload: bytes, reply: str = "") -> None:
        try:
            await self.nats.publish(subject, payload, reply=reply)
        except _nats_module().errors.Error as error:
            raise translated(error) from error


def _nats_module() -> ModuleType:
    """nats-py, loaded when it is needed. Raises: ConnectError when it is not installed."""
    try:
        import nats
        import nats.errors
    except ImportError:
        raise ConnectError("the STAN client needs nats-py: pip install 'nats-py>=2.9'") from None
    return nats


async def _connect_nats(servers: str | Sequence[str], name: str, patience: float) -> NatsClient:
    """A connection that reconnects for ever, once it is there.

    Raises: ConnectError, after `patience` seconds at most.
    """
    errors = _nats_module().errors
    from nats.aio.client import Client as NatsClient

    connection = NatsClient()
    last: Exception | None = None

    async def note(error: Exception) -> None:
        nonlocal last
        last = error
        if connection.is_connected:
            _log.warning("NATS connection of STAN client %s: %s", name, error)

    wanted = servers if isinstance(servers, str) else list(servers)
    try:
        # Asked to reconnect for ever, nats-py also tries for ever to connect the first time.
        async with asyncio.timeout(patience):
            await connection.connect(
                wanted,
                name=name,
                error_cb=note,
                connect_timeout=math.ceil(patience),
                max_reconnect_attempts=-1,
            )
    except (errors.Error, OSError) as error:
        await connection.close()
        raise ConnectError(f"no NATS connection for the STAN client: {last or error!r}") from (last or error)
    except BaseException:
        await connection.close()
        raise
    return connection
