"""A real server on a free port of the loopback interface, for the length of a `with`.

`with` runs it on a thread of its own, `async with` on the caller's loop. On entry it accepts clients;
on exit they are drained and everything is closed. No fixture polls or sleeps.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace

from headrace.conf.checking import checked
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.options import Options
from headrace.embedding import Server as _Server
from headrace.server.loop import run_in_poller

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

_OWN: Final = ("options", "config", "monitoring", "transport")
"""Keyword arguments that are no fields of `Options`."""


class Server:
    """An embedded server; keyword arguments are fields of `headrace.Options`.

        with Server(max_payload=1024) as server: ...
        async with Server(monitoring=True) as server: ...
        with Server(streaming=StreamingOptions()) as server: ...  # of headrace; in memory
        with Server(jetstream=True) as server: ...

    Users, accounts and TLS are the options of their names, with the structures that a file is read into:

        from headrace.conf.account_options import AccountOptions, AuthorizationOptions, UserOptions
        from headrace.conf.tls_options import TLSOptions

        joe = UserOptions(user="joe", password="secret")
        with Server(authorization=AuthorizationOptions(users=(joe,))) as server: ...
        with Server(accounts=(AccountOptions("SALES", users=(joe,)),)) as server: ...
        with Server(tls=TLSOptions("server.pem", "server.key")) as server: ...  # `url` begins with tls://

    `config`: a configuration file; the other arguments win over it. Its ports for clients and for monitoring
    are not used: the client port is a free one of the loopback interface unless `host` and `port` are given,
    and so is that for monitoring where the file has one.
    `jetstream`: True for a temporary directory, which is removed at the end; a directory that stays; or
    `headrace.JetStreamOptions`, for example with a `domain`. Options or a file that name no directory get a
    temporary one, too. `monitoring` serves HTTP monitoring on a free port, `monitor_url`.

    One instance is used once.
    Raises: ConfigError with everything that is wrong with the options; TypeError for an option that does not
    exist; RuntimeError when it is entered a second time; StartError on entry when a port, certificate or
    store cannot be used.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        config: str | Path | None = None,
        monitoring: bool = False,
        jetstream: bool | str | Path | JetStreamOptions = False,
        transport: str | None = None,
        **changes: Any,
    ) -> None:
        check_option_names(changes)
        self._directories = ExitStack()
        try:
            if config is None:
                self.options = self._made(options, monitoring, jetstream, changes)
            elif options is not None:
                raise TypeError("give options or a configuration file, not both")
            else:
                self.options = self._read(config, monitoring, jetstream, changes)
        except BaseException:
            self._directories.close()
            raise
        self._transport = transport
        self._server: _Server | None = None
        self._state = "not entered"
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving = asyncio.Event()
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        server = self._server
        if server is None:
            return f"<headrace.testing.Server ({self._state})>"
        return (
            f"<headrace.testing.Server {server.url} ({'stopped' if server.stopped.is_set() else 'running'})>"
        )

    # -- options ----------------------------------------------------------------------------------

    def _made(
        self,
        options: Options | None,
        monitoring: bool,
        jetstream: bool | str | Path | JetStreamOptions,
        changes: Mapping[str, Any],
    ) -> Options:
        """The options that are given in Python, checked. Raises: ConfigError."""
        base = replace(options or Options(host="127.0.0.1", port=-1), **changes)
        if monitoring and base.http_port is None:
            base = replace(base, http_port=-1)
        if isinstance(jetstream, JetStreamOptions):
            base = replace(base, jetstream=jetstream)
        elif jetstream is not False:
            place = self._directory() if jetstream is True else str(jetstream)
            base = replace(base, jetstream=JetStreamOptions(store_dir=place))
        base = checked(base)
        if base.jetstream is not None and base.jetstream.store_dir is None:
            base = replace(base, jetstream=replace(base.jetstream, store_dir=self._directory()))
        return base

    def _read(
        self,
        config: str | Path,
        monitoring: bool,
        jetstream: bool | str | Path | JetStreamOptions,
        changes: Mapping[str, Any],
    ) -> Options:
        """The options of a file, with free ports and a directory of the test's own. Raises: ConfigError."""
        from headrace.conf.binding import load_options  # most servers of tests have no file

        if isinstance(jetstream, JetStreamOptions):
            raise TypeError("a configuration file has JetStream's options itself: give a directory, or True")
        overrides: dict[str, Any] = {"host": "127.0.0.1", "port": -1, **changes}
        found = load_options(str(config), overrides=overrides)
        if monitoring and found.http_port is None:
            overrides["http_port"] = -1
        for name in ("http_port", "https_port"):
            if getattr(found, name) is not None and name not in changes:
                overrides[name] = -1
        if jetstream is not False or (found.jetstream is not None and found.jetstream.store_dir is None):
            place = self._directory() if isinstance(jetstream, bool) else str(jetstream)
            overrides["jetstream_flags"] = {"enabled": True, "store_dir": place}
        return checked(load_options(str(config), overrides=overrides))

    def _directory(self) -> str:
        return self._directories.enter_context(TemporaryDirectory(prefix="headrace-"))

    # -- facts ------------------------------------------------------------------------------------

    @property
    def server(self) -> _Server:
        """The running server itself. Under `with` it lives on another thread: use `call` to reach into it."""
        if self._server is None:
            raise RuntimeError(
                f"the server is not running ({self._state}): enter it with `with` or `async with` first"
            )
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

    # -- life -------------------------------------------------------------------------------------

    def _enter(self) -> None:
        """Take the one entry that an instance has. Raises: RuntimeError."""
        if self._state != "not entered":
            raise RuntimeError(f"{self!r} was entered before: an instance is used once, make another Server")
        self._state = "starting"

    async def _start(self) -> None:
        try:
            server = _Server(self.options, transport=self._transport)
            await server.start()
        except BaseException:
            self._end()
            raise
        self._server = server

    async def _stop(self) -> None:
        try:
            if self._server is not None:
                await self._server.stop()
        finally:
            self._end()

    def _end(self) -> None:
        self._server = None
        self._state = "ended"
        self._directories.close()

    # -- async with -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._enter()
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    # -- with -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._enter()
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
            await self._start()
            try:
                started.set()
                await self._leaving.wait()
            finally:
                await self._stop()

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


def check_option_names(given: Iterable[str]) -> None:
    """Refuse options that do not exist, each with the one that may have been meant. Raises: TypeError."""
    known = (*_OWN, *Options.KEYS)
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            meant = get_close_matches(name, known, 1)
            raise TypeError(
                f"headrace.testing.Server has no option {name!r}"
                + (f"; did you mean {meant[0]!r}?" if meant else "")
            )
