"""One connection to a NATS server, for a service: from the TCP handshake to its end.

Lives: TLS, INFO and CONNECT, keep-alive, frames in and out. Never: what follows a lost connection (`host`).
The blocking twin for notebooks is `headrace.client.blocking`; both read with `headrace.client.codec`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace import limits
from headrace.client.codec import PING, PONG, Control, FrameParser, MessageBatch, Op, encode_connect
from headrace.client.errors import ClientError, ClientTimeoutError, ConnectError, ServerError
from headrace.client.handshake import connect_fields, server_error
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.attached.identity import Identity
    from headrace.client.address import Credentials, ServerAddress
    from headrace.client.handshake import ConnectOptions

MAX_PENDING: Final = 64 << 20
"""Bytes that may wait for the server to take them; more: the connection is given up, as it would do."""


class Login(Struct, frozen=True):
    """The beginning of a connection: options of CONNECT, credentials, and the name that a certificate must
    have.
    """

    options: ConnectOptions
    identity: Identity
    credentials: Credentials
    server_name: str | None = None


class Connection(asyncio.Protocol):
    """Calls `receive` with the messages of one read, and `lost` once, with the reason, when it is over."""

    def __init__(
        self,
        address: ServerAddress,
        login: Login,
        *,
        receive: Callable[[MessageBatch], None],
        lost: Callable[[Connection, str], None],
        said: Callable[[str], None],
    ) -> None:
        self.address = address
        self.info: dict[str, object] = {}
        self._login = login
        self._receive, self._lost, self._said = receive, lost, said
        self._loop = asyncio.get_running_loop()
        self._parser = FrameParser()
        self._transport: asyncio.Transport | None = None
        self._early: deque[Control] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._is_open = False
        self._end: str | None = None
        self._pings = self._pongs = 0
        self._flushed: tuple[int, asyncio.Future[None]] | None = None
        self._keep_alive: asyncio.TimerHandle | None = None

    @property
    def max_payload(self) -> int:
        """Header plus payload bytes that the server takes in one message."""
        value = self.info.get("max_payload")
        return value if isinstance(value, int) else limits.MAX_PAYLOAD

    # -- the beginning ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Until the server has taken CONNECT.

        Raises: ConnectError, ClientTimeoutError; ServerError when it refuses; StartError for a seed or
        credentials file that cannot be used.
        """
        try:
            async with asyncio.timeout(self._login.options.timeout):
                await self._connect()
                await self._shake_hands()
        except TimeoutError as error:
            self.abort("timeout")
            raise ClientTimeoutError(f"{self.address} did not answer in time") from error
        except ssl.SSLError as error:
            self.abort("TLS")
            raise ConnectError(f"no TLS with {self.address}: {error.reason or error}") from error
        except OSError as error:
            self.abort("network")
            # asyncio says which call failed; the system's own words say why.
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConnectError(f"cannot connect to {self.address}: {reason}") from error
        except BaseException:
            self.abort("refused")
            raise
        if self._end is not None:  # it ended right behind the PONG
            raise ConnectError(f"{self.address}: {self._end}")
        self._is_open = True
        self._keep_alive = self._loop.call_later(self._login.options.ping_interval, self._ping)
        while self._early and self._is_open:  # what came with the last PONG
            self._control(self._early.popleft())

    async def _connect(self) -> None:
        await self._loop.create_connection(lambda: self, self.address.host, self.address.port)

    async def _shake_hands(self) -> None:
        first = await self._next()
        if first.op is not Op.INFO:
            raise self._refusal(first)
        self._learn(first)
        options = self._login.options
        wanted = self.address.tls or options.tls is not None
        if wanted and not (self.info.get("tls_required") or self.info.get("tls_available")):
            raise ConnectError(f"{self.address} does not offer TLS")
        if wanted or self.info.get("tls_required"):
            await self._start_tls(options.tls or ssl.create_default_context())
        credentials = self._login.identity.with_key(self._login.credentials)
        self.write(encode_connect(connect_fields(credentials, options, self.info)) + PING)
        while (control := await self._next()).op is not Op.PONG:
            if control.op is Op.ERR:
                raise self._refusal(control)
            if control.op is Op.INFO:
                self._learn(control)

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        assert self._transport is not None
        name = self._login.server_name or self.address.host
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=name)
        if transport is None:
            raise ConnectError(f"{self.address} closed the connection during the TLS handshake")
        self._transport = transport

    async def _next(self) -> Control:
        """The next control of the handshake. Raises: ConnectError when the connection ends instead."""
        while not self._early:
            if self._end is not None:
                raise ConnectError(f"{self.address}: {self._end}")
            self._waiting = self._loop.create_future()
            await self._waiting
        return self._early.popleft()

    def _refusal(self, control: Control) -> ClientError:
        if control.op is Op.ERR:
            return server_error(control)
        return ConnectError(f"{self.address} does not greet like a NATS server")

    def _learn(self, control: Control) -> None:
        try:
            self.info |= control.info()
        except ProtocolError as error:
            raise ConnectError(f"{self.address} does not speak NATS: {error}") from error

    # -- asyncio.Protocol ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
        except ProtocolError as error:
            self._take()
            self.abort(f"not the NATS protocol: {error}")
            return
        self._take()

    def eof_received(self) -> None:
        self._end = self._end or "EOF"

    def connection_lost(self, error: Exception | None) -> None:
        self._end = self._end or (str(error) if error is not None else "EOF")
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        for waiting in (self._waiting, self._flushed and self._flushed[1]):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        if self._is_open:
            self._is_open = False
            self._lost(self, self._end)

    # -- frames -------------------------------------------------------------------------------------

    def _take(self) -> None:
        if self._parser.has_messages and self._is_open:
            self._receive(self._parser.take_messages())
        controls = self._parser.take_controls()
        if self._is_open:
            for control in controls:
                self._control(control)
            return
        self._early.extend(controls)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _control(self, control: Control) -> None:
        match control.op:
            case Op.PING:
                self.write(PONG)
            case Op.PONG:
                self._pongs += 1
                if self._flushed is not None and self._pongs >= self._flushed[0]:
                    self._flushed[1].set_result(None)
                    self._flushed = None
            case Op.INFO:
                try:
                    self._learn(control)
                except ConnectError as error:
                    self.abort(str(error))
            case Op.ERR:
                refusal: ServerError = server_error(control)
                if refusal.fatal:
                    self._end = refusal.text  # the server closes; this says why
                self._said(refusal.text)

    @property
    def unsent(self) -> int:
        """Bytes that the server has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Hands bytes to the system; a server that does not take them is given up."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write(data)
        if transport.get_write_buffer_size() > MAX_PENDING:
            self.abort(f"the server did not take {MAX_PENDING >> 20} MB")

    def _ping(self) -> None:
        options = self._login.options
        if self._pings - self._pongs >= options.ping_max:
            self.abort("stale connection")
            return
        self._pings += 1
        self.write(PING)
        self._keep_alive = self._loop.call_later(options.ping_interval, self._ping)

    # -- the end ------------------------------------------------------------------------------------

    async def flush(self, within: float) -> None:
        """Until the server has taken what was written, or the connection is over, or `within` s passed."""
        if self._is_open:
            self._pings += 1
            self._flushed = self._pings, self._loop.create_future()
            self.write(PING)
            await asyncio.wait([self._flushed[1]], timeout=within)

    def close(self) -> None:
        """The end on purpose: `lost` is not called."""
        self._is_open = False
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """The end because of `reason`; what waits to be written is dropped."""
        self._end = self._end or reason
        if self._transport is not None:
            self._transport.abort()
