"""One connection to a NATS server over asyncio, for a service: from the TCP handshake to its end.

Here live the socket, TLS and the timer; the protocol is `headrace.client.machine`'s, as for the blocking
client. Never lives here: what follows a lost connection (`host`).
"""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.client.errors import (
    ClientTimeoutError,
    ConnectError,
    ConnectionLostError,
    ServerError,
)
from headrace.client.machine import ClientMachine, ConnectionClosed, ConnectionPhase, ErrorReported
from headrace.client.tls import client_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.attached.identity import AttachedIdentity
    from headrace.client.address import Credentials, ServerAddress
    from headrace.client.codec import MessageBatch
    from headrace.client.options import ConnectOptions
    from headrace.client.server_info import ServerFacts

MAX_PENDING: Final = 64 << 20
"""Bytes that may wait for the server to take them; more: the connection is given up, as it would do."""


class Login(Struct, frozen=True):
    """The beginning of a connection: options of CONNECT, credentials, and the name that a certificate must
    have.
    """

    options: ConnectOptions
    identity: AttachedIdentity
    credentials: Credentials
    server_name: str | None = None


class AttachedConnection(asyncio.Protocol):
    """Calls `receive` with the messages of one read, and `lost` once, with the reason, when it is over.

    Raises: StartError for a seed or credentials file that cannot be used.
    """

    def __init__(
        self,
        address: ServerAddress,
        login: Login,
        *,
        receive: Callable[[MessageBatch], None],
        lost: Callable[[AttachedConnection, str], None],
        said: Callable[[str], None],
    ) -> None:
        self.address = address
        self._login = login
        self._receive, self._lost, self._said = receive, lost, said
        self._loop = asyncio.get_running_loop()
        self._machine = ClientMachine(address, login.options, login.identity.with_key(login.credentials))
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._is_open = False
        self._is_securing = False
        self._flushed: tuple[int, asyncio.Future[None]] | None = None
        self._keep_alive: asyncio.TimerHandle | None = None

    @property
    def info(self) -> ServerFacts:
        """The facts that the server tells of itself, as they are now."""
        return self._machine.info

    @property
    def max_payload(self) -> int:
        """Header plus payload bytes that the server takes in one message."""
        return self._machine.info.max_payload

    # -- the beginning ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, and wait until the server has taken CONNECT.

        Raises: ConnectError, ClientTimeoutError, CredentialsError; ServerError when it refuses.
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
        self._is_open = True
        self._keep_alive_later()
        self._advance()  # what came with the last PONG

    async def _connect(self) -> None:
        await self._loop.create_connection(lambda: self, self.address.host, self.address.port)

    async def _shake_hands(self) -> None:
        machine = self._machine
        while machine.state is not ConnectionPhase.OPEN:
            if machine.error is not None:
                raise machine.error
            if machine.state is ConnectionPhase.SECURING:
                await self._start_tls(self._login.options.tls or client_context())
                self._secured()
            elif machine.output:
                self._write_out()
            else:
                self._waiting = self._loop.create_future()
                await self._waiting

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        assert self._transport is not None
        self._is_securing = True
        name = self._login.server_name or self.address.host
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=name)
        if transport is None:
            raise ConnectError(f"{self.address} closed the connection during the TLS handshake")
        self._transport = transport

    def _secured(self) -> None:
        """Tell the machine of the TLS handshake; asyncio brings what was sent behind it before it says so."""
        if self._is_securing:
            self._is_securing = False
            self._machine.secured()

    # -- asyncio.Protocol ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._machine.begin(self._loop.time())

    def data_received(self, data: bytes) -> None:
        self._secured()
        self._machine.receive(data, self._loop.time())
        self._advance()

    def eof_received(self) -> None:
        self._end("EOF")

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error) if error is not None else "EOF")
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        for waiting in (self._waiting, self._flushed and self._flushed[1]):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        if self._is_open:
            self._is_open = False
            over = self._machine.error
            self._lost(self, over.text if isinstance(over, ServerError) else str(over))

    def _end(self, reason: str) -> None:
        """Note why the connection is over, unless the machine knows it already."""
        if self._is_open:
            self._machine.close(ConnectionLostError(reason))
        else:
            self._machine.close(ConnectError(f"{self.address}: {reason}"))

    # -- frames -------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Act on what the machine has for us."""
        machine = self._machine
        if not self._is_open:
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)
            return
        if machine.has_messages:
            self._receive(machine.take_messages())
        for event in machine.take_events():
            if isinstance(event, ErrorReported):
                self._said(event.error.text)
            elif isinstance(event, ConnectionClosed) and self._transport is not None:
                self._transport.abort()
        if self._flushed is not None and machine.pongs >= self._flushed[0]:
            self._flushed[1].set_result(None)
            self._flushed = None
        self._write_out()

    @property
    def unsent(self) -> int:
        """Bytes that the server has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Hand bytes to the system; a server that does not take them is given up."""
        self._machine.send(data)
        self._write_out()

    def _write_out(self) -> None:
        output, transport = self._machine.take_output(), self._transport
        if not output or transport is None or transport.is_closing():
            return
        transport.write(output)
        if transport.get_write_buffer_size() > MAX_PENDING:
            self.abort(f"the server did not take {MAX_PENDING >> 20} MB")

    def _keep_alive_later(self) -> None:
        seconds = self._machine.until_ping(self._loop.time())
        self._keep_alive = self._loop.call_later(seconds, self._ping)

    def _ping(self) -> None:
        self._machine.keep_alive(self._loop.time())
        self._advance()
        if self._machine.state is ConnectionPhase.OPEN:
            self._keep_alive_later()

    # -- the end ------------------------------------------------------------------------------------

    async def flush(self, within: float) -> None:
        """Wait until the server has taken what was written, the connection is over, or `within` seconds
        passed.
        """
        if self._is_open:
            self._flushed = self._machine.ping(self._loop.time()), self._loop.create_future()
            self._write_out()
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
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()
