"""A blocking connection that comes back after an outage, with its subscriptions.

    with reconnecting("nats://127.0.0.1:4222") as nc:
        nc.subscribe("flights.>")
        while True:
            batch = nc.receive()

What was published or sent to the subscriptions while the server was away is gone: `on_loss` and `on_return`
are called, so that a program can say so. A request that was sent and not answered when the connection broke
ends with `ConnectionLostError`: nobody knows whether it was carried out. A server that refuses the client
ends the connection.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from headrace.client.blocking import DEFAULT_TIMEOUT, Connection
from headrace.client.codec import MessageBatch
from headrace.client.errors import (
    AddressError,
    ClientError,
    ClientTimeoutError,
    ConnectionLostError,
    NoRespondersError,
    ServerError,
)
from headrace.client.handshake import open_connection
from headrace.client.options import ConnectOptions, resolve_addresses
from headrace.client.retries import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.client.address import ServerAddress
    from headrace.client.blocking import ReceivedMessage

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


def reconnecting(
    url: str | None = None,
    options: ConnectOptions | None = None,
    *,
    patience: float | None = None,
    on_loss: Callable[[ClientError], object] = lambda _: None,
    on_return: Callable[[], object] = lambda: None,
) -> ReconnectingConnection:
    """An open connection that comes back, to the first reachable server of `url`, as `connect`.

    `patience`: seconds after which an outage ends it (None: never). `on_loss` is called with the error at the
    beginning of an outage, `on_return` when the subscriptions are there again.

    Raises: AddressError, ConnectError, ClientTimeoutError; ServerError if the server refuses CONNECT.
    """
    chosen = options or ConnectOptions()
    return ReconnectingConnection(resolve_addresses(url), chosen, patience, on_loss, on_return)


class ReconnectingConnection(Connection):
    """A connection that is opened again where it was lost; see `reconnecting`.

    Raises, from every call: the error of the outage once `patience` is over; ServerError that refuses the
    client when it comes back.
    """

    def __init__(
        self,
        addresses: tuple[ServerAddress, ...],
        options: ConnectOptions,
        patience: float | None,
        on_loss: Callable[[ClientError], object],
        on_return: Callable[[], object],
    ) -> None:
        super().__init__(open_connection(addresses, options), options)
        self._addresses = addresses
        self._patience = patience
        self._on_loss = on_loss
        self._on_return = on_return
        self.outages = 0
        """The number of times that the connection was lost and came back."""

    def __enter__(self) -> Self:
        return self

    def survives(self, error: ClientError) -> bool:
        """True if an error is an outage, or the silence of one: the next call finds another connection."""
        return not self._closed and (
            _is_loss(error) or isinstance(error, (ClientTimeoutError, NoRespondersError))
        )

    def send(self, frames: bytes) -> None:
        """Queue frames as `Connection.send`; on the next connection if this one was lost."""
        self._come_back()
        super().send(frames)

    def subscribe(self, subject: str | bytes, queue: str | bytes | None = None) -> bytes:
        """Ask for the messages of a subject, on this connection and on those after it; gives the sid."""
        self._come_back()
        try:
            return super().subscribe(subject, queue)
        except ConnectionLostError:
            self._come_back()
            return b"%d" % self._subscriptions.last_sid

    def unsubscribe(self, sid: bytes, max_messages: int | None = None) -> None:
        """End a subscription, now or once it has had `max_messages` in all."""
        self._come_back()
        super().unsubscribe(sid, max_messages)

    def receive(self, timeout: float | None = None) -> MessageBatch:
        """The messages that have arrived, as `Connection.receive`; outages count as waiting."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                return super().receive(left)
            except (ConnectionLostError, ServerError) as error:
                if not self._come_back(error, deadline):
                    return self._take()

    def receive_of(self, sid: bytes, timeout: float) -> MessageBatch:
        """Receive messages of one subscription, as `Connection.receive_of`.

        An outage is waited for, and the batch behind it is empty: what was asked before has no answer.
        """
        deadline = time.monotonic() + timeout
        try:
            return super().receive_of(sid, timeout)
        except (ConnectionLostError, ServerError) as error:
            self._come_back(error, deadline)
            return MessageBatch()

    def request(
        self,
        subject: str | bytes,
        data: bytes = b"",
        *,
        headers: Mapping[str, str | Iterable[str]] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> ReceivedMessage:
        """Publish with a reply subject and wait for one answer, as `Connection.request`.

        Raises: ConnectionLostError if the connection breaks in between; the next call finds another one.
        """
        deadline = time.monotonic() + timeout
        self._come_back(None, deadline)
        left = max(deadline - time.monotonic(), 0.0)
        return super().request(subject, data, headers=headers, timeout=left)

    def flush(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Return once the server has handled everything sent so far.

        Raises: ConnectionLostError if the connection broke: what was sent may be lost. The next call goes on.
        """
        super().flush(timeout)

    def _come_back(self, error: ClientError | None = None, deadline: float | None = None) -> bool:
        """Connect again if the connection is over; False if the deadline came first.

        Raises: `error` again if the connection is not over, or was closed here; ServerError.
        """
        lost = self._error
        if lost is None or self._closed:
            if error is not None and (self._closed or not _is_loss(error)):
                raise error
            return True
        if not _is_loss(lost):
            self._raise_error()
        self._stream.close()
        self._on_loss(lost)
        began, pauses = time.monotonic(), Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, jitter=0.5)
        while True:
            try:
                opening = open_connection(self._known_addresses(), self._options)
                break
            except (AddressError, ServerError):
                raise
            except ClientError as failure:
                now = time.monotonic()
                if self._patience is not None and now - began >= self._patience:
                    raise failure from lost
                pause = pauses.next()
                if deadline is not None and now + pause >= deadline:
                    time.sleep(max(deadline - now, 0.0))
                    return False
                time.sleep(pause)
        self.address = opening.machine.address
        self._stream, self._machine, self._error = opening.stream, opening.machine, None
        self._machine.send(self._subscriptions.frames())
        self._note_events()
        self.outages += 1
        self._write_below(1, time.monotonic() + DEFAULT_TIMEOUT)
        self._on_return()
        return True

    def _known_addresses(self) -> tuple[ServerAddress, ...]:
        """Return the addresses given, and those of the cluster that the last server told."""
        from headrace.client.address import parse_address

        told = []
        for url in self._machine.info.connect_urls:
            try:
                told.append(parse_address(url)._replace(credentials=self._addresses[0].credentials))
            except AddressError:  # a server may tell what it likes
                continue
        known = {(address.host, address.port) for address in self._addresses}
        return self._addresses + tuple(each for each in told if (each.host, each.port) not in known)


def _is_loss(error: ClientError) -> bool:
    """True for an outage; False for a server that refuses this client, or a remark that ends nothing."""
    if isinstance(error, ServerError):
        return error.fatal and not error.text.lower().startswith(("authorization", "user authentication"))
    return isinstance(error, ConnectionLostError)
