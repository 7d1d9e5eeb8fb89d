"""Clients: connect (an earlier client of the same ID is asked whether it lives), heartbeats, pings, close.

What becomes of a closed client's subscriptions is `subscribing`'s. Source: streaming specification, 3.

A client ID has an owner: the user who registered it, for as long as it is registered. STAN itself has no
users: whoever may publish to its subjects may act for any ID. Where the server has users, a request for an ID
that another one registered is refused. A user is what credentials prove: with one token for all there is
none, nor where a callout names none. Who asks through another server of a cluster, a leaf node or a gateway
is not known here and is let through, as everybody is without users: other servers are trusted. An ID that was
closed, or given up by heartbeats, is free again for everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.core.service import REQUEST_INFO
from headrace.errors import ProtocolError
from headrace.protocol.jetstream.headers import value
from headrace.protocol.stan import (
    ClientInfo,
    CloseRequest,
    CloseResponse,
    ConnectRequest,
    ConnectResponse,
    Ping,
    PingResponse,
)
from headrace.streaming import error_texts
from headrace.streaming.naming import is_client_id, is_publishable, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery, Timer
    from headrace.errors import LogError
    from headrace.protocol.stan import ServerInfo
    from headrace.streaming.context import Context
    from headrace.streaming.journal import StreamingJournal
    from headrace.streaming.requests import Requests
    from headrace.streaming.subscription import ChannelSubscription

_PROTOCOL = 1

DUP_CID_TIMEOUT: Final = 0.5
"""Seconds that a registered client has to prove that it lives when its ID connects again."""


class RegisteredClient:
    """A client of the streaming service."""

    __slots__ = ("beating", "closed", "failed", "info", "subscriptions", "timer")

    def __init__(self, info: ClientInfo) -> None:
        self.info = info
        self.subscriptions: dict[int, ChannelSubscription] = {}
        self.failed = 0
        """Heartbeats that failed one after another."""
        self.closed = False
        self.beating = False
        """True while the answer to a heartbeat is awaited."""
        self.timer: Timer | None = None

    @property
    def id(self) -> bytes:
        return self.info.id


class ClientRegistry:
    """The clients of the streaming service: connected, heard of, closed."""

    def __init__(
        self, context: Context, journal: StreamingJournal, requests: Requests, server: ServerInfo
    ) -> None:
        self._context = context
        self._journal = journal
        self._requests = requests
        self._server = server
        self._by_id: dict[bytes, RegisteredClient] = {}
        self._by_connection: dict[bytes, RegisteredClient] = {}
        self._probing: set[bytes] = set()
        self._release: Callable[[RegisteredClient], None] = lambda _client: None
        self._recovered: Callable[[RegisteredClient], None] = lambda _client: None

    def connect_to(
        self, release: Callable[[RegisteredClient], None], recovered: Callable[[RegisteredClient], None]
    ) -> None:
        """Connect the clients to the part that has their subscriptions.

        `release` ends a leaving client's subscriptions, `recovered` serves those of one that is back.
        """
        self._release, self._recovered = release, recovered

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[RegisteredClient]:
        return list(self._by_id.values())

    def get(self, client_id: bytes) -> RegisteredClient | None:
        return self._by_id.get(client_id)

    def may_publish(self, client_id: bytes, connection_id: bytes) -> bool:
        """A connection ID alone decides; only without one is the client ID looked up."""
        return connection_id in self._by_connection if connection_id else client_id in self._by_id

    # -- connect and close -----------------------------------------------------------------------------

    def connect(self, delivery: Delivery) -> None:
        if self._requests.owns(delivery.reply):
            return  # this service's own look for another server
        try:
            request = ConnectRequest.decode(delivery.payload)
        except ProtocolError:
            self._refuse(delivery.reply, error_texts.INVALID_CONNECT)
            return
        if not is_publishable(request.heartbeat_inbox):
            self._refuse(delivery.reply, error_texts.INVALID_CONNECT)
        elif not is_client_id(request.client_id):
            self._refuse(delivery.reply, error_texts.INVALID_CLIENT_ID)
        elif request.client_id in self._probing:
            self._already_connected(request, delivery.reply)
        elif (old := self._by_id.get(request.client_id)) is None:
            self._register(request, delivery, "Connected")
        elif _is_anothers(old.info, _user_of(delivery)):
            self._warn_of_another(old, "connect")
            self._already_connected(request, delivery.reply)
        else:
            self._probing.add(request.client_id)
            self._requests.ask(
                old.info.hb_inbox,
                DUP_CID_TIMEOUT,
                lambda alive: self._probed(request, delivery, alive),
            )

    def _warn_of_another(self, client: RegisteredClient, what: str) -> None:
        self._context.note.warning(
            "[Client:%s] Request to %s refused: the client ID belongs to another user", shown(client.id), what
        )

    def may_act(self, client: RegisteredClient, delivery: Delivery, what: str) -> bool:
        """True if the publisher may act for a client. Another user may not, and gets a log line."""
        if _is_anothers(client.info, _user_of(delivery)):
            self._warn_of_another(client, what)
            return False
        return True

    def _probed(self, request: ConnectRequest, delivery: Delivery, alive: bool) -> None:
        self._probing.discard(request.client_id)
        old = self._by_id.get(request.client_id)
        if alive and old is not None:
            self._already_connected(request, delivery.reply)
            return
        if old is not None:
            self.close(old)
        self._register(request, delivery, "Replaced old client")

    def _already_connected(self, request: ConnectRequest, reply: bytes) -> None:
        self._context.note.debug("[Client:%s] Connect failed; already connected", shown(request.client_id))
        self._refuse(reply, error_texts.CLIENT_REGISTERED)

    def _register(self, request: ConnectRequest, delivery: Delivery, verb: str) -> None:
        info = ClientInfo(
            id=request.client_id,
            hb_inbox=request.heartbeat_inbox,
            conn_id=request.conn_id,
            protocol=request.protocol,
            ping_interval=request.ping_interval,
            ping_max_out=request.ping_max_out,
            owner=_user_of(delivery),
        )
        client = self.add(info)
        self._journal.client(info)
        self._context.note.debug("[Client:%s] %s (Inbox=%s)", shown(info.id), verb, shown(info.hb_inbox))
        self._journal.after_commit(lambda error: self._registered(client, delivery.reply, error))

    def _registered(self, client: RegisteredClient, reply: bytes, error: LogError | None) -> None:
        info = client.info
        if error is not None:
            if not client.closed:
                self.close(client)
            self._refuse(reply, str(error).encode())
            return
        server = self._server
        pings = info.protocol >= _PROTOCOL
        response = ConnectResponse(
            pub_prefix=server.publish,
            sub_requests=server.subscribe,
            unsub_requests=server.unsubscribe,
            close_requests=server.close,
            sub_close_requests=server.sub_close,
            ping_requests=server.discovery + b".pings" if pings else b"",
            ping_interval=info.ping_interval if pings else 0,
            ping_max_out=info.ping_max_out if pings else 0,
            protocol=_PROTOCOL,
        )
        self._answer(reply, response.encode())

    def add(self, info: ClientInfo) -> RegisteredClient:
        """A client that is known from now on, and heartbeated."""
        client = RegisteredClient(info)
        self._by_id[info.id] = client
        if info.conn_id:
            self._by_connection[info.conn_id] = client
        self._next_beat(client)
        return client

    def close(self, client: RegisteredClient) -> None:
        """Close a client as a CloseRequest does: its durables go offline, other subscriptions go."""
        client.closed = True
        if client.timer is not None:
            client.timer.cancel()
        self._release(client)
        del self._by_id[client.id]
        if self._by_connection.get(client.info.conn_id) is client:
            del self._by_connection[client.info.conn_id]
        self._journal.client_gone(client.id)
        self._context.note.debug(
            "[Client:%s] Closed (Inbox=%s)", shown(client.id), shown(client.info.hb_inbox)
        )

    def close_request(self, delivery: Delivery) -> None:
        try:
            client_id = CloseRequest.decode(delivery.payload).client_id
        except ProtocolError:
            self._answer(delivery.reply, CloseResponse(error_texts.INVALID_CLOSE).encode())
            return
        client = self._by_id.get(client_id)
        if client is None:
            self._context.note.error("[Client:%s] Unknown client in close request", shown(client_id))
            self._answer(delivery.reply, CloseResponse(error_texts.UNKNOWN_CLIENT).encode())
            return
        if not self.may_act(client, delivery, "close"):
            self._answer(delivery.reply, CloseResponse(error_texts.CLIENT_OF_ANOTHER).encode())
            return
        self.close(client)
        self._journal.after_commit(lambda error: self._closed(delivery.reply, error))

    def _closed(self, reply: bytes, error: LogError | None) -> None:
        self._answer(reply, CloseResponse(str(error).encode() if error is not None else b"").encode())

    def _refuse(self, reply: bytes, text: bytes) -> None:
        self._answer(reply, ConnectResponse(error=text).encode())

    def _answer(self, reply: bytes, payload: bytes) -> None:
        if reply:
            self._context.host.publish(reply, payload)

    # -- liveness --------------------------------------------------------------------------------------

    def ping(self, delivery: Delivery) -> None:
        """Tell a client whether it is still the registered one; a failing one is heartbeated at once."""
        if not delivery.payload:
            return
        try:
            connection_id = Ping.decode(delivery.payload).conn_id
        except ProtocolError as error:
            self._context.note.error("Invalid ping request: %s", error)
            return
        client = self._by_connection.get(connection_id)
        if client is None:
            self._answer(delivery.reply, PingResponse(error_texts.CLIENT_REPLACED).encode())
            return
        if client.failed and not client.beating:
            self._beat(client)
        self._answer(delivery.reply, PingResponse().encode())

    def _next_beat(self, client: RegisteredClient) -> None:
        client.timer = self._context.later(self._context.options.hb_interval, lambda: self._beat(client))

    def _beat(self, client: RegisteredClient) -> None:
        if client.closed or client.beating:
            return
        if client.timer is not None:
            client.timer.cancel()
            client.timer = None
        client.beating = True
        timeout = self._context.options.hb_timeout
        self._requests.ask(client.info.hb_inbox, timeout, lambda alive: self._beaten(client, alive))

    def _beaten(self, client: RegisteredClient, alive: bool) -> None:
        client.beating = False
        if client.closed:
            return
        if alive:
            had_failed, client.failed = client.failed > 0, 0
            if had_failed:
                self._recovered(client)
        else:
            client.failed += 1
            if client.failed > self._context.options.hb_fail_count:
                self._context.note.debug("[Client:%s] Timed out on heartbeats", shown(client.id))
                self.close(client)
                return
        self._next_beat(client)


def _user_of(delivery: Delivery) -> bytes:
    """Return the account and user of a publisher, as the host says it; b"": unknown, or none of the users."""
    return value(delivery.headers, REQUEST_INFO) if delivery.headers else b""


def _is_anothers(info: ClientInfo, user: bytes) -> bool:
    """True if a client belongs to another user than the one who asks now."""
    return bool(info.owner) and bool(user) and info.owner != user
