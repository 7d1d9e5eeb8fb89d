"""Three servers over one bucket, each with its own way to the store and to the others, which can be cut.

Never here: when what happens to them (`troubles`).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from harness.ports import free_port
from harness.processes import HEADRACES, ServerProcess
from harness.store_proxy import StoreProxy, store_proxy
from harness.waiting import PATIENCE, at_once
from process.bucket_rounds.route_links import RouteLinks, route_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.bucket_store import BenchStore

SERVERS: Final = 3
_ANSWER_S: Final = 1.0
_READY_S: Final = 2 * PATIENCE
"""Seconds within which a server is ready, one of three that start at once over a store on this machine."""
_PUTS_PER_SECOND: Final = 200.0
_HEARD_S: Final = 1.5
_BEHIND: Final = 20
"""Objects that a server may have to read still, while publications go on."""
_TAIL: Final = 25
"""Lines of each log in a report."""
_CONFIG: Final = """
server_name: s{number}
http: "127.0.0.1:-1"
accounts {{ SYS {{ users = [{{ user: admin, password: x }}] }}
            A {{ jetstream: enabled, users = [{{ user: a, password: a }}] }} }}
system_account: SYS
no_auth_user: a
jetstream {{ store_dir: "{directory}", {bucket} }}
cluster {{ name: C, listen: "127.0.0.1:{own}", routes: [{routes}]
  no_advertise: true, advertise: "127.0.0.1:{nowhere}" }}
