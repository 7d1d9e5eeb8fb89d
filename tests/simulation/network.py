"""Connections between nodes: bytes arrive in order on each, late, and in pieces of any size.

A partition holds back what is sent between two sides, as TCP does until it gives up. A cut connection may be
noticed at one end only: the other goes on sending into nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headrace.cluster.port import Address

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Callable

    from headrace.cluster.route import RouteSession
    from simulation.clock import Clock
    from simulation.node import Node

DIAL_TIMEOUT = 1.0
_MASK = (1 << 64) - 1


class End:
    """One end of a connection: the `Wire` of its node."""

    def __init__(self, network: Network, node: Node, remote: Address) -> None:
        network.connections += 1
        self.number = network.connections
        self.remote = remote
        self.node = node
        self.other: End | None = None
        self.session: RouteSession | None = None
        self.is_lost = False  # nothing that is sent arrives, and nothing that arrives is told
        self._network = network
        self._arrives_ns = 0
        self._held: list[bytes | None] = []  # what a partition holds back; None: the end of the stream

    def attach(self, session: RouteSession) -> None:
        """Bytes flow from now on."""
        self.session = session
        session.link.use_writer(self._write)
        session.opened()
        self.node.settle()

    def _write(self) -> None:
        assert self.session is not None
        self.send(self.session.link.take())

    def close(self) -> None:
        """The stream ends after what was sent."""
        self.send(None)

    def send(self, data: bytes | None) -> None:
        if self.is_lost or self.other is None:
            return
        if self._network.is_parted(self.node, self.other.node):
            self._held.append(data)
        else:
            self._transmit(data)

    def heal(self) -> None:
        """What was held back goes on its way."""
        held, self._held = self._held, []
        for data in held:
            self.send(data)

    def _transmit(self, data: bytes | None) -> None:
        network = self._network
        arrives = network.clock.now_ns + network.delay_ns(self.number)
        self._arrives_ns = max(self._arrives_ns + 1, arrives)
        other = self.other
        assert other is not None
        if data is not None:
            network.bytes_sent += len(data)
            if network.lines is not None:
                network.lines.update(line.split(b" ", 1)[0].decode() for line in data.split(b"\r\n"))
        network.clock.at(self._arrives_ns, lambda: other.arrived(data))

    def arrived(self, data: bytes | None) -> None:
        session = self.session
        if self.is_lost or session is None or session.is_closed:
            return
        if data is None:
            self.node.lost(session)
            return
        at = 0
        while at < len(data) and not session.link.is_closing:
            size = self._network.piece(len(data) - at, self.number)
            session.link.feed(data[at : at + size])
            at += size
        self.node.settle()

    def log(self, level: int, text: str) -> None:
        self.node.log(level, f"rid:{self.number} - {text}")

    def trace(self, op: str, arguments: bytes, payload: bytes | None) -> None:
        raise NotImplementedError("simulated links are not traced")

    def trace_delivery(self, subject: bytes, key: bytes, reply: bytes, headers: int, size: int) -> None:
        raise NotImplementedError("simulated links are not traced")


class Network:
    """Who listens where, who can hear whom. `mean_delay`: seconds, of one way."""

    def __init__(self, clock: Clock, chance: random.Random, mean_delay: float) -> None:
        self.clock = clock
        self.chance = chance
        self.connections = 0
        self.bytes_sent = 0
        self.lines: Counter[str] | None = None  # by their first word, while somebody wants to know
        self.listening: dict[Address, Node] = {}
        self.mean_delay = mean_delay
        self._seed = chance.getrandbits(64)
        self._ends: list[tuple[End, End]] = []
        self._parted: dict[Address, int] = {}

    def delay_ns(self, connection: int = 0) -> int:
        """Of one way, exponentially distributed.

        What it is depends on connection and time alone: which member of a queue group gets a message is no
        seed's decision, and must not change what else happens.
        """
        return int(-math.log(1.0 - self._draw(connection)) * self.mean_delay * 1e9) + 1000

    def piece(self, most: int, connection: int) -> int:
        """How much is read at once: mostly all there is."""
        drawn = self._draw(-connection)
        return most if drawn < 0.9 else 1 + int((drawn - 0.9) * 10 * most)

    def _draw(self, number: int) -> float:
        """As `random.random`; of connection and time (splitmix64)."""
        z = (self._seed + number * 0x9E3779B97F4A7C15 + self.clock.now_ns * 0xD1342543DE82EF95) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return (z ^ (z >> 31)) / (_MASK + 1)

    # -- faults -----------------------------------------------------------------------------------

    def part(self, sides: dict[Address, int]) -> None:
        """Nodes of different sides do not hear each other; those of one side do (again)."""
        self._parted = sides
        for pair in self.ends():
            for end in pair:
                end.heal()

    def is_parted(self, one: Node, other: Node) -> bool:
        return self._parted.get(one.address, 0) != self._parted.get(other.address, 0)

    def ends(self) -> list[tuple[End, End]]:
        """Both ends of each connection that one of them still has."""
        self._ends = [
            pair
            for pair in self._ends
            if any(e.session is not None and not e.session.is_closed for e in pair)
        ]
        return self._ends

    def forget(self) -> None:
        """Everything is over."""
        self._ends.clear()
        self.listening.clear()

    def lose(self, pair: tuple[End, End], noticing: End | None) -> None:
        """The connection breaks; only `noticing`, or nobody, hears of it at once."""
        for end in pair:
            end.is_lost = True
        if noticing is not None and noticing.session is not None and not noticing.session.is_closed:
            noticing.node.lost(noticing.session)

    # -- dialing ----------------------------------------------------------------------------------

    def dial(
        self,
        node: Node,
        address: Address,
        connected: Callable[[End], RouteSession | None],
        failed: Callable[[str | None], object],
    ) -> None:
        def answer(call: Callable[[], object]) -> Callable[[], None]:
            def later() -> None:
                if node.is_up:
                    call()
                    node.settle()

            return later

        def reach() -> None:
            target = self.listening.get(address)
            if target is None:
                self.clock.at(
                    self.clock.now_ns + self.delay_ns(), answer(lambda: failed("connection refused"))
                )
            elif self.is_parted(node, target) or not node.is_up:
                self.clock.later(DIAL_TIMEOUT, answer(lambda: failed("timeout")))
            else:
                self._connect(node, target, connected, answer)

        self.clock.at(self.clock.now_ns + self.delay_ns(), reach)

    def _connect(
        self,
        node: Node,
        target: Node,
        connected: Callable[[End], RouteSession | None],
        answer: Callable[[Callable[[], object]], Callable[[], None]],
    ) -> None:
        theirs = End(self, target, Address(node.address.host, 40000 + self.connections % 20000))
        ours = End(self, node, target.address)
        theirs.other, ours.other = ours, theirs
        accepted = target.mesh.accepted(theirs)
        if accepted is None:
            return
        self._ends.append((theirs, ours))

        def arrive() -> None:
            session = connected(ours)
            if session is None:
                ours.close()
                return
            ours.attach(session)

        # The acceptor's first bytes come after the connection itself.
        ours_opens = self.clock.now_ns + self.delay_ns()
        theirs._arrives_ns = ours_opens
        self.clock.at(ours_opens, answer(arrive))
        theirs.attach(accepted)
