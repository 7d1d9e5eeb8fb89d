"""A server whose console is looked at, and what benches of the console put into it.

Never here: what is measured (`bench.console`, `bench.console_hour`), or what a page does in the browser
(`bench.console_pages`).
"""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.errors import BenchError
from bench.process import Command, RunningServer, free_port, running
from headrace.client.blocking import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.blocking import Connection

_CONFIG: Final = """
server_name: bench
max_connections: 20000
jetstream {{ store_dir: "{dir}/store" }}
websocket {{ listen: "127.0.0.1:SOCKET", no_tls: true, console: true }}
accounts {{
    APP {{ jetstream: enabled, users: [ {{ user: app, password: app }} ] }}
    SYS {{ users: [ {{ user: sys, password: sys }} ] }}
}}
system_account: SYS
"""
"""`{dir}` is filled by `bench.process`, SOCKET here."""
_IDLE: Final = b'CONNECT {"user":"app","pass":"app","verbose":false,"name":"idle","lang":"bench"}\r\nPING\r\n'
_HEADRACE: Final = (sys.executable, "-m", "headrace")
_LOAD_S: Final = 120.0
"""A load that is waited for and takes longer has failed."""


class Looked(NamedTuple):
    """A running server whose console is looked at."""

    server: RunningServer
    url: str

    @property
    def client(self) -> str:
        return f"nats://app:app@127.0.0.1:{self.server.port}"

    def load(self, *words: str) -> dict[str, Any]:
        """Run `headrace bench` to its end; gives what it says. Raises: BenchError where it failed."""
        command = self._command(*words)
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=_LOAD_S, check=False)
        if done.returncode:
            raise BenchError(f"{' '.join(command)}: {done.stderr[-500:]}")
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    @contextmanager
    def loaded(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run `headrace bench` beside what is done meanwhile, and end it then."""
        with subprocess.Popen(
            self._command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8"
        ) as load:
            try:
                yield load
            finally:
                load.terminate()

    def _command(self, *words: str) -> list[str]:
        return [*_HEADRACE, "bench", *words, "--server", self.client, "--json", "--no-progress"]

    @contextmanager
    def idle_connections(self, many: int) -> Iterator[None]:
        """Hold so many connections of clients that do nothing."""
        with ExitStack() as idle:
            for _ in range(many):
                client = idle.enter_context(socket.create_connection(("127.0.0.1", self.server.port)))
                client.sendall(_IDLE)
            yield

    def make_streams(self, many: int) -> None:
        """Make so many streams. Raises: BenchError for one that is refused."""
        with connect(self.client) as client:
            for number in range(many):
                _make_stream(client, number)


@contextmanager
def looked_at() -> Iterator[Looked]:
    """Run a server that serves its console."""
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    port = free_port()
    template = f"{shlex.join(_HEADRACE)} serve -a 127.0.0.1 -p {{port}} -m {{http}} -c {{config}}"
    try:
        with running(
            Command(template, config=_CONFIG.replace("SOCKET", str(port))), directory=home
        ) as server:
            yield Looked(server, f"http://127.0.0.1:{port}/console/")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _make_stream(client: Connection, number: int) -> None:
    config = {"name": f"S{number:05}", "subjects": [f"s.{number}"], "storage": "memory"}
    said = json.loads(
        client.request(f"$JS.API.STREAM.CREATE.{config['name']}", json.dumps(config).encode()).data
    )
    if "error" in said:
        raise BenchError(f"{config['name']}: {said['error']}")
