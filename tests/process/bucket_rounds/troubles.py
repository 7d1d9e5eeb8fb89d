"""Everything that may happen to a cluster in a round, drawn from a seed.

A trouble begins, lasts, and ends; when it has ended everything is whole again. Never here: what must be true
meanwhile (`promises`).
"""

from __future__ import annotations

import asyncio
import signal
from random import Random
from typing import TYPE_CHECKING, Final

from harness.store_proxy import PASSED, UNREACHABLE, Fate
from process.bucket_rounds.cluster import SERVERS, Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.store_proxy import Request

LONG_STOP_S: Final = 30.0
_NEVER_ANSWERED: Final = 0.1
"""The share of lost answers for which the client has to wait in vain."""


class Trouble:
    """Something that happens to servers. `seconds`: for which it lasts."""

    def __init__(self, cluster: Cluster, name: str, servers: list[int], seconds: float) -> None:
        self.name: Final = name
        self.seconds: Final = seconds
        self._cluster: Final = cluster
        self._servers: Final = servers

    async def begin(self) -> None:
        """Bring it about."""
        raise NotImplementedError

    async def end(self) -> None:
        """Make all whole again."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.name}, servers {self._servers}, {self.seconds:.1f} s"


class Kill(Trouble):
    """The processes are killed (kill -9), and started again, on their disks or on empty ones."""

    def __init__(
        self, cluster: Cluster, name: str, servers: list[int], seconds: float, *, is_empty: bool
    ) -> None:
        super().__init__(cluster, name, servers, seconds)
        self._is_empty: Final = is_empty

    async def begin(self) -> None:
        for number in self._servers:
            self._cluster.signal(number, signal.SIGKILL)

    async def end(self) -> None:
        for number in self._servers:
            await asyncio.to_thread(self._cluster.start_again, number, is_empty=self._is_empty)

    def __str__(self) -> str:
        return f"{super().__str__()}, {'empty disk' if self._is_empty else 'same disk'}"


class Stop(Trouble):
    """The processes are stopped (SIGSTOP), and go on later as if nothing had been."""

    async def begin(self) -> None:
        for number in self._servers:
            self._cluster.signal(number, signal.SIGSTOP)

    async def end(self) -> None:
        for number in self._servers:
            self._cluster.signal(number, signal.SIGCONT)


class CutRoutes(Trouble):
    """Servers do not hear others any more, and are told so, or not."""

    def __init__(
        self, cluster: Cluster, name: str, servers: list[int], seconds: float, *, silently: bool
    ) -> None:
        super().__init__(cluster, name, servers, seconds)
        self._silently: Final = silently

    async def begin(self) -> None:
        for number in self._servers:
            await asyncio.to_thread(self._cluster.links.cut, number, silently=self._silently)

    async def end(self) -> None:
        await asyncio.to_thread(self._cluster.links.mend)

    def __str__(self) -> str:
        return f"{super().__str__()}, {'silently' if self._silently else 'with a sign'}"


class Requests(Trouble):
    """Requests of servers to the store have another fate than to be answered."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        servers: list[int],
        seconds: float,
        fate: Callable[[Request], Fate],
    ) -> None:
        super().__init__(cluster, name, servers, seconds)
        self._fate: Final = fate

    async def begin(self) -> None:
        for number in self._servers:
            self._cluster.proxies[number].default = self._fate

    async def end(self) -> None:
        for number in self._servers:
            self._cluster.proxies[number].default = lambda _request: PASSED


class Both(Trouble):
    """A trouble of servers while there is one with the store."""

    def __init__(self, cluster: Cluster, with_store: Trouble, with_servers: Trouble) -> None:
        name = f"{with_servers.name} while {with_store.name}"
        super().__init__(cluster, name, [], with_servers.seconds)
        self._with_store: Final = with_store
        self._with_servers: Final = with_servers

    async def begin(self) -> None:
        await self._with_store.begin()
        await asyncio.sleep(min(self._with_store.seconds, 1.0))
        await self._with_servers.begin()

    async def end(self) -> None:
        await self._with_store.end()
        await self._with_servers.end()

    def __str__(self) -> str:
        return f"{self._with_servers}, while {self._with_store}"


