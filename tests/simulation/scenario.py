"""What happens in one simulated cluster, drawn from a seed.

Who is there, what breaks, what must hold afterwards.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.cluster.port import Address
from headrace.cluster.registry import DEDICATED
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.subjects import grammar
from simulation.clock import Clock
from simulation.network import Network
from simulation.node import Node, SimulatedClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.route import RouteSession

SUBJECTS = ("a", "b", "a.b", "a.c", "x.y.z")
WILDCARDS = ("*", ">", "a.*", "a.>", "*.b", "x.*.z", "x.>")
QUEUES = ("", "", "", "q", "workers")
FAULTS = (
    *("restart", "crash", "vanish", "part", "part", "heal", "cut", "half", "half", "reset"),
    *("pin", "unpin", "pool", "account"),
)
MIXTURES = (
    ("1.x",),
    ("1.x", "auto"),
    ("auto", "2.x"),
    ("auto", "1.x", "2.x"),
    ("auto", "2.x", "1.x", "auto"),
)
"""Which protocols nodes speak, in turn, where not all speak 2.x."""
CONVERGES_WITHIN = 240.0
"""Seconds after the last fault: half-open links are found by unanswered PINGs, lost gossip by reminders."""

QUIET = 2.0


class Violation(AssertionError):
    """Something that must hold did not."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The shape of a run. `nodes` and all else not given are drawn from the seed.

    `protocols`: of the routes of each node, in turn.
    """

    seed: int
    nodes: int
    faults: int
    options: ClusterOptions
    topology: str
    mean_delay: float
    is_dynamic: bool
    protocols: tuple[str, ...] = ("2.x",)

    @classmethod
    def draw(cls, seed: int, nodes: int | None = None, *, legacy: bool = False) -> Plan:
        """`legacy`: not all nodes speak 2.x."""
        plan = cls._draw(seed, nodes)
        if not legacy:
            return plan
        chance = random.Random(seed + 3)
        protocols = chance.choice(MIXTURES)
        # Who has no protocol in common with the only server that it knows stays alone.
        is_split = {"1.x", "2.x"} <= set(protocols)
        topology = chance.choice(("all", "first")) if is_split else plan.topology
        return dataclasses.replace(plan, protocols=protocols, topology=topology)

    @classmethod
    def _draw(cls, seed: int, nodes: int | None) -> Plan:
        chance = random.Random(seed)
        count = nodes or chance.choice((3, 3, 3, 4, 4, 5))
        pool_size = chance.choice((-1, 1, 2, 3, 3, 3))
        options = ClusterOptions(
            name="" if (is_dynamic := chance.random() < 0.15) else "C",
            pool_size=pool_size,
            accounts=("A",) if pool_size > 0 and chance.random() < 0.4 else (),
            connect_retries=300,
            connect_backoff=chance.random() < 0.3,
            ping_interval=chance.choice((5.0, 15.0)),
            user="u" if (secured := chance.random() < 0.3) else None,
            password="p" if secured else None,
        )
        return cls(
            seed,
            count,
            faults=chance.choice((0, 1, 2, 4)),
            options=options,
            topology=chance.choice(("all", "all", "first", "chain", "ring")),
            mean_delay=chance.choice((0.0002, 0.005, 0.05)),
            is_dynamic=is_dynamic,
        )


class Scenario:
    """One run. `told` gets a line for everything nodes log, None: nobody wants to know."""

    def __init__(self, plan: Plan, told: list[str] | None = None) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed + 1)
        self.clock = Clock()
        self.network = Network(self.clock, random.Random(plan.seed + 2), plan.mean_delay)
        self.told = told
        self.addresses = [Address(f"10.0.0.{n + 1}", 6222) for n in range(plan.nodes)]
        self.nodes: dict[Address, Node] = {}
        self.options = plan.options  # without routes; they change while it runs
        self.accounts = ["$G", "A", "B"]
        self.converged_after = 0.0
        self._incarnations: Counter[Address] = Counter()
        self._messages = 0

    # -- the run ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises: Violation."""
        try:
            self._run()
        finally:
            for node in list(self.nodes.values()):
                if node.is_up:
                    node.crash(is_noticed=False)
            self.clock.clear()
            self.nodes.clear()
            self.network.forget()

    def _run(self) -> None:
        starts = [self.chance.random() * self.chance.choice((0.0, 0.1, 3.0)) for _ in self.addresses]
        for at, address in sorted(zip(starts, self.addresses, strict=True)):
            self.clock.later(at, partial(self._start, address))
        self.clock.run(max(starts) + 0.001)
        for _ in range(self.plan.faults):
            self._live(self.chance.uniform(0.0, 5.0))
            self._fault()
        self._live(self.chance.uniform(3.0, 5.0))
        self.network.part({})
        self._note("healed: it converges from here on")
        for address in self.addresses:
            if address not in self.nodes:
                self._start(address)
        self._converge()
        self._check_deliveries()
        self._withdraw_and_check()

    def _note(self, text: str) -> None:
        if self.told is not None:
            self.told.append(f"{self.clock.now_ns / 1e9:9.4f} ==== {text}")

    def _start(self, address: Address) -> None:
        self._incarnations[address] += 1
        # Ids in no order of addresses: who gives way to whom depends on them.
        prefix = random.Random(f"{self.plan.seed} {address}").choice("ABCDEFGH")
        name = f"{prefix}{self.addresses.index(address) + 1}-{self._incarnations[address]}"
        self._note(f"{name} starts")
        options = self._options(address)
        node = Node(
            self.network, address, options, accounts=self.accounts[1:], server_id=name, told=self.told
        )
        self.nodes[address] = node
        for _ in range(self.chance.randint(1, 3)):
            self._add_client(node)

    def _options(self, address: Address) -> ClusterOptions:
        options = self.options
        at = self.addresses.index(address)
        last = len(self.addresses) - 1
        if self.plan.topology == "all":
            to = list(self.addresses)
        elif self.plan.topology == "first":
            to = self.addresses[:1]
        elif self.plan.topology == "chain":
            to = [self.addresses[at - 1]] if at else []
        else:
            to = [self.addresses[at - 1 if at else last]]
        urls = tuple(PeerURL(each.host, each.port, options.user, options.password) for each in to)
        protocol = self._protocol(address)
        return replace(options, host=address.host, port=address.port, routes=urls, protocol=protocol)

    def _protocol(self, address: Address) -> str:
        return self.plan.protocols[self.addresses.index(address) % len(self.plan.protocols)]

    def _is_legacy(self, node: Node, other: Node) -> bool | None:
        """Whether two nodes speak 1.x to each other; None: they have nothing to say."""
        spoken = {self._protocol(node.address), self._protocol(other.address)}
        if spoken == {"1.x", "2.x"}:
            return None
        return "1.x" in spoken

    def _hears(self, node: Node, publishing: Node, account: str) -> bool:
        """Whether a node's clients get what is published at another one."""
        if node is publishing:
            return True
        is_legacy = self._is_legacy(node, publishing)
        if is_legacy is None and not self._bridges():
            return False
        return is_legacy is False or account == "$G"

    def _bridges(self) -> list[Node]:
        """Who carries, or will carry, messages between nodes that have nothing to say to each other."""
        return [node for node in self.nodes.values() if self._protocol(node.address) == "auto"]

    def _carried(self, bridge: Node, to: Node) -> Iterator[Node]:
        """Nodes for which that one speaks."""
        if bridge.mesh.bridge.is_on:
            for node in self.nodes.values():
                if node is not to and self._is_legacy(node, to) is None:
                    yield node

    # -- what clients do --------------------------------------------------------------------------

    def _add_client(self, node: Node) -> None:
        client = node.client(self.chance.choice([name for name in self.accounts if name in node.accounts]))
        for _ in range(self.chance.randint(1, 4)):
            self._subscribe(client)

    def _subscribe(self, client: SimulatedClient) -> None:
        client.subscribe(self.chance.choice(SUBJECTS + WILDCARDS), self.chance.choice(QUEUES))

    def _live(self, seconds: float) -> None:
        """Clients come, go, subscribe and publish for that long."""
        steps = self.chance.randint(1, 6)
        for _ in range(steps):
            self.clock.run(seconds / steps)
            up = [node for node in self.nodes.values() if node.is_up]
            if not up:
                continue
            node = self.chance.choice(up)
            deed = self.chance.random()
            if deed < 0.2 or not node.clients:
                self._add_client(node)
                continue
            client = self.chance.choice(node.clients)
            if deed < 0.5:
                self._subscribe(client)
            elif deed < 0.7 and client.subscriptions:
                client.unsubscribe(self.chance.choice(list(client.subscriptions)))
            elif deed < 0.8:
                client.close()
            else:
                client.publish(self.chance.choice(SUBJECTS), "before")

    # -- what breaks ------------------------------------------------------------------------------

    def _fault(self) -> None:
        up = [node for node in self.nodes.values() if node.is_up]
        pairs = self.network.ends()
        kind = self.chance.choice(FAULTS)
        if kind in ("restart", "crash", "vanish") and up:
            node = self.chance.choice(up)
            self._note(f"{node.server_id}: {kind}")
            if kind == "restart":
                node.stop()
            else:
                node.crash(is_noticed=kind == "crash")
            del self.nodes[node.address]
            self.clock.run(self.chance.choice((0.0, 0.5, 4.0)))
            self._start(node.address)
        elif kind == "part":
            sides = {address: self.chance.randint(0, 1) for address in self.addresses}
            self._note(f"parted: {sorted(map(str, filter(sides.get, sides)))}")
            self.network.part(sides)
        elif kind in ("pin", "unpin", "pool", "account"):
            self._change(kind)
        elif kind == "heal":
            self._note("healed")
            self.network.part({})
        elif pairs:
            for pair in pairs if kind == "reset" else [self.chance.choice(pairs)]:
                noticing = self.chance.choice(pair)
                self._note(f"{kind} between {pair[0].node.server_id} and {pair[1].node.server_id}")
                self.network.lose(pair, noticing)
                other = pair[0] if noticing is pair[1] else pair[1]
                if kind != "half" and other.session is not None and not other.session.is_closed:
                    other.node.lost(other.session)

    def _change(self, kind: str) -> None:
        """Every node gets other options, or one more account, each at its own time."""
        options = self.options
        if kind == "account":
            self.accounts.append(f"N{len(self.accounts)}")
        elif options.pool_size < 1:
            return
        elif kind == "pool":
            options = replace(options, pool_size=self.chance.choice((1, 2, 3, 4)))
        else:
            options = replace(options, accounts=("A", "B") if kind == "pin" else ())
        self.options = options
        self._note(f"{kind}: {options.pool_size} {options.accounts} {self.accounts}")
        for node in self.nodes.values():
            node.call_later(self.chance.uniform(0.0, 3.0), partial(self._apply, node))

    def _apply(self, node: Node) -> None:
        node.change(self._options(node.address), self.accounts[1:])

    # -- what must hold ---------------------------------------------------------------------------

    def _converge(self) -> None:
        began = self.clock.now_ns
        step = 0.25
        while (problem := self._problem()) is not None:
            self.converged_after = (self.clock.now_ns - began) / 1e9
            if self.converged_after > CONVERGES_WITHIN:
                raise Violation(f"not converged after {CONVERGES_WITHIN:.0f} s: {problem}")
            self.clock.run(step)
            step = min(step * 1.5, 10.0)
        self.clock.run(QUIET)
        problem = self._problem()
        if problem is not None:
            raise Violation(f"converged, and lost it again: {problem}")

    def _problem(self) -> str | None:
        """Why the cluster is not (yet) what it should be."""
        for node in self.nodes.values():
            if node.has_mistake:
                raise Violation(f"{node.server_id}: {node.has_mistake}")
        return next(self._problems(), None)

    def _problems(self) -> Iterator[str]:
        nodes = list(self.nodes.values())
        bridging = [node.server_id for node in nodes if node.mesh.bridge.is_on]
        if len(bridging) != min(len(self._bridges()), 1):
            yield f"bridges: {bridging}"
        for node in nodes:
            for other in nodes:
                if node is other:
                    continue
                if self._is_legacy(node, other) is None:
                    if other.server_id in node.mesh.registry.pools:
                        yield f"{node.server_id} is connected to {other.server_id}"
                    continue
                yield from self._problems_between(node, other)
                is_named = not self._is_legacy(node, other)
                if is_named and node.mesh.name.text != other.mesh.name.text:
                    name = other.mesh.name.text
                    yield f"{node.server_id} is in {node.mesh.name.text}, {other.server_id} in {name}"
            strangers = {route.remote_id for route in node.mesh.routes()} - {each.server_id for each in nodes}
            if strangers:
                yield f"{node.server_id} is connected to {sorted(strangers)}"

    def _problems_between(self, node: Node, other: Node) -> Iterator[str]:
        where = f"{node.server_id} to {other.server_id}"
        slots = node.mesh.registry.pools.get(other.server_id)
        if slots is None or not all(slots):
            yield f"{where}: connections {slots}"
            return
        for index, session in enumerate(slots):
            assert session is not None
            mine = other.mesh.registry.pools.get(node.server_id, [])
            if index >= len(mine) or not _are_ends(session, mine[index]):
                yield f"{where}: connection {index} is not the one that the other side has"
            if session.is_legacy is not self._is_legacy(node, other):
                yield f"{where}: connection {index} speaks another protocol than it should"
        if self._is_legacy(node, other):
            yield from self._account_differences(where, slots[0], node, other, "$G")
            return
        for account, connections in node.mesh.registry.dedicated.items():
            session = connections.get(other.server_id)
            if session is None:
                yield f"{where}: no connection for {account}"
            elif not _are_ends(session, other.mesh.registry.dedicated.get(account, {}).get(node.server_id)):
                yield f"{where}: the connection for {account} is not the one that the other side has"
        yield from self._differences(where, node, other)

    def _differences(self, where: str, node: Node, other: Node) -> Iterator[str]:
        """What one node knows of the other's interest, and what it is."""
        for account in self.accounts:
            index = other.mesh.accounts.index(account)
            if index == DEDICATED:
                session = node.mesh.registry.dedicated.get(account, {}).get(other.server_id)
            else:
                session = (node.mesh.registry.pools.get(other.server_id) or [None])[index]
            if session is None:
                yield f"{where}: nothing carries {account}"
                continue
            yield from self._account_differences(where, session, node, other, account)

    def _account_differences(
        self, where: str, session: RouteSession | None, node: Node, other: Node, account: str
    ) -> Iterator[str]:
        assert session is not None
        known: Counter[tuple[str, str]] = Counter()
        for name, subject, queue, weight in session.link.interest_rows():
            if name.decode() == account:
                known[subject.decode(), (queue or b"").decode()] += weight if queue else 0
        actual = _interest(other, account)
        if account == "$G":
            for each in self._carried(other, node):
                for (subject, queue), weight in _interest(each, account).items():
                    # To 1.x a group of 2.x is a plain subscription.
                    key = (subject, "") if self._protocol(each.address) == "2.x" else (subject, queue)
                    actual[key] = actual.get(key, 0) + (weight if key[1] else 0)
        if known != actual:
            yield f"{where}: {account}: knows {known}, but it is {actual}"

    def _check_deliveries(self) -> None:
        """From every node to every subject.

        Each subscription once, of each group one in the whole cluster.
        """
        nodes = list(self.nodes.values())
        published: list[tuple[Node, str, str, str]] = []
        for node in nodes:
            for client in node.clients:
                client.got.clear()
            for account in self.accounts:
                publisher = node.client(account)
                for subject in SUBJECTS:
                    self._messages += 1
                    payload = f"m{self._messages}"
                    published.append((node, account, subject, payload))
                    publisher.publish(subject, payload)
                publisher.close()
        before = self.clock.calls
        self.clock.run(QUIET)
        if self.clock.calls - before > 1000 + 200 * len(nodes) ** 2 + 4 * len(published) * len(nodes):
            raise Violation(
                f"{self.clock.calls - before} events after {len(published)} messages: something loops"
            )
        for node, account, subject, payload in published:
            self._check_delivery(node, account, subject, payload)

    def _check_delivery(self, publishing: Node, account: str, subject: str, payload: str) -> None:
        groups: Counter[str] = Counter()  # members with different subjects are of one group
        expected_groups = set()
        for node in self.nodes.values():
            is_heard = self._hears(node, publishing, account)
            for client in node.clients:
                for sid, (wanted, queue) in client.subscriptions.items():
                    matches = client.account == account and grammar.matches(wanted.encode(), subject.encode())
                    matches = matches and is_heard
                    count = client.got[sid, payload.encode()]
                    who = f"{node.server_id} {account} {wanted} {queue}"
                    if not queue and count != matches:
                        raise Violation(f"{payload} to {subject}: {who} got it {count} times")
                    if queue and count and not matches:
                        raise Violation(f"{payload} to {subject}: {who} got what is not for it")
                    if queue and matches:
                        expected_groups.add(queue)
                        groups[queue] += count
        for queue in expected_groups:
            if groups[queue] != 1:
                who = f"group {queue} of {account}"
                raise Violation(f"{payload} to {subject}: {who} got it {groups[queue]} times")

    def _withdraw_and_check(self) -> None:
        """When all subscriptions have ended nobody knows of any, and nothing is sent any more."""
        for node in self.nodes.values():
            for client in list(node.clients):
                client.close()
        self.clock.run(QUIET)
        problem = self._problem()
        if problem is not None:
            raise Violation(f"after everybody left: {problem}")


def _are_ends(one: RouteSession, other: RouteSession | None) -> bool:
    return other is not None and one.wire.other is other.wire  # type: ignore[attr-defined]


def _interest(node: Node, account: str) -> dict[tuple[str, str], int]:
    """As it is told: a subject once, a group with the number of its members."""
    members: Counter[tuple[str, str]] = Counter()
    for client in node.clients:
        if client.account == account:
            members.update(client.subscriptions.values())
    return {key: count if key[1] else 0 for key, count in members.items()}
