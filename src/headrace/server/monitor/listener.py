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
    from aiohttp import web

    from headrace.server.monitor.source import MonitorSource
    from headrace.server.monitor.streaming import StreamingSource

_log = logging.getLogger("headrace.monitor")

_HANDLERS: Final = "headrace.server.monitor.handlers"
_CLOSE_TIMEOUT: Final = 1.0
"""Seconds that running requests get when the monitor is closed."""


class MonitorHandle:
    """A running monitor; `port` is the one it is really bound to."""

    __slots__ = ("_listening", "_serving", "host", "port")

    def __init__(self, listening: socket.socket, host: str, serving: asyncio.Task[web.AppRunner]) -> None:
        self._listening = listening
        self._serving = serving
        self.host: Final = host
        self.port: Final[int] = listening.getsockname()[1]

    async def is_up(self) -> None:
        """Until requests are answered, or never will be."""
        await asyncio.wait([self._serving])

    async def close(self) -> None:
        """Stop listening, let running requests end, free the port. Safe to call more than once."""
        self._serving.cancel()
        await self.is_up()
        if self._serving.cancelled() or self._serving.exception() is not None:
            self._listening.close()
        else:
            await self._serving.result().cleanup()


async def start_monitor(
    source: MonitorSource,
    host: str,
    port: int,
    base_path: str = "",
    *,
    streaming: StreamingSource | None = None,
) -> MonitorHandle:
    """Listen for monitoring requests; port 0 or -1 lets the system choose one.

    Returns when connections are accepted. They are answered a little later, when the HTTP library is loaded:
    that takes longer than the start of everything else, and nobody else waits for it.
    Raises: StartError, one line, if the address cannot be listened on.
    """
    listening = await _listen(host, max(port, 0))
    serving = asyncio.get_running_loop().create_task(_serve(listening, source, base_path, streaming))
    serving.add_done_callback(_note_failure)
    return MonitorHandle(listening, host, serving)


async def _serve(
    listening: socket.socket, source: MonitorSource, base_path: str, streaming: StreamingSource | None
) -> web.AppRunner:
    if _HANDLERS not in sys.modules:
        from concurrent.futures import ThreadPoolExecutor  # every start would pay for it

        executor = ThreadPoolExecutor(1, "headrace-monitor")  # not the loop's, whose threads stay
        try:
            await asyncio.get_running_loop().run_in_executor(executor, import_module, _HANDLERS)
        finally:
            executor.shutdown(wait=False)
    from aiohttp import web

    from headrace.server.monitor.handlers import application

    runner = web.AppRunner(
        application(source, base_path, streaming),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=_CLOSE_TIMEOUT,
    )
    await runner.setup()
    await web.SockSite(runner, listening).start()
    return runner


def _note_failure(serving: asyncio.Task[web.AppRunner]) -> None:
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