def _late(chance: Random) -> Callable[[Request], Fate]:
    """Requests arrive late at the store, or its answers come late."""
    own = Random(chance.random())
    most = chance.choice((0.2, 1.0, 3.0))

    def fate(_request: Request) -> Fate:
        if own.random() < 0.5:
            return Fate(delay_s=own.uniform(0.0, most))
        return Fate(answer_delay_s=own.uniform(0.0, most))

    return fate


def _refused_when_done(chance: Random) -> Callable[[Request], Fate]:
    """Some objects are created, and who did it is told that it failed, or is told nothing."""
    own = Random(chance.random())
    share = chance.choice((0.1, 0.5, 0.9))

    def fate(request: Request) -> Fate:
        if request.method != "PUT" or own.random() > share:
            return PASSED
        if own.random() < _NEVER_ANSWERED:
            return Fate(is_never_answered=True)
        return own.choice(
            (
                Fate(answered_status=503, code="SlowDown"),
                Fate(answered_status=500, code="InternalError"),
                Fate(is_unanswered=True),
            )
        )

    return fate


class Draw:
    """Draws troubles for a cluster. `longest_s`: for which one lasts at most, in seconds."""

    def __init__(self, cluster: Cluster, chance: Random, longest_s: float) -> None:
        self._cluster: Final = cluster
        self._chance: Final = chance
        self._longest_s: Final = longest_s

    def draw(self, owner: int) -> Trouble:
        """Return the trouble of a round, that more often than not is the owner's."""
        chance = self._chance
        kind = chance.choice(
            (self._kill, self._kill, self._stop, self._stop, self._cut_routes, self._with_store, self._both)
        )
        return kind(owner)

    def _whom(self, owner: int) -> tuple[str, int]:
        if self._chance.random() < 0.7:
            return "owner", owner
        return "standby", (owner + self._chance.choice((1, 2))) % SERVERS

    def _seconds(self, least: float, most: float) -> float:
        return self._chance.uniform(least, min(most, self._longest_s))

    def _kill(self, owner: int) -> Trouble:
        who, number = self._whom(owner)
        is_empty = self._chance.random() < 0.5
        return Kill(
            self._cluster, f"kill -9 of the {who}", [number], self._seconds(0.0, 4.0), is_empty=is_empty
        )

    def _stop(self, owner: int) -> Trouble:
        who, number = self._whom(owner)
        seconds = self._seconds(1.0, 8.0)
        if self._chance.random() < 0.25:
            seconds = min(LONG_STOP_S, self._longest_s)
        return Stop(self._cluster, f"SIGSTOP of the {who}", [number], seconds)

    def _cut_routes(self, owner: int) -> Trouble:
        who, number = self._whom(owner)
        silently = self._chance.random() < 0.5
        return CutRoutes(
            self._cluster, f"cut routes of the {who}", [number], self._seconds(1.0, 8.0), silently=silently
        )

    def _with_store(self, owner: int) -> Trouble:
        who, servers = "all", list(range(SERVERS))
        if self._chance.random() < 0.6:
            who, number = self._whom(owner)
            servers = [number]
        name, fate = self._chance.choice(
            (
                ("cut store", lambda _request: UNREACHABLE),
                ("late store", _late(self._chance)),
                ("store that says no when it is done", _refused_when_done(self._chance)),
            )
        )
        return Requests(self._cluster, f"{name} of the {who}", servers, self._seconds(1.0, 8.0), fate)

    def _both(self, owner: int) -> Trouble:
        name, fate = self._chance.choice(
            (
                ("late store of all", _late(self._chance)),
                ("store that says no when it is done of all", _refused_when_done(self._chance)),
            )
        )
        with_store = Requests(self._cluster, name, list(range(SERVERS)), self._seconds(0.1, 1.0), fate)
        with_servers = self._chance.choice((self._kill, self._stop))(owner)
        return Both(self._cluster, with_store, with_servers)