"""


class Wiring(NamedTuple):
    """The ways of servers to the store and to each other. All but `nowhere` is by the number of a server."""

    proxies: list[StoreProxy]
    blocks: list[str]
    """The block of the configuration that names the bucket, at the proxy."""
    links: RouteLinks
    ports: list[int]
    """Of routes, behind the links."""
    nowhere: int
    """A port at which nobody listens. Servers say that it is theirs, so that nobody goes round a link."""


class Cluster:
    """The servers, known by their numbers. `environments`: what each has besides the test's environment."""

    def __init__(self, folder: Path, wiring: Wiring, environments: Sequence[dict[str, str]]) -> None:
        self.proxies: Final = wiring.proxies
        self.links: Final = wiring.links
        self._wiring: Final = wiring
        self._folder: Final = folder
        self._environments: Final = environments
        self._client_ports: Final = [free_port() for _ in range(SERVERS)]
        self._logs: Final[list[list[str]]] = [[] for _ in range(SERVERS)]
        self.servers: Final = [self._start(number) for number in range(SERVERS)]
        try:
            for server in self.servers:
                server.wait_until_ready(_READY_S)
        except BaseException:
            self.close()
            raise

    @property
    def urls(self) -> list[str]:
        """The servers' URLs for clients, which stay when a server is started again."""
        return [f"nats://127.0.0.1:{port}" for port in self._client_ports]

    def _disk(self, number: int) -> Path:
        return self._folder / f"disk{number}"

    def _start(self, number: int) -> ServerProcess:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self.links.ports_for(number))
        text = _CONFIG.format(
            number=number,
            directory=self._disk(number),
            bucket=self._wiring.blocks[number],
            own=self._wiring.ports[number],
            routes=routes,
            nowhere=self._wiring.nowhere,
        )
        folder = self._folder / f"s{number}"
        folder.mkdir(exist_ok=True)
        listen = ("-a", "127.0.0.1", "-p", str(self._client_ports[number]))
        environment = self._environments[number]
        return ServerProcess(
            HEADRACES[0], folder, config=text, listen=listen, environment=environment, ready=False
        )

    def signal(self, number: int, which: signal.Signals) -> None:
        """Send a signal to a server."""
        self.servers[number].signal(which)

    def start_again(self, number: int, *, is_empty: bool) -> None:
        """Start a killed server anew, on its disk or on an empty one."""
        server = self.servers[number]
        server.wait()
        self._logs[number] += server.lines
        if is_empty:
            shutil.rmtree(self._disk(number))
        self.servers[number] = self._start(number)
        self.servers[number].wait_until_ready(_READY_S)

    def start_all_again(self) -> None:
        """Kill all servers at once, and start all anew on empty disks."""
        for server in self.servers:
            server.process.kill()
        at_once(lambda number: self.start_again(number, is_empty=True), range(SERVERS))

    def bucket(self, number: int) -> dict[str, Any]:
        """Return what a server tells of its bucket; nothing where it does not answer."""
        try:
            with urlopen(f"{self.servers[number].monitor_url}/jsz", timeout=_ANSWER_S) as answer:
                found: dict[str, Any] = json.load(answer)["bucket"]
                return found
        except (URLError, ConnectionError, TimeoutError):
            return {}

    async def owner(self) -> int:
        """Wait for a server that owns the bucket; return its number. Raises: TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while True:
                states = await asyncio.gather(
                    *(asyncio.to_thread(self.bucket, number) for number in range(SERVERS))
                )
                owners = [number for number in range(SERVERS) if states[number].get("role") == "owner"]
                if owners:  # of two one was stopped, and does not know yet that the other one is it
                    return max(owners, key=lambda number: int(states[number]["epoch"]))
                await asyncio.sleep(0.05)

    async def rest(self) -> int:
        """Wait until the owner hears all others, and they have read what it wrote; return its number.

        Raises: AssertionError with the state of all servers when that takes too long.
        """
        end = time.monotonic() + 2 * PATIENCE
        while True:
            owner = await self.owner()
            standbys = (await asyncio.to_thread(self.bucket, owner)).get("standbys", ())
            present = [each for each in standbys if each["heard_seconds"] < _HEARD_S]
            if sum(each["behind"] <= _BEHIND for each in present) == SERVERS - 1:
                return owner
            if time.monotonic() > end:
                raise AssertionError(f"server {owner} hears {standbys}\n{await asyncio.to_thread(self.told)}")
            await asyncio.sleep(0.1)

    def told(self) -> str:
        """Return the state of all servers, and the ends of their logs, for people."""
        lines = []
        for number, server in enumerate(self.servers):
            code = server.process.poll()
            state = f"ended with {code}" if code is not None else f"runs, bucket {self.bucket(number)}"
            lines += [f"server {number} (pid {server.pid}) {state}", *server.lines[-_TAIL:]]
        return "\n".join(lines)

    def write_logs(self) -> Path:
        """Write the whole logs into files; return their folder."""
        for number, server in enumerate(self.servers):
            text = "\n".join([*self._logs[number], *server.lines])
            (self._folder / f"s{number}.log").write_text(text)
        return self._folder

    def check_logs(self) -> None:
        """Raises: AssertionError where a server has said that it made a mistake."""
        for number, server in enumerate(self.servers):
            found = [line for line in (*self._logs[number], *server.lines) if "Traceback" in line]
            assert not found, f"server {number}: {found[0]}, in {self.write_logs()}"

    def close(self) -> None:
        """End all servers, whatever state they are in; their logs stay as files."""
        self.write_logs()
        for server in self.servers:
            if server.process.poll() is None:
                server.signal(signal.SIGCONT)
                server.kill()
            else:
                server.wait()


@contextmanager
def running_cluster(
    folder: Path, store: BenchStore, environments: Sequence[dict[str, str]]
) -> Iterator[Cluster]:
    """Run three servers over a store for a block."""
    with ExitStack() as stack:
        nowhere = stack.enter_context(socket.socket())
        nowhere.bind(("127.0.0.1", 0))  # nobody listens there, and nobody will
        origin, _, path = store.endpoint.partition("://")[2].partition("/")
        proxies = [stack.enter_context(store_proxy(f"http://{origin}")) for _ in range(SERVERS)]
        prefix = f"rounds-{os.urandom(4).hex()}"  # moto keeps what an earlier one of this process had
        blocks = [
            store._replace(endpoint=f"{proxy.url}/{path}".rstrip("/")).block(prefix, _PUTS_PER_SECOND)
            for proxy in proxies
        ]
        ports = [free_port() for _ in range(SERVERS)]
        links = stack.enter_context(route_links(ports))
        wiring = Wiring(proxies, blocks, links, ports, nowhere.getsockname()[1])
        cluster = Cluster(folder, wiring, environments)
        stack.callback(cluster.close)
        yield cluster
