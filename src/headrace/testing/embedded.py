"""A real server on a free port of the loopback interface, for the length of a `with`.

`with` runs it on a thread of its own, `async with` on the caller's loop. On entry it accepts clients;
on exit they are drained and everything is closed. No fixture polls or sleeps.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from msgspec.structs import replace

from headrace.conf.binding import load_options, with_ports
from headrace.conf.checking import checked
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.options import Options
from headrace.conf.options_builder import BOUND_PORTS
from headrace.embedding import Server as _Server
from headrace.server.loop import run_in_poller
from headrace.testing.clock import MovableClock
from headrace.testing.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from headrace.conf.mqtt_options import MqttOptions

_OWN: Final = ("options", "config", "monitoring", "transport", "faults")
"""Keyword arguments that are no fields of `Options`."""

_USED_ONCE: Final = "an instance is used once, make another Server"
_REMEDIES: Final = {
    "killed": "`restart` it first",
    "not restarted": "`restart` it again",
    "ended": _USED_ONCE,
}
"""The way out for a server that does not run, by its state; in all others it has to be entered."""


class _Place(NamedTuple):
    """The place where a server can be reached, also while it is killed."""

    url: str
    host: str
    port: int
    monitor_url: str | None
    mqtt_url: str | None


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
    temporary one, too. `monitoring` serves HTTP monitoring on a free port, `monitor_url`; `mqtt=True`, which
    needs JetStream, clients over MQTT on another, `mqtt_url`.

    Under `with` a server can be killed, started again and paused; with `faults=True`, which makes its store
    slower, its disk can be full or slow, too:

        with Server(jetstream=True, faults=True) as server:
            server.kill()  # clients lose their connections, files stay as they are
            server.restart()  # on the same ports, with the same store
            server.pause()  # connections stay open and nothing is answered, until `resume`
            server.resume()
            server.disk.is_full = True
            server.disk.sync_seconds = 0.2

    JetStream's time can be moved on, so that no test has to wait for an age, a schedule or an ack wait:

        with Server(jetstream=True) as server:
            server.advance(seconds=3600)  # under `async with`: await server.clock.advance(3600)

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
        faults: bool | Disk = False,
        **changes: Any,
    ) -> None:
        check_option_names(changes)
        if changes.get("mqtt") is True:
            changes["mqtt"] = _mqtt_of_this_machine()
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
        self.clock: Final = MovableClock()
        """The clock of the services inside: of JetStream, streaming and the system account."""
        self._disk = faults if isinstance(faults, Disk) else Disk() if faults else None
        self._place: _Place | None = None
        self._again = self.options
        """The options of the next start: the ports are those of the start before."""
        self._paused: threading.Event | None = None
        """The event that ends a pause."""
        self._server: _Server | None = None
        self._state = "not entered"
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving = asyncio.Event()
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        server, state = self._server, self._state
        if server is not None:
            state = "stopped" if server.stopped.is_set() else "running" if self._paused is None else "paused"
        place = "" if self._place is None else f" {self._place.url}"
        return f"<headrace.testing.Server{place} ({state})>"

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
        if isinstance(jetstream, JetStreamOptions):
            raise TypeError("a configuration file has JetStream's options itself: give a directory, or True")
        overrides: dict[str, Any] = {"host": "127.0.0.1", "port": -1, **self._over_the_file(), **changes}
        if jetstream is not False:
            place = self._directory() if jetstream is True else str(jetstream)
            overrides["jetstream_flags"] = {"enabled": True, "store_dir": place}
        found = load_options(str(config), overrides=overrides)
        if monitoring and found.http_port is None:
            overrides["http_port"] = -1
        for name in ("http_port", "https_port"):
            if getattr(found, name) is not None and name not in changes:
                overrides[name] = -1
        if found.jetstream is not None and found.jetstream.store_dir is None:
            overrides["jetstream_flags"] = {"enabled": True, "store_dir": self._directory()}
        return checked(load_options(str(config), overrides=overrides))

    def _over_the_file(self) -> Mapping[str, object]:
        """Overrides of `load_options` for what a configuration file must not decide."""
        return {}

    def _directory(self) -> str:
        return self._directories.enter_context(TemporaryDirectory(prefix="headrace-"))

    # -- facts ------------------------------------------------------------------------------------

    @property
    def server(self) -> _Server:
        """The running server itself. Under `with` it lives on another thread: use `call` to reach into it."""
        if self._server is None:
            raise self._not_running()
        return self._server

    @property
    def url(self) -> str:
        """The URL for clients, without credentials; it is the same after `restart`."""
        return self._known.url

    @property
    def host(self) -> str:
        return self._known.host

    @property
    def port(self) -> int:
        return self._known.port

    @property
    def monitor_url(self) -> str:
        url = self._known.monitor_url
        if url is None:
            raise RuntimeError("this server has no monitoring: pass monitoring=True")
        return url

    @property
    def mqtt_url(self) -> str:
        """The URL for clients over MQTT, `mqtt://` or `tls://`; it is the same after `restart`."""
        url = self._known.mqtt_url
        if url is None:
            raise RuntimeError("this server has no MQTT port: pass mqtt=True, with jetstream=True")
        return url

    @property
    def disk(self) -> Disk:
        """The disk of the store, which can be full or slow. Raises: RuntimeError without `faults=True`."""
        if self._disk is None:
            raise RuntimeError("this server uses the disk as it is: pass faults=True")
        return self._disk

    @property
    def _known(self) -> _Place:
        if self._place is None:
            raise self._not_running()
        return self._place

    def _not_running(self) -> RuntimeError:
        """Return the error for a server that does not run, with what to do."""
        remedy = _REMEDIES.get(self._state, "enter it with `with` or `async with` first")
        return RuntimeError(f"the server is not running ({self._state}): {remedy}")

    def call(self, function: Any, *arguments: Any) -> Any:
        """Run a function (or coroutine function) on the server's thread and return its result."""
        loop = self._own_loop()

        async def run() -> Any:
            result = function(*arguments)
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(run(), loop).result()

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the server's own thread. Raises: RuntimeError if it has none, or is paused."""
        if self._loop is None:
            raise RuntimeError("the server is not running on a thread of its own: enter it with `with`")
        if self._paused is not None:
            raise RuntimeError("the server is paused: resume it first")
        return self._loop

    # -- time -------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Move JetStream's clock forward, without waiting; everything that becomes due is done, in order.

        Moved are ages and TTLs, ack waits and back-offs, duplicate windows, schedules, the expiry of pull
        requests that wait, heartbeats, inactivity of consumers: all of JetStream, and NATS Streaming and the
        events of the system account with it. The times of messages stored from then on are later, too, and
        stay so after `restart`. Not moved are connections (PING intervals, time limits for CONNECT and TLS),
        tokens and certificates, intervals of syncs (`sync_interval`), and clients' own clocks.

        What is sent to clients by this clock and waits for their answer may be given up before they can
        answer: NATS Streaming forgets a client after ten heartbeats, by default within some minutes.
        A message that a moved clock makes the server store (a schedule's, a marker's) is on disk a moment
        after this returns, as ever. Each server of a cluster has a clock of its own.
        Raises: ValueError for a time that is negative, not finite or after 2262; RuntimeError outside of
        `with`, where it is `await server.clock.advance(seconds)`, and while the server is paused.
        """
        self.call(self.clock.advance, seconds)

    # -- faults -----------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the server as SIGKILL ends a process; `restart` brings it back.

        All connections are closed at once, whatever waits to be sent. Nothing is written any more: no
        state, no mark that says that the store was closed. What was written to files stays, synced or not,
        since the machine goes on; streams in memory are gone. Other threads of the test's process go on: a
        sync that is under way ends. A power loss takes what was not synced, too: call `disk.lose_power`
        before `restart`, with `faults=Disk(MemoryFileSystem())` (of `headrace.testing.disk` and `faultfs`).

        Raises: RuntimeError outside of `with`, while it is paused or killed, and with a store in files if the
        server has no `faults=True`: then its files cannot be kept from it.
        """
        if self._disk is None and _has_files(self.options):
            raise RuntimeError("kill() has to keep the store's files from the server: pass faults=True")
        self.call(self._kill)

    def restart(self) -> None:
        """Start the server again on the same ports, with the same store: after `kill`, or after stopping it.

        A server that runs is stopped in order first. To clients it is a new server at the old place. A
        configuration file is read again.
        Raises: RuntimeError outside of `with` and while it is paused; ConfigError for a file that is wrong
        now, and a server that runs goes on; StartError, for example if another process took a port meanwhile.
        """
        self.call(self._restart)

    def pause(self) -> None:
        """Let the server stand still as SIGSTOP does with a process, until `resume`.

        Connections stay open, and the system goes on accepting new ones; nothing is read, sent or answered,
        and no timer runs. Only the server's own thread stands still: a sync that is under way ends. The end
        of the `with` ends a pause, too.
        Raises: RuntimeError outside of `with`, or when it is paused.
        """
        reached, paused = threading.Event(), threading.Event()

        def stand_still() -> None:
            reached.set()
            paused.wait()

        self._own_loop().call_soon_threadsafe(stand_still)
        reached.wait()
        self._paused = paused

    def resume(self) -> None:
        """Let a paused server go on; what is due by now is done at once. Raises: RuntimeError."""
        if self._paused is None:
            raise RuntimeError("the server is not paused")
        self._paused.set()
        self._paused = None

    async def _kill(self) -> None:
        server, disk = self.server, self._disk
        if disk is not None:
            disk.cut_off()
        try:
            server.disconnects.abandon()
            await server.stop()
        finally:
            self._server = None
            self._state = "killed"
            if disk is not None:
                disk.reconnect()

    async def _restart(self) -> None:
        if self._again.config_file is not None:
            self._again = checked(load_options(self._again.config_file, overrides=self._again.overrides))
        server, self._server = self._server, None
        self._state = "not restarted"
        if server is not None:
            await server.stop()
        await self._begin()

    # -- life -------------------------------------------------------------------------------------

    def _enter(self) -> None:
        """Take the one entry that an instance has. Raises: RuntimeError."""
        if self._state != "not entered":
            raise RuntimeError(f"{self!r} was entered before: {_USED_ONCE}")
        self._state = "starting"

    async def _start(self) -> None:
        try:
            await self._begin()
        except BaseException:
            self._end()
            raise

    async def _begin(self) -> None:
        """Start a server, at the place of the one before if there was one."""
        server = _Server(self._again, transport=self._transport, clock=self.clock, filesystem=self._disk)
        await server.start()
        self._again = _at_its_ports(server)
        self._place = _Place(server.url, server.host, server.port, server.monitor_url, server.mqtt_url)
        self._server = server

    async def _stop(self) -> None:
        try:
            if self._server is not None:
                await self._server.stop()
        finally:
            self._end()

    def _end(self) -> None:
        self._server = self._place = None
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
        if self._paused is not None:
            self.resume()
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


