"""Several real servers that are one cluster, on free ports of the loopback interface, while a `with` lasts.

`with` runs each on a thread of its own, `async with` all on the caller's loop. On entry every server is
connected to every other one; nothing polls or sleeps.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, Final, Self

from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.testing.embedded import Server, check_option_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from headrace.server.server import Server as _Server

_OF_THE_FIRST: Final = frozenset(["jetstream", "streaming"])

_JOINED_TIMEOUT: Final = 30.0
"""Seconds in which all servers must have found each other."""


class ServerCluster:
    """A cluster of servers inside a test.

    `size` servers; keyword arguments are those of `headrace.testing.Server`, for each of them.

    `jetstream` and `streaming` are the first one's: only one server of a cluster can have them. So are the
    blocks of these names in a configuration file (`config`), whose `cluster` block is not used.

        with ServerCluster(3) as cluster:
            connect_to(cluster.urls)

    A client's subscription is known to the other servers a moment after its own server has it. One connection
    leads to each server, without a pool. One instance is used once.

    A stream of JetStream is on the first server only: nothing is replicated, and who asks for more replicas
    than one is refused. Clients of every server reach it there.
    Raises: TypeError for an option that does not exist; on entry StartError when a server cannot be started,
    TimeoutError when one finds no other, RuntimeError when it is entered a second time.
    """

    def __init__(self, size: int = 3, *, name: str = "test", **changes: Any) -> None:
        check_option_names(changes)
        self._size: Final = size
        self._name: Final = name
        self._changes = changes
        self._threads = ExitStack()
        self._tasks = AsyncExitStack()
        self._was_entered = False
        self.servers: list[Server] = []

    def __repr__(self) -> str:
        return f"<headrace.testing.ServerCluster {self._name!r} of {self._size}: {self.servers}>"

    @property
    def urls(self) -> list[str]:
        """The client URLs of all servers."""
        return [server.url for server in self.servers]

    def __getitem__(self, index: int) -> Server:
        return self.servers[index]

    def __len__(self) -> int:
        return len(self.servers)

    def __iter__(self) -> Iterator[Server]:
        return iter(self.servers)

    def _enter(self) -> None:
        """Take the one entry that an instance has. Raises: RuntimeError."""
        if self._was_entered:
            raise RuntimeError(f"{self!r} was entered before: an instance is used once, make another cluster")
        self._was_entered = True

    def _new(self) -> Server:
        """The next one; all but the first are told of the first, and hear of the others from it."""
        routes = [_route_to(server.server) for server in self.servers[:1]]
        cluster = ClusterOptions(
            name=self._name, host="127.0.0.1", port=-1, pool_size=-1, routes=tuple(routes)
        )
        changes = self._changes
        if self.servers:
            changes = {name: value for name, value in changes.items() if name not in _OF_THE_FIRST}
            return _Follower(cluster=cluster, **changes)
        return Server(cluster=cluster, **changes)

    # -- with -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._enter()
        with ExitStack() as stack:
            for _ in range(self._size):
                self.servers.append(stack.enter_context(self._new()))
            for server in self.servers:
                server.call(_joined, server.server, self._size - 1)
            self._threads = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.close()

    # -- async with -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._enter()
        async with AsyncExitStack() as stack:
            for _ in range(self._size):
                self.servers.append(await stack.enter_async_context(self._new()))
            for server in self.servers:
                await _joined(server.server, self._size - 1)
            self._tasks = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._tasks.aclose()


class _Follower(Server):
    """A server of a cluster behind the first: it has no streams, whatever a configuration file says."""

    def _over_the_file(self) -> Mapping[str, object]:
        from headrace.conf.streaming_rules import StreamingFlags  # most clusters of tests have no file

        return {"jetstream_flags": {"enabled": False}, "streaming_flags": StreamingFlags(enabled=False)}


def _route_to(server: _Server) -> PeerURL:
    assert server.routes is not None
    return PeerURL(server.routes.host, server.routes.port)


async def _joined(server: _Server, peers: int) -> None:
    assert server.routes is not None
    await server.routes.joined(peers, seconds=_JOINED_TIMEOUT)
