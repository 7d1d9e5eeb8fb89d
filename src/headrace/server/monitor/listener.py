"""Starting and stopping the monitoring listener.

aiohttp takes longer to load than the rest of the server, so it is loaded here, when a monitor is asked for.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Final

from headrace.errors import StartError

if TYPE_CHECKING:
    from aiohttp import web

    from headrace.server.monitor.source import MonitorSource
    from headrace.server.monitor.streaming import StreamingSource

_CLOSE_TIMEOUT: Final = 1.0
"""Seconds that running requests get when the monitor is closed."""


class MonitorHandle:
    """A running monitor; `port` is the one it is really bound to."""

    __slots__ = ("_runner", "host", "port")

    def __init__(self, runner: web.AppRunner, host: str, port: int) -> None:
        self._runner = runner
        self.host: Final = host
        self.port: Final = port

    async def close(self) -> None:
        """Stop listening, let running requests end, free the port. Safe to call more than once."""
        await self._runner.cleanup()


async def start_monitor(
    source: MonitorSource,
    host: str,
    port: int,
    base_path: str = "",
    *,
    streaming: StreamingSource | None = None,
) -> MonitorHandle:
    """Listen for monitoring requests; port 0 or -1 lets the system choose one.

    Returns when connections are accepted.
    Raises: StartError, one line, if the address cannot be listened on.
    """
    listening = await _listen(host, max(port, 0))
    try:
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
    except BaseException:
        listening.close()
        raise
    return MonitorHandle(runner, host, listening.getsockname()[1])


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