def _has_files(options: Options) -> bool:
    """True if a server has a store in files."""
    streaming = options.streaming
    return options.jetstream is not None or (streaming is not None and streaming.store_type == "FILE")


def _mqtt_of_this_machine() -> MqttOptions:
    from headrace.conf.mqtt_options import MqttOptions  # most tests have no such port

    return MqttOptions(host="127.0.0.1", port=-1)


def _at_its_ports(server: _Server) -> Options:
    """The options of a running server with the ports that are bound in the place of those left open.

    A file that is read again, by a reload or by `restart`, leaves them open still: overrides have them, too.
    """
    options = server.options
    ports: dict[str, Any] = {"port": server.port}
    for name in ("http_port", "https_port"):
        if getattr(options, name) is not None:
            ports[name] = server.monitor_port
    peers = {"cluster": server.routes, "gateway": server.gateways, "leafnodes": server.leafs}
    blocks = {
        name: host.port for name, host in peers.items() if host is not None and host.listener is not None
    }
    if server.websocket_port is not None:
        blocks["websocket"] = server.websocket_port
    if server.mqtt_port is not None:
        blocks["mqtt"] = server.mqtt_port
    overrides = options.overrides
    if options.config_file is not None:
        overrides = {**overrides, **ports, BOUND_PORTS: blocks}
    return replace(with_ports(options, blocks), **ports, overrides=overrides)


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
