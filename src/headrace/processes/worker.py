"""A child: an ordinary server, and its end of the channel to the parent.

Here lives what `headrace.server.worker` promises a server. Never lives here: supervision, what
process snapshots show.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import struct
from typing import TYPE_CHECKING, Any, Final

from headrace import app
from headrace.engine.memory import keep_freed
from headrace.errors import ConfigError, StartError
from headrace.processes.monitoring import SnapshotExchange
from headrace.server import files, logs
from headrace.server.listener import inherit
from headrace.server.loop import run_in_poller
from headrace.server.reload import change_options

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from mmap import mmap

    from headrace.cluster.mesh import Mesh
    from headrace.conf.options import Options
    from headrace.processes.channel import ChannelEnd, Message
    from headrace.processes.plan import ListenerAddress
    from headrace.server.monitor.aggregate import ProcessSnapshot, SnapshotParts
    from headrace.server.worker import JoiningServer

ORPHAN_SECONDS: Final = 15
"""Seconds for a process without its parent to end in order; what it stores is safe in any case."""

_LOOK: Final = 0.005  # seconds between looks at a mesh that forms
_SLOT: Final = struct.Struct("=Q")


class Share:
    """A child's share of the server besides its options: its number, and the memory that all processes share.

    `slots`: the number of connections of each, 8 bytes in the machine's order. `whole_options`: those of the
    whole server, at the start.
    """

    def __init__(
        self,
        index: int,
        count: int,
        start_ns: int,
        has_private_mesh: bool,
        slots: mmap,
        *,
        runs_jetstream: bool,
        whole_options: Options,
    ) -> None:
        self.index: Final = index
        self.count: Final = count
        self.start_ns: Final = start_ns
        self.has_private_mesh: Final = has_private_mesh
        self.slots: Final = slots
        self.runs_jetstream: Final = runs_jetstream
        self.whole_options: Final = whole_options


def work(
    options: Options,
    share: Share,
    channel: ChannelEnd,
    inherited: Sequence[tuple[ListenerAddress, socket.socket]],
) -> int:
    """Serve until the parent says otherwise, or is gone; returns the exit code."""
    handler = _ToParent(channel, options, is_first=share.index == 0)
    logger = logging.getLogger(logs.LOGGER_NAME)
    logger.addHandler(handler)
    logger.propagate = False
    logs.set_level(options)
    for place, sock in inherited:
        inherit(place.host, place.port, sock)
    keep_freed()
    try:
        return run_in_poller(app.serve(WorkerProcess(options, handler, share, channel)))
    except StartError as error:
        logger.critical("%s", error)
    except Exception:
        logger.critical("internal error", exc_info=True)
    return app.EXIT_FAILURE


def _end_soon() -> None:
    """End within some seconds, since the parent is gone, whatever the end waits for."""
    if logging.root.manager.disable < logging.CRITICAL:
        logging.disable()
        signal.alarm(ORPHAN_SECONDS)  # nothing handles it: the system ends the process


class _ToParent(logging.Handler):
    """Lines go to the parent, which writes them: one log, with its rotation, whoever speaks.

    `is_quiet`: what several processes would say alike is a line for debugging from all but the first.
    """

    def __init__(self, channel: ChannelEnd, options: Options, *, is_first: bool) -> None:
        super().__init__()
        self._channel = channel
        self._is_first = is_first
        self.is_quiet = not is_first
        self.use(options)

    def use(self, options: Options) -> None:
        """The form of lines as these options have it."""
        self.setFormatter(logs.make_formatter(options))
        self._says_all = options.debug or options.trace

    def quieter(self, *, is_quiet: bool) -> None:
        self.is_quiet = is_quiet and not self._is_first

    def emit(self, record: logging.LogRecord) -> None:
        if self.is_quiet and record.levelno in (logging.INFO, logging.WARNING):
            if not self._says_all:
                return
            record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        text = record.getMessage() if record.levelno >= logging.CRITICAL else ""
        self._channel.say("log", record.levelno, self.format(record), text)
        if self._channel.is_unheard:
            _end_soon()


class WorkerProcess(app.Process):
    """The process around a child's server, and the server's `Worker`."""

    def __init__(
        self,
        options: Options,
        handler: _ToParent,
        share: Share,
        channel: ChannelEnd,
    ) -> None:
        super().__init__(options, handler)
        self._lines = handler
        self._share = share
        self._channel = channel
        self.index = share.index
        self.count = share.count
        self.start_ns = share.start_ns
        self.has_private_mesh = share.has_private_mesh
        self.runs_jetstream = share.runs_jetstream
        self.whole_options = share.whole_options
        self.peers: frozenset[str] = frozenset()
        self.missing: int | None = None
        self._heard_of_peers = asyncio.Event()
        self._may_accept = asyncio.Event()
        self._is_ending = False
        self._exchange = SnapshotExchange(self, channel)
        self.worker = self

    # -- the process ----------------------------------------------------------------------------------

    def _install_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(
            signal.SIGTERM, self._stop
        )  # of this process alone: the parent starts another
        loop.add_reader(self._channel, self._hear)

    def _end_by_signals(self) -> None:
        """Leave signals to the parent."""

    def _on_early_end(self, handle: Callable[[int], None]) -> None:
        """Leave signals during the start to the parent."""

    def _stop(self) -> None:
        self._lines.is_quiet = True
        if not self._is_ending:
            self._is_ending = True
            self._end_task = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        starting = asyncio.get_running_loop().create_task(self.started.wait())
        gone = asyncio.get_running_loop().create_task(self._server.stopped.wait())
        self._may_accept.set()
        self._heard_of_peers.set()
        await asyncio.wait([starting, gone], return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        gone.cancel()
        await self._server.stop()

    def _begun(self) -> None:
        """Clients are accepted."""
        self._lines.is_quiet = self._is_ending
        if self.index == 0:
            self._invite_operator()
        self._channel.say("ready", files.ports_of(self._server), self._server.monitor_port)

    def fail(self, reason: str) -> None:
        super().fail(reason)
        self._channel.say("fatal")

    def prepare(self, new: Options, changed: Sequence[str]) -> Callable[[], None]:
        def apply() -> None:
            self._lines.use(new)
            logs.set_level(new)

        return apply

    # -- what the parent says -------------------------------------------------------------------------

    def _hear(self) -> None:
        for word, *rest in self._channel.take():
            self._take(word, rest)
        if self._channel.is_over:  # the parent is gone, and nobody watches any more
            asyncio.get_running_loop().remove_reader(self._channel)
            _end_soon()
            self._stop()

    def _take(self, word: str, rest: Message | list[Any]) -> None:
        match word:
            case "peers":
                ids, self.missing = rest
                self.peers = ids - {self._server.server_id}
                self._heard_of_peers.set()
            case "accept":
                self._may_accept.set()
            case "stop":
                self._stop()
            case "lame_duck":
                self._lines.quieter(is_quiet=True)
                self._run(self._server.lame_duck)
            case "reload":
                self._take_options(*rest)
            case "ask":
                self._exchange.asked(self._server, *rest)
            case "part" | "answered":
                self._exchange.heard(word, *rest)

    def _take_options(self, options: Options, whole: Options) -> None:
        self._lines.quieter(is_quiet=True)
        try:
            change_options(self._server, options)
        except (ConfigError, StartError) as error:
            self._channel.say("reloaded", str(error))
        else:
            self.whole_options = whole
            self._channel.say("reloaded", "")
        self._lines.quieter(is_quiet=False)

    # -- the server's worker ----------------------------------------------------------------------------

    async def joined(self, server: JoiningServer) -> None:
        """Wait until this process and the others know each other, and what their clients want."""
        self._channel.say("opened", server.server_id)
        await self._heard_of_peers.wait()
        assert server.routes is not None, "processes are a cluster"
        fence = _Fence(server.routes.mesh)
        is_behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._look(fence, is_behind)
        await is_behind
        self._channel.say("joined")
        await self._may_accept.wait()

    def _look(self, fence: _Fence, is_behind: asyncio.Future[None]) -> None:
        """A mesh tells nobody when it is whole; forming takes milliseconds, once a start."""
        if is_behind.done():
            return
        if self._is_ending or fence.is_behind(self.peers):
            is_behind.set_result(None)
        else:
            asyncio.get_running_loop().call_later(_LOOK, self._look, fence, is_behind)

    async def left(self, server: JoiningServer) -> None:
        self._channel.say("left")
        await server.stopped.wait()

    @property
    def connections_elsewhere(self) -> int:
        slots = self._share.slots
        total: int = sum(count for (count,) in _SLOT.iter_unpack(slots[:]))
        return total - self._own_connections

    @property
    def _own_connections(self) -> int:
        count: int = _SLOT.unpack_from(self._share.slots, _SLOT.size * self.index)[0]
        return count

    def count_connections(self, connections: int) -> None:
        _SLOT.pack_into(self._share.slots, _SLOT.size * self.index, connections)

    async def process_snapshots(self, wanted: SnapshotParts) -> Sequence[ProcessSnapshot]:
        return await self._exchange.ask_all(wanted)


class _Fence:
    """A fence: after the PONG to a PING on each route, everything is known that the peers sent before it."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._sent: set[object] = set()

    def is_behind(self, peers: frozenset[str]) -> bool:
        """True if all routes to these peers are there and have passed the fence."""
        registry = self._mesh.registry
        if not all(None not in registry.pools.get(peer, [None]) for peer in peers):
            return False
        if not all(peer in own for own in registry.dedicated.values() for peer in peers):
            return False
        routes = [route for route in self._mesh.routes() if route.remote_id in peers]
        for route in routes:
            if route not in self._sent:
                self._sent.add(route)
                route.rtt_ns = 0
                route.ping()
                self._mesh.port.wake()
        return all(route.rtt_ns for route in routes)
