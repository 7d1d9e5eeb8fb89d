"""A real server on a free port of the loopback interface, for the length of a `with`.

`with` runs it on a thread of its own, `async with` on the caller's loop. On entry it accepts clients;
on exit they are drained and everything is closed. No fixture polls or sleeps.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from headrace.conf.checking import checked
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.options import Options
from headrace.embedding import Server as _Server
from headrace.server.loop import run_in_poller

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


class Server:
    """An embedded server; keyword arguments are fields of `headrace.Options`.

        with Server(max_payload=1024) as server: ...
        async with Server(monitoring=True) as server: ...
        with Server(streaming=StreamingOptions()) as server: ...  # of headrace; in memory
        with Server(jetstream=True) as server: ...

    `jetstream`: True for a temporary directory, which is removed at the end; a directory that stays; or
    `headrace.JetStreamOptions`. `monitoring` serves HTTP monitoring on a free port,
    `monitor_url`. One instance is used once.
    Raises: ConfigError with everything that is wrong with the options; StartError on entry when a port,
    certificate or store cannot be used.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        monitoring: bool = False,
        jetstream: bool | str | Path | JetStreamOptions = False,
        transport: str | None = None,
        **changes: Any,
    ) -> None:
        base = options or Options(host="127.0.0.1", port=-1)
        if monitoring and base.http_port is None:
            changes.setdefault("http_port", -1)
        self._directories = ExitStack()
        if jetstream is not False:
            changes["jetstream"] = self._jetstream(jetstream)
        self.options = checked(replace(base, **changes))
        self._transport = transport
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving = asyncio.Event()
        self._failure: BaseException | None = None

    # -- facts ------------------------------------------------------------------------------------

    @property
    def server(self) -> _Server:
        """The running server itself. Under `with` it lives on another thread: use `call` to reach into it."""
        if self._server is None:
            raise RuntimeError("the server is not running: enter it with `with` or `async with` first")
        return self._server

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def host(self) -> str:
        return self.server.host

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def monitor_url(self) -> str:
        url = self.server.monitor_url
        if url is None:
            raise RuntimeError("this server has no monitoring: pass monitoring=True")
        return url

    def call(self, function: Any, *arguments: Any) -> Any:
        """Run a function (or coroutine function) on the server's thread and return its result."""
        loop = self._loop
        if loop is None:
            raise RuntimeError("the server is not running on a thread")

        async def run() -> Any:
            result = function(*arguments)
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(run(), loop).result()

    # -- async with -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            server = _Server(self.options, transport=self._transport)
            await server.start()
        except BaseException:
            self._directories.close()
            raise
        self._server = server
        return self

    def _jetstream(self, given: bool | str | Path | JetStreamOptions) -> JetStreamOptions:
        if isinstance(given, JetStreamOptions):
            return given
        if given is True:
            given = self._directories.enter_context(TemporaryDirectory(prefix="headrace-"))
        return JetStreamOptions(store_dir=str(given))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.server.stop()
        finally:
            self._directories.close()
        self._server = None

    # -- with -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), name="headrace", daemon=True)
        self._thread.start()
        started.wait()
        self._join_if_failed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join()
        self._loop = None
        self._join_if_failed()

    def _serve(self, started: threading.Event) -> None:
        """The thread's whole life; the loop runs until `__exit__`, even when the server stops before."""

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            async with self:
                started.set()
                await self._leaving.wait()

        try:
            run_in_poller(serve())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for this one
            self._failure = error
        finally:
            started.set()

    def _join_if_failed(self) -> None:
        if self._failure is not None and self._thread is not None:
            self._thread.join()
            failure, self._failure = self._failure, None
            raise failure
