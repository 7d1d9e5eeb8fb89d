"""The composition root: options in, a running server process out.

Here signals meet the server and the process gets its exit code. A server inside another program is
`headrace.Server`; one inside a test is `headrace.testing.Server`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
from dataclasses import fields, replace
from time import time_ns
from typing import TYPE_CHECKING, Final

from headrace.errors import ConfigError, StartError
from headrace.server import files, logs
from headrace.server.loop import run_in_poller
from headrace.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from headrace.conf.options import Options

RELOADABLE: Final = frozenset(["config_digest", "debug", "trace", "warnings"])
"""Options that take effect on SIGHUP; a change of any other needs a restart and is refused as a whole."""

EXIT_OK, EXIT_FAILURE = 0, 1


def run(options: Options) -> int:
    """Serve until a signal says otherwise; returns the exit code.

    Raises: StartError when the log file cannot be opened. Later failures to start are logged.
    """
    handler = logs.install(options)
    _raise_descriptor_limit()
    try:
        return run_in_poller(Process(options, handler).serve())
    except StartError as error:
        logging.getLogger(logs.LOGGER_NAME).critical("%s", error)
        return EXIT_FAILURE
    finally:
        logs.uninstall(handler)


def _raise_descriptor_limit() -> None:
    """As many connections as the system grants: the soft limit is often a thousand, the hard one many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS refuses "unlimited" here: then it stays as it was
            pass


class Process:
    """One server as an operating-system process: files, signals, exit code."""

    def __init__(self, options: Options, handler: logging.Handler) -> None:
        self._server = Server(options)
        self._handler = handler
        self._ports_file: Path | None = None
        self._started = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()

    async def serve(self) -> int:
        """Raises: StartError."""
        server = self._server
        if server.options.pid_file:
            files.write_pid_file(server.options.pid_file)
        self._install_signals()  # before the ready line: whoever reads it may signal at once
        try:
            await server.start()
            self._started.set()
            self._write_ports_file()
            # What start-up allocated lives as long as the process: keep the collector from walking it.
            gc.collect()
            gc.freeze()
            await server.stopped.wait()
        finally:
            await server.stop()
            if self._ports_file is not None:
                self._ports_file.unlink(missing_ok=True)
        server.log.info("Server Exiting..")
        return EXIT_OK

    def _write_ports_file(self) -> None:
        directory = self._server.options.ports_file_dir
        if not directory:
            return
        try:
            self._ports_file = files.write_ports_file(directory, self._server)
        except StartError as error:  # the server is up: who waits for the file finds out why in the log
            self._server.log.error("Error writing ports file: %s", error)

    def _install_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._terminate, "interrupt")
        loop.add_signal_handler(signal.SIGTERM, self._terminate, "terminated")
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        loop.add_signal_handler(signal.SIGUSR1, self._reopen_log)
        loop.add_signal_handler(signal.SIGUSR2, self._lame_duck)

    def _run(self, end: Callable[[], Coroutine[object, object, None]]) -> None:
        """Begins the end of the server, once it has started."""

        async def work() -> None:
            await self._started.wait()
            await end()

        task = asyncio.get_running_loop().create_task(work())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _terminate(self, name: str) -> None:
        self._server.log.info('Trapped "%s" signal', name)
        self._server.log.info("Initiating Shutdown...")
        self._run(self._server.stop)

    def _lame_duck(self) -> None:
        self._server.log.info('Trapped "user defined signal 2" signal')
        self._run(self._server.lame_duck)

    def _reopen_log(self) -> None:
        self._server.log.info('Trapped "user defined signal 1" signal')
        if logs.reopen(self._handler):
            self._server.log.info("File log re-opened")
        else:
            self._server.log.info("File log re-open ignored, not a file logger")

    def _reload(self) -> None:
        self._server.log.info('Trapped "hangup" signal')
        try:
            self._apply(self._reloaded())
        except (ConfigError, StartError) as error:
            for line in str(error).splitlines():
                self._server.log.error("Failed to reload server configuration: %s", line)

    def _reloaded(self) -> Options:
        """Raises: ConfigError, or StartError when there is no file or a change that needs a restart."""
        from headrace.conf.binding import load_options

        server = self._server
        path = server.options.config_file
        if path is None:
            raise StartError("can only reload config when a file is provided using -c or --config")
        new = load_options(path, overrides=server.options.overrides)
        changed = {
            f.name
            for f in fields(new)
            if f.compare and getattr(new, f.name) != getattr(server.options, f.name)
        }
        refused = sorted(changed - RELOADABLE)
        if refused:
            raise StartError(f"config reload not supported for {', '.join(refused)}: restart to apply")
        return new

    def _apply(self, new: Options) -> None:
        server = self._server
        server.options = replace(server.options, **{name: getattr(new, name) for name in RELOADABLE})
        server.config_load_ns = time_ns()
        logs.set_level(server.options)
        for session in server.sessions.values():
            session.link.traced = new.trace
        server.log.info("Reloaded server configuration (%s)", new.config_digest)
