"""Starting and stopping the monitoring listener.

aiohttp takes longer to load than the rest of the server, so it is loaded here, when a monitor is asked for,
and by a thread, while the server is at work already.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.errors import StartError
from headrace.protocol.info import address_text
from headrace.server.acceptor import DESCRIPTORS_KEPT, Accepting, socket_for_all
from headrace.server.addresses import local_host

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from aiohttp import web

    from headrace.conf.options import MonitorAuthorization
    from headrace.server.handshakes import Vet
    from headrace.server.monitor.source import MonitorSource
    from headrace.server.monitor.streaming import StreamingSource

_log = logging.getLogger("headrace.server.monitor")
_log_of_library = logging.getLogger("headrace.server.monitor.http")

_LOADED_LATE: Final = ("headrace.server.monitor.access", "headrace.server.monitor.handlers")
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

LOAD_PAUSE: Final = 0.1
"""Seconds until the HTTP library is tried again when the system is out of descriptors or memory."""

_OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def _unheard(text: str, address: str) -> None:
    """Report no failure of a peer: nobody asked for it."""


class MonitorTLS(Struct):
    """TLS of requests: what handshakes begin with now, and who judges peers that must be checked."""

    context: ssl.SSLContext
    vet: Vet


class MonitorHandle:
    """A running monitor; `port` is the one it is really bound to."""

    __slots__ = ("_listening", "_secured", "_serving", "local_host", "port")

    def __init__(
        self,
        listening: socket.socket,
        host: str,
        serving: asyncio.Task[_Running],
        secured: MonitorTLS | None = None,
    ) -> None:
        self._listening = listening
        self._serving = serving
        self._secured = secured
        self.local_host: Final = local_host(host, listening.getsockname()[0])
        self.port: Final[int] = listening.getsockname()[1]

    async def is_up(self) -> None:
        """Wait until requests are answered, or never will be."""
        await asyncio.wait([self._serving])

    @property
    def scheme(self) -> str:
        """The scheme of requests: http, or https."""
        return "https" if self._secured else "http"

    def use(self, context: ssl.SSLContext) -> None:
        """New connections get this one; nothing happens without TLS."""
        if self._secured is not None:
            self._secured.context = context

    async def close(self) -> None:
        """Stop listening, let running requests end, free the port. Safe to call more than once."""
        self._serving.cancel()
        await self.is_up()
        if self._serving.cancelled() or self._serving.exception() is not None:
            self._listening.close()
        else:
            await self._serving.result().end()


class _Running(Accepting):
    """The HTTP library at work on a listening socket.

    Readers of monitoring find descriptors that clients do not get: a server that is full can be looked at.
    """

    def __init__(
        self,
        listening: socket.socket,
        host: str,
        secured: MonitorTLS | None,
        runner: web.AppRunner,
        report: Callable[[str, str], None],
    ) -> None:
        super().__init__(asyncio.get_running_loop(), listening, host, DESCRIPTORS_KEPT // 2)
        self._secured = secured
        self._runner = runner
        self._report = report
        self._handshakes: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._since: dict[web.RequestHandler, float] = {}

    def _open(self, sock: socket.socket, address: tuple[str, int]) -> None:
        server = self._runner.server
        assert server is not None
        if len(server.connections) + len(self._handshakes) >= CONNECTIONS:
            sock.close()
            return
        if self._sweep is None:
            self._sweep = self._loop.call_later(SWEEP_SECONDS, self._close_aged)
        task = self._loop.create_task(self._take_over(sock, address))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _take_over(self, sock: socket.socket, address: tuple[str, int]) -> None:
        server = self._runner.server
        assert server is not None
        secured = self._secured
        if secured is None:
            await self._loop.connect_accepted_socket(server, sock)
            return
        from headrace.server.handshakes import secure

        try:
            await secure(server, sock, secured.context, vet=secured.vet, seconds=TLS_SECONDS)
        except OSError as error:  # ssl.SSLError is one
            from headrace.server.tls import failure  # who serves no TLS does not get here

            peer = address_text(*address[:2])
            self._report(f"monitoring: TLS handshake error from {peer}: {failure(error)}", address[0])

    def _complain(self, reason: str, pause_ms: int) -> None:
        self._report(f"monitoring: Accept error ({reason}), retrying in {pause_ms}ms", "")

    def _close_aged(self) -> None:
        """Close old connections every few seconds while there are any. One timer is for all of them."""
        server = self._runner.server
        assert server is not None
        now = self._loop.time()
        self._since = {handler: self._since.get(handler, now) for handler in server.connections}
        for handler, since in self._since.items():
            if now - since >= CONNECTION_SECONDS + ANSWER_SECONDS:
                handler.force_close()
            elif now - since >= CONNECTION_SECONDS:
                handler.close()  # after the answer, if there is one under way
        self._sweep = self._loop.call_later(SWEEP_SECONDS, self._close_aged) if self._since else None

    async def end(self) -> None:
        self.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for task in self._handshakes:
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        await self._runner.cleanup()


async def start_monitor(
    source: MonitorSource,
    host: str,
    port: int,
    base_path: str = "",
    *,
    streaming: StreamingSource | None = None,
    secured: MonitorTLS | None = None,
    authorization: MonitorAuthorization | None = None,
    report: Callable[[str, str], None] = _unheard,
    console: Callable[[str | None], str] | None = None,
) -> MonitorHandle:
    """Listen for monitoring requests; port 0 or -1 lets the system choose one.

    With `secured` requests come over TLS. With `authorization` others get 401. `report` hears of what peers
    or the system made fail: the line, and the address that caused it ("" for none). `console`: as
    `handlers.application` has it.
    Returns when connections are accepted. They are answered a little later, when the HTTP library is loaded:
    that takes longer than the start of everything else, and nobody else waits for it.
    Raises: StartError, one line, if the address cannot be listened on.
    """
    listening = await _listen(host, max(port, 0))

    def application() -> web.Application:
        from headrace.server.monitor import handlers
        from headrace.server.monitor.access import Guard, guarding

        access = guarding(Guard(authorization), report) if authorization else None
        return handlers.application(source, base_path, streaming, access, console)

    serving = asyncio.get_running_loop().create_task(_serve(listening, host, application, secured, report))
    serving.add_done_callback(partial(_note_failure, listening))
    return MonitorHandle(listening, host, serving, secured)


async def _serve(
    listening: socket.socket,
    host: str,
    application: Callable[[], web.Application],
    secured: MonitorTLS | None,
    report: Callable[[str, str], None],
) -> _Running:
    await _library(report)
    from aiohttp import web

    _log_of_library.addFilter(_is_ours)
    runner = web.AppRunner(
        application(),
        access_log=None,
        handle_signals=False,
        logger=_log_of_library,
        shutdown_timeout=_CLOSE_TIMEOUT,
        auto_decompress=False,  # nothing is read from bodies
    )
    await runner.setup()
    running = _Running(listening, host, secured, runner, report)
    running.start()
    return running


async def _library(report: Callable[[str, str], None]) -> None:
    """Wait until the HTTP library is loaded, however long the system is out of descriptors.

    Raises: whatever else keeps it from being loaded.
    """
    while not all(name in sys.modules for name in _LOADED_LATE):
        from concurrent.futures import ThreadPoolExecutor  # every start would pay for it

        executor = ThreadPoolExecutor(1, "headrace-monitor")  # not the loop's, whose threads stay
        try:
            await asyncio.get_running_loop().run_in_executor(executor, _load)
        except (OSError, ImportError) as error:
            if not _is_out_of_descriptors(error):
                raise
            report(f"monitoring: not loaded yet ({os.strerror(errno.EMFILE)}), trying again", "")
            await asyncio.sleep(LOAD_PAUSE)
        finally:
            executor.shutdown(wait=False)


def _load() -> None:
    # A module that cannot be read is absent to whoever can do without it: then there would be less of the
    # library until the next start. So there must be room before.
    os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    for name in _LOADED_LATE:
        import_module(name)


def _is_out_of_descriptors(error: OSError | ImportError) -> bool:
    """A shared object that cannot be opened is an ImportError, whose text alone says why."""
    if isinstance(error, OSError):
        return error.errno in _OUT_OF_DESCRIPTORS
    return any(os.strerror(number) in str(error) for number in _OUT_OF_DESCRIPTORS)


def _is_ours(record: logging.LogRecord) -> bool:
    """True if a line of the HTTP library is about an internal error.

    Bad requests, and clients that do not wait for the answer, are worth no line.
    """
    from aiohttp.http_exceptions import HttpProcessingError
    from aiohttp.web import RequestPayloadError

    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | RequestPayloadError | ConnectionError)


def _note_failure(listening: socket.socket, serving: asyncio.Task[_Running]) -> None:
    """Close the port after a failure, so that clients are refused and do not wait for an answer that never
    comes.
    """
    if not serving.cancelled() and serving.exception() is not None:
        listening.close()
        _log.error("monitoring could not be started", exc_info=serving.exception())


async def _listen(host: str, port: int) -> socket.socket:
    """One socket, so that a chosen port is one port: of both kinds, or IPv4 where a name has both."""
    address: tuple[Any, ...] = ("::", port)
    try:
        listening = socket_for_all(host)
        if listening is None:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
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
