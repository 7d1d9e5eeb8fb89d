"""The Protocol by which a server that is one of several processes on one port knows the others.

A contract only; `headrace.processes` keeps it. The others are reached over routes, like servers of a cluster;
what is said here is what a cluster has no words for. Never lives here: supervision, channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from headrace.conf.options import Options
    from headrace.server.monitor.aggregate import ProcessSnapshot, SnapshotParts
    from headrace.server.peers.port import HasMesh

    class JoiningServer(Protocol):
        """A server, as the other processes see it."""

        @property
        def server_id(self) -> str: ...
        @property
        def routes(self) -> HasMesh | None: ...
        @property
        def stopped(self) -> asyncio.Event: ...


class Worker(Protocol):
    """The view that one server of several processes has of the others.

    `index` counts the processes from 0: the first one has what only one process can have (stores,
    monitoring). `count`: how many there are. `start_ns`: when the whole server started, since the Unix epoch.
    `has_private_mesh`: the processes are a cluster among themselves, of which nobody else is to know.
    """

    index: int
    count: int
    start_ns: int
    has_private_mesh: bool

    @property
    def whole_options(self) -> Options:
        """The options of the whole server, of which this process has its share."""

    @property
    def runs_jetstream(self) -> bool:
        """True if the first process runs JetStream, for the clients of all."""

    @property
    def peers(self) -> frozenset[str]:
        """The server ids of the other processes that are there."""

    async def joined(self, server: JoiningServer) -> None:
        """Wait until clients may be accepted: this process knows all others, and the interest of their
        clients.
        """

    async def left(self, server: JoiningServer) -> None:
        """A lame duck has no clients any more: until the others have none either, and it was stopped."""

    @property
    def connections_elsewhere(self) -> int:
        """Clients of the other processes."""

    def count_connections(self, connections: int) -> None:
        """Tell the other processes the number of clients here."""

    async def process_snapshots(self, wanted: SnapshotParts) -> Sequence[ProcessSnapshot]:
        """Ask the other processes that are there for their snapshots.

        Raises: MonitorUnavailable when one does not answer.
        """

    @property
    def missing(self) -> int | None:
        """The number, from 1, of a process that is not there; None: all are."""
