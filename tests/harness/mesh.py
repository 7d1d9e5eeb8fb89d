"""Clusters of server processes, of Headrace and the Go server in any mixture.

Here lives how a mesh is configured, started, and known to be whole and up to date; what its nodes must do is
the tests'. Nothing here reads monitoring pages or logs to know a state: interest and messages of one account
keep their order between two nodes, so that a probe behind them says that they have arrived.
"""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from harness.jetstream import JetStreamWire, Message
from harness.ports import free_port
from harness.processes import ASYNCIO, HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from harness.network import Host
    from harness.processes import Program

PROGRAMS: Final = {"g": NATS_SERVER, "h": HEADRACES[0], "a": ASYNCIO, "l": HEADRACES[0], "x": HEADRACES[0]}
PROTOCOLS: Final = {"l": "1.x", "x": "auto"}
"""What nodes of a letter are told to speak on routes, where that is not what all of their program speak."""
LEGACY: Final = frozenset("lxo")
"""Letters of nodes that speak the routes of servers before 2.0; o is such a server itself."""
MODERN: Final = frozenset("ghax")
"""Letters of nodes that speak those of later ones."""
KINDS: Final = ("ggg", "hg", "ga", "hag", "ghg", "hah")
"""Meshes, a letter a node: the Go server, Headrace with its first transport, Headrace with asyncio.

The first node is the one that the others are told of. `ggg` is the authority: what fails there is a mistake
of the test.
"""
CLUSTER_NAME: Final = "mesh"
_PROBE_SECONDS: Final = 1.0
_numbers = itertools.count(1)


class MeshClient(JetStreamWire):
    """A client of one node, with an inbox that no other one has."""

    def __init__(self, server: ServerProcess, **options: Any) -> None:
        self.number = next(_numbers)
        super().__init__(server, inbox=f"_INBOX.p{self.number}", protocol=1, **options)

    @property
    def is_open(self) -> bool:
        return not self.wire.closed and self.wire.socket.fileno() != -1

    def take_in_the_rest(self) -> None:
        """All that a node said before it ended; a frame that it did not finish is nothing."""
        while self.wire.fill(PATIENCE):
            pass
        assert self.wire.closed
        try:
            while self.wire.received:
                self._read(time.monotonic(), through_pong=True)
        except AssertionError:
            self.wire.received.clear()

    def has_responders(self, subject: str) -> bool:
        """Asks something; False when the server says at once that nobody listens."""
        reply = self.ask(subject)
        self.sync()
        return not any(message.status.startswith("503") for message in self.answers(reply))

    def got(self, sid: int) -> list[Message]:
        """All that a subscription got until the server has answered a PING."""
        self.sync()
        return self.taken(sid)


@dataclass
class Node:
    """One member: where it is, and its process while it runs. It comes back at the same ports."""

    name: str
    letter: str
    program: Program
    folder: Path
    config: str
    port: int
    route_port: int
    host: Host | None = None
    running: ServerProcess | None = None
    former: list[ServerProcess] = field(default_factory=list)

    @property
    def server(self) -> ServerProcess:
        assert self.running is not None, f"{self.name} does not run"
        return self.running

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> ServerProcess:
        self.begin()
        self.server.wait_until_ready()
        return self.server

    def begin(self) -> None:
        """Starts, and does not wait."""
        self.folder.mkdir(exist_ok=True)
        program = self.program if self.host is None else self.host.program(self.program)
        self.running = ServerProcess(program, self.folder, config=self.config, listen=(), ready=False)

    def join(self, **options: Any) -> MeshClient:
        """A client, on the same host."""
        if self.host is None:
            return MeshClient(self.server, **options)
        return self.host.inside(lambda: MeshClient(self.server, **options))

    def kill(self) -> None:
        self.server.kill()
        self.forget()

    def stop(self) -> None:
        self.server.stop()
        self.forget()

    def forget(self) -> None:
        """Its process has ended."""
        self.former.append(self.server)
        self.running = None


