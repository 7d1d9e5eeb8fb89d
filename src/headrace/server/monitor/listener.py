"""Starting and stopping the monitoring listener.

aiohttp takes longer to load than the rest of the server, so it is loaded here, when a monitor is asked for,
and by a thread, while the server is at work already.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from headrace.errors import StartError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from aiohttp import web

    from headrace.conf.options import MonitorAuthorization
    from headrace.server.monitor.source import MonitorSource
    from headrace.server.monitor.streaming import StreamingSource

_log = logging.getLogger("headrace.server.monitor")
_log_of_library = logging.getLogger("headrace.server.monitor.http")

_HANDLERS: Final = "headrace.server.monitor.handlers"
_CLOSE_TIMEOUT: Final = 1.0
"""Seconds that running requests get when the monitor is closed."""

CONNECTIONS: Final = 100
"""Connections at a time; one more is closed at once, so that readers of monitoring cannot use up what the
process may have open."""

CONNECTION_SECONDS: Final = 60.0
"""Age at which a connection gets no further answer; readers connect again."""

ANSWER_SECONDS: Final = 10.0
"""Seconds after that in which an answer under way is finished; then the connection is closed in any case."""

SWEEP_SECONDS: Final = 5.0
"""Seconds between looks at the age of connections."""

TLS_SECONDS: Final = 5.0
"""Seconds a TLS handshake may take."""


def _unheard(address: str) -> None:
    """Nobody wants to know who was refused."""


class _Contexts:
    """One context to listen with; handshakes are given the latest."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.latest = self.listening = context
        self._choose = context.sni_callback  # by name, where there are several certificates
        context.sni_callback = self._hand_over

    def _hand_over(self, connection: ssl.SSLObject, name: str, context: ssl.SSLContext) -> int | None:
        choose = self._choose
        if self.latest is not context:
            connection.context = self.latest
            choose = self.latest.sni_callback
        return choose(connection, name, self.latest) if choose else None


class MonitorHandle:
    """A running monitor; `port` is the one it is really bound to."""

    __slots__ = ("_contexts", "_listening", "_serving", "host", "port")

    def __init__(
        self,
        listening: socket.socket,
        host: str,
        serving: asyncio.Task[_Running],
        contexts: _Contexts | None = None,
    ) -> None:
        self._listening = listening
        self._serving = serving
        self._contexts = contexts
        self.host: Final = host
        self.port: Final[int] = listening.getsockname()[1]

    async def is_up(self) -> None:
        """Until requests are answered, or never will be."""
        await asyncio.wait([self._serving])

    @property
    def scheme(self) -> str:
        """How requests come: http, or https."""
        return "https" if self._contexts else "http"

    def use(self, context: ssl.SSLContext) -> None:
        """New connections get this one; nothing happens without TLS."""
        if self._contexts is not None:
            self._contexts.latest = context

    async def close(self) -> None:
        """Stop listening, let running requests end, free the port. Safe to call more than once."""
        self._serving.cancel()
        await self.is_up()
        if self._serving.cancelled() or self._serving.exception() is not None:
            self._listening.close()
        else:
            await self._serving.result().close()


class _Running:
    """The HTTP library at work on a listening socket."""

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner
        self._accepting: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._since: dict[web.RequestHandler, float] = {}

    async def start(self, listening: socket.socket, context: ssl.SSLContext | None) -> None:
        await self._runner.setup()
        self._accepting = await asyncio.get_running_loop().create_server(
            self._connection,
            sock=listening,
            ssl=context,
            ssl_handshake_timeout=TLS_SECONDS if context else None,
        )

    def _connection(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert server is not None
        if len(server.connections) >= CONNECTIONS:
            return _TurnedAway()
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._close_aged)
        return server()

    def _close_aged(self) -> None:
        """Every few seconds while there are connections; one timer, however many come and go."""
        server = self._runner.server
        assert server is not None
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._since = {handler: self._since.get(handler, now) for handler in server.connections}
        for handler, since in self._since.items():
            if now - since >= CONNECTION_SECONDS + ANSWER_SECONDS:
                handler.force_close()
            elif now - since >= CONNECTION_SECONDS:
                handler.close()  # after the answer, if there is one under way
        self._sweep = loop.call_later(SWEEP_SECONDS, self._close_aged) if self._since else None

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        if self._accepting is not None:
            self._accepting.close()
        await self._runner.cleanup()


class _TurnedAway(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def start_monitor(
    source: MonitorSource,
    host: str,
    port: int,
    base_path: str = "",
    *,
    streaming: StreamingSource | None = None,
    context: ssl.SSLContext | None = None,
    authorization: MonitorAuthorization | None = None,
    refused: Callable[[str], None] = _unheard,
) -> MonitorHandle:
    """Listen for monitoring requests; port 0 or -1 lets the system choose one.

    With a `context` requests come over TLS. With `authorization` others get 401, and `refused` hears of each
    with the address it came from.
    Returns when connections are accepted. They are answered a little later, when the HTTP library is loaded:
    that takes longer than the start of everything else, and nobody else waits for it.
    Raises: StartError, one line, if the address cannot be listened on.
    """
    listening = await _listen(host, max(port, 0))

    def application() -> web.Application:
        from headrace.server.monitor import handlers
        from headrace.server.monitor.access import Guard, guarding

        access = guarding(Guard(authorization), refused) if authorization else None
        return handlers.application(source, base_path, streaming, access)

    contexts = _Contexts(context) if context else None
    serving = asyncio.get_running_loop().create_task(_serve(listening, application, context))
    serving.add_done_callback(_note_failure)
    return MonitorHandle(listening, host, serving, contexts)


async def _serve(
    listening: socket.socket, application: Callable[[], web.Application], context: ssl.SSLContext | None
) -> _Running:
    if _HANDLERS not in sys.modules:
        from concurrent.futures import ThreadPoolExecutor  # every start would pay for it

        executor = ThreadPoolExecutor(1, "headrace-monitor")  # not the loop's, whose threads stay
        try:
            await asyncio.get_running_loop().run_in_executor(executor, import_module, _HANDLERS)
        finally:
            executor.shutdown(wait=False)
    from aiohttp import web

    _log_of_library.addFilter(_is_ours)
    running = _Running(
        web.AppRunner(
            application(),
            access_log=None,
            handle_signals=False,
            logger=_log_of_library,
            shutdown_timeout=_CLOSE_TIMEOUT,
        )
    )
    await running.start(listening, context)
    return running


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a line of the HTTP library is about a mistake of ours; garbage that came in is worth none."""
    from aiohttp.http_exceptions import HttpProcessingError

    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _note_failure(serving: asyncio.Task[_Running]) -> None:
    if not serving.cancelled() and serving.exception() is not None:
        _log.error("monitoring could not be started", exc_info=serving.exception())


async def _listen(host: str, port: int) -> socket.socket:
    """One socket, IPv4 where the name has both, so that a chosen port is one port."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _start_error(host, port, error) from None
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise _start_error(host, port, error) from None
    listening.setblocking(False)
    return listening


def _start_error(host: str, port: int, error: OSError) -> StartError:
    shown = f"[{host}]" if ":" in host else host
    reason = (error.strerror or str(error)).lower()
    return StartError(f"can't listen to the monitor port: listen tcp {shown}:{port}: bind: {reason}")
