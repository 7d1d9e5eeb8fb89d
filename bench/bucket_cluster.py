"""Servers that share a bucket, or the streams of nats-server with replicas: started, killed, asked.

Here live the processes, their configurations, and what their monitoring says. Never here: loads, results.
"""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import URLError
from urllib.request import urlopen

from bench.errors import BenchError
from bench.process import STOP_LIMIT_S, cpu_ns, default_peer, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.bucket_store import BenchStore

SERVERS: Final = 3
NO_BUDGET: Final = 10_000
"""Puts a second that no load here asks for."""
START_LIMIT_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.1
_PUTS: Final = ("create", "put")
_CONFIG: Final = """
server_name: n{number}
port: {port}
http: "127.0.0.1:{http}"
jetstream {{ store_dir: "{directory}", {bucket} }}
"""
_CLUSTER: Final = """cluster {{ name: bench, listen: "127.0.0.1:{route}", routes: [{routes}] }}
"""


class Node:
    """One server; it runs. `words`: its command line."""

    def __init__(self, words: list[str], port: int, http: int, directory: Path) -> None:
        self.port: Final = port
        self.directory: Final = directory
        self._words: Final = words
        self._http: Final = http
        self.process = self._begun()

    def _begun(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._words, stderr=subprocess.DEVNULL)

    def start(self) -> None:
        """Run it again, after `kill` or `stop`."""
        self.process = self._begun()

    def kill(self) -> None:
        """End it at once, as a lost machine would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it in order; one that does not end is killed."""
        self.process.terminate()
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def forget(self) -> None:
        """Remove its local files; it does not run."""
        shutil.rmtree(self.directory)

    def jsz(self) -> dict[str, Any]:
        """Return what the server tells of JetStream; nothing while it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self._http}/jsz", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (URLError, ConnectionError, TimeoutError):
            return {}

    def bucket(self) -> dict[str, Any]:
        """Return what the server tells of its bucket; nothing while it does not answer, or without one."""
        found: dict[str, Any] = self.jsz().get("bucket", {})
        return found

    def is_healthy(self) -> bool:
        """True if the server says that its JetStream works."""
        try:
            with urlopen(f"http://127.0.0.1:{self._http}/healthz", timeout=5):
                return True
        except (URLError, ConnectionError, TimeoutError):
            return False

    def requests(self) -> Counter[str]:
        """Requests to the bucket since the start, by kind."""
        found: Counter[str] = Counter()
        for each in self.bucket().get("requests", ()):
            found[each["kind"]] += each["count"]
        return found

    def downloaded(self) -> int:
        """Bytes of objects that came from the bucket since the start."""
        return sum(each["received_bytes"] for each in self.bucket().get("requests", ()))

    def await_port(self) -> None:
        """Wait until it accepts connections. Raises: BenchError."""

        def is_open() -> bool:
            with socket.socket() as probe:
                return not probe.connect_ex(("127.0.0.1", self.port))

        await_true(is_open, "the server does not accept connections", again_s=0.005)

    def puts(self) -> int:
        """Objects that the server has put; 0 without a bucket."""
        found = self.requests()
        return sum(found[kind] for kind in _PUTS)


class Cluster:
    """Servers that know each other, or one alone. `prefix`: theirs in the bucket."""

    def __init__(self, nodes: list[Node], prefix: str) -> None:
        self.nodes: Final = nodes
        self.prefix: Final = prefix

    def leader(self) -> int:
        """Wait until all work; return which one leads. Raises: BenchError."""
        found: list[int] = []

        def is_led() -> bool:
            leader = self._leader()
            if leader is None or not all(node.is_healthy() for node in self.nodes):
                return False
            found.append(leader)
            return True

        await_true(is_led, "the cluster has no leader")
        return found[0]

    def _leader(self) -> int | None:
        for number, node in enumerate(self.nodes):
            found = node.jsz()
            bucket, meta = found.get("bucket"), found.get("meta_cluster")
            if isinstance(bucket, dict):
                if bucket["role"] == "owner":
                    return number
            elif isinstance(meta, dict) and meta.get("leader") == f"n{number}":
                return number
        return None

    def await_rest(self) -> None:
        """Wait until all is in the bucket, and read by who stands by. Raises: BenchError."""
        leader = self.nodes[self.leader()]

        def is_at_rest() -> bool:
            states = [node.bucket() for node in self.nodes]
            heard = leader.bucket().get("standbys", ())
            return (
                all(state and not state["behind"] and not state["lag_bytes"] for state in states)
                and len(heard) >= len(self.nodes) - 1
                and not any(each["behind"] for each in heard)
            )

        await_true(is_at_rest, "the servers that stand by do not catch up")

    def cpu_ns(self) -> int:
        """CPU time of all servers so far."""
        return sum(cpu_ns(node.process.pid) for node in self.nodes)


def await_true(is_true: Callable[[], bool], problem: str, again_s: float = _LOOK_AGAIN_S) -> None:
    """Wait until something holds. Raises: BenchError with the problem when that takes too long."""
    end = time.monotonic() + START_LIMIT_S
    while not is_true():
        if time.monotonic() > end:
            raise BenchError(problem)
        time.sleep(again_s)


@contextmanager
def running(store: BenchStore | None, budget: int = NO_BUDGET, servers: int = SERVERS) -> Iterator[Cluster]:
    """Run servers for a block: ours over a bucket of this store, else nats-server. `budget`: puts a second.

    One server has no cluster. Raises: BenchError.
    """
    program = shlex.split(default_peer())[:1]
    if store is not None:
        program = [sys.executable, "-m", "headrace", "serve"]
    ports = [(free_port(), free_port(), free_port()) for _ in range(servers)]
    routes = ", ".join(f'"nats://127.0.0.1:{route}"' for _, _, route in ports)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        nodes: list[Node] = []
        try:
            for number, (port, http, route) in enumerate(ports):
                path, directory = Path(home) / f"n{number}.conf", Path(home) / f"n{number}"
                bucket = store.block(Path(home).name, budget) if store is not None else ""
                text = _CONFIG.format(number=number, port=port, http=http, directory=directory, bucket=bucket)
                if servers > 1:
                    text += _CLUSTER.format(route=route, routes=routes)
                path.write_text(text, encoding="utf-8")
                nodes.append(Node([*program, "-c", str(path)], port, http, directory))
            yield Cluster(nodes, Path(home).name)
        finally:
            for node in nodes:
                node.process.terminate()
            for node in nodes:
                node.stop()