class Mesh:
    """Nodes of one cluster; a context manager that ends them.

    `kind` is of KINDS, or any such word. Every node but the first is configured with one route, to the first;
    `told_of="all"`: every node with routes to all of them, itself too. `more` is text for every node's
    configuration, `cluster` for its `cluster` block, `route_user` what precedes the host in the URL of that
    route (`user:password@`), `name` the cluster's, which may be empty. `hosts`: one for each node, and its
    clients; none for this machine as it is.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        *,
        more: str = "",
        cluster: str = "",
        route_user: str = "",
        name: str = CLUSTER_NAME,
        told_of: str = "first",
        hosts: Sequence[Host] = (),
        programs: Mapping[str, Program] = PROGRAMS,
    ) -> None:
        self.kind = kind
        self.nodes: list[Node] = []
        self._observers: dict[tuple[int, str], tuple[ServerProcess, MeshClient, int]] = {}
        self._clients: list[MeshClient] = []
        ports = [free_port() for _ in kind]
        places = [host.address for host in hosts] or ["127.0.0.1"] * len(kind)
        addresses = [f"{place}:{port}" for place, port in zip(places, ports, strict=True)]
        for number, letter in enumerate(kind):
            seeds = addresses if told_of == "all" else addresses[:1] if number else []
            routes = ", ".join(f'"nats-route://{route_user}{seed}"' for seed in seeds)
            port = free_port()
            lines = (
                f"server_name: n{number}",
                f"listen: 127.0.0.1:{port}",
                more,
                "cluster {",
                *([f"name: {name}"] if name else []),
                f"listen: {addresses[number]}",
                f"routes: [{routes}]",
                *([f'protocol: "{PROTOCOLS[letter]}"'] if letter in PROTOCOLS else []),
                cluster,
                "}",
            )
            text, place = "\n".join(lines), hosts[number] if hosts else None
            self.nodes.append(
                Node(
                    f"n{number}",
                    letter,
                    programs[letter],
                    folder / f"n{number}",
                    text,
                    port,
                    ports[number],
                    place,
                )
            )

    def start(self) -> None:
        for node in self.nodes:
            node.begin()
        for node in self.nodes:
            node.server.wait_until_ready()
            # nats-server listens for routes some time after it says that it is ready:
            node.server.wait_for_line("Listening for route connections")

    # -- clients

    def join(self, at: int, **options: Any) -> MeshClient:
        """A client of a node; it is closed with the mesh, or by `leave`."""
        client = self.nodes[at].join(**options)
        self._clients.append(client)
        return client

    def join_all(self, **options: Any) -> list[MeshClient]:
        """A client of every node that runs."""
        return [self.join(number, **options) for number in self.up()]

    def leave(self) -> None:
        """Closes all clients."""
        for client in self._clients:
            client.close()
        for _, client, _ in self._observers.values():
            client.close()
        self._clients.clear()
        self._observers.clear()

    def up(self) -> list[int]:
        return [number for number, node in enumerate(self.nodes) if node.running is not None]

    # -- knowing

    def converge(self, seconds: float = PATIENCE, **options: Any) -> None:
        """Returns when every node knows what the clients of an account had told the others until now.

        `options` are those of CONNECT for a user of that account who may do everything.
        """
        deadline = time.monotonic() + seconds
        for client in self._clients:
            if client.is_open and any(client.server is node.running for node in self.nodes):
                client.sync()
        observers = {number: self._observer(number, options)[0] for number in self.up()}
        for one, told in observers.items():
            for other, asking in observers.items():
                if asking is not told and self.hears(one, other):
                    reach(asking, told, deadline)

    def hears(self, number: int, other: int) -> bool:
        """Whether a node gets what is published at another one: from there, or over a third."""
        letters = {self.nodes[number].letter, self.nodes[other].letter}
        carrying = {self.nodes[each].letter for each in self.up()} & LEGACY & MODERN
        return letters <= LEGACY or letters <= MODERN or bool(carrying)

    def fence(self, *publishers: MeshClient, **options: Any) -> None:
        """Returns when every node has passed on to its clients what these clients had published until now."""
        observers = {number: self._observer(number, options) for number in self.up()}
        for publisher in publishers:
            subject = f"fence.{next(_numbers)}"
            publisher.publish(subject)
            origin = next(at for at, node in enumerate(self.nodes) if node.running is publisher.server)
            for number, (observer, sid) in observers.items():
                if not self.hears(number, origin):
                    continue
                while observer.next(sid).subject != subject:
                    pass

    def _observer(self, number: int, options: Mapping[str, Any]) -> tuple[MeshClient, int]:
        """A client of this mesh's own at a node; a new one when the node is another process by now."""
        key = number, json.dumps(options, sort_keys=True)
        server = self.nodes[number].server
        known = self._observers.get(key)
        if known is not None and known[0] is server:
            return known[1], known[2]
        if known is not None:
            known[1].close()
        client = self.nodes[number].join(**options)
        sid = client.subscribe("fence.*")
        client.sync()
        self._observers[key] = server, client, sid
        return client, sid

    # -- its end

    def close(self) -> None:
        self.leave()
        for node in reversed(self.nodes):
            if node.running is not None:
                node.running.__exit__(None, None, None)
        for server in self.logs():
            assert "Traceback" not in server.log, server.log
            assert "panic:" not in server.log, server.log

    def logs(self) -> Iterable[ServerProcess]:
        """Every process that runs or ran."""
        for node in self.nodes:
            yield from node.former
            if node.running is not None:
                yield node.running

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def reach(asking: MeshClient, told: MeshClient, deadline: float) -> None:
    """Asks until a subscription made now is known where `asking` is.

    While routes come and go a question can get lost; it is asked again then.
    """
    subject = f"probe.{next(_numbers)}"
    sid = told.subscribe(subject)
    told.sync()
    while True:
        assert time.monotonic() < deadline, f"{subject} is not known to {asking.server.config_file}"
        if not asking.has_responders(subject):
            time.sleep(0.002)
            continue
        until = time.monotonic() + _PROBE_SECONDS
        while not told.got(sid):
            if time.monotonic() > until:
                break
        else:
            told.unsubscribe(sid)
            return


def counts(clients: Sequence[MeshClient], sids: Sequence[int]) -> list[int]:
    """How much each of these got on its subscription."""
    return [len(client.got(sid)) for client, sid in zip(clients, sids, strict=True)]
