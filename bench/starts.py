"""How long a server takes from its start to the first INFO, and what it holds in memory then.

Here live the programs that are started in turn, the client that waits for each, the stores they start over,
their result file and their table in docs/performance.md. Never here: commands of the client
(`bench.command_starts`), what takes the time (`-X importtime`).
"""

from __future__ import annotations

import compileall
import json
import os
import resource
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import headrace
from bench.command_starts import COMMANDS, command_lines, measured_command
from bench.errors import BenchError
from bench.process import STOP_LIMIT_S, default_peer
from bench.progress import Progress
from bench.render import PAGE
from bench.section import Section

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

PYTHON: Final = (sys.executable, "-c", "import asyncio, ssl")
"""The yardstick: no server of asyncio is up sooner than this ends."""

_HEADRACE: Final = str(Path(sys.executable).parent / "headrace")
_LIMIT_S: Final = 120.0
_AGAIN_S: Final = 0.002


class Start(NamedTuple):
    """A server as it is started; `stores`: over a directory, with the streams or without."""

    title: str
    command: tuple[str, ...]
    stores: str = ""


def starts(peer: str) -> tuple[Start, ...]:
    """The starts of both servers, alone and over stores."""
    return (
        Start("`headrace serve`", (_HEADRACE, "serve")),
        Start("`headrace streaming`", (_HEADRACE, "streaming")),
        Start("`headrace serve -js`", (_HEADRACE, "serve", "-js"), "empty"),
        Start("`headrace serve -js`, {streams} streams", (_HEADRACE, "serve", "-js"), "full"),
        Start("nats-server", (peer,)),
        Start("nats-server `-js`", (peer, "-js"), "empty"),
        Start("nats-server `-js`, {streams} streams", (peer, "-js"), "full"),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench start` takes."""
    parser.add_argument("--reps", type=int, default=11, help="starts of each, in turn")
    parser.add_argument("--streams", type=int, default=1000, help="of a store that is not empty")
    parser.add_argument("--directory", help="where the stores are made (default: the temporary directory)")
    parser.add_argument("--name", help="result file below bench/results/local; the page is left alone")


def run_starts(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result file, fill the page; the stores are removed. Raises: BenchError."""
    # As every installation has it; a checkout may not.
    compileall.compile_dir(Path(headrace.__file__).parent, quiet=2)
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=options.directory))
    progress = Progress(options.reps)
    peer = shlex.split(default_peer())[0]
    wanted = starts(peer)
    found: dict[str, list[dict[str, float]]] = {"python": [], **{start.title: [] for start in wanted}}
    try:
        for start in wanted:
            if start.stores == "full":
                _fill(start, home, options.streams)
        for _ in range(options.reps):
            found["python"].append(_python())
            for start in wanted:
                found[start.title].append(_measured(start, home))
            progress.step("started")
        commands = _commands(wanted[0], home, options.reps)
    finally:
        progress.close()
        shutil.rmtree(home)
    medians = {title: _medians(each) for title, each in found.items()}
    result = {**origin, "streams": options.streams, "starts": medians, "commands": commands}
    SECTION.publish(result, options.name)
    return 0


def _commands(server: Start, home: Path, reps: int) -> dict[str, dict[str, float]]:
    """Medians of commands of the client, each run in turn against one server. Raises: BenchError."""
    found: dict[str, list[dict[str, float]]] = {}
    with _running(Start(server.title, (*server.command, "-js"), "commands"), home) as (process, port):
        _connected(process, port).close()
        for _ in range(reps):
            for command in (None, *COMMANDS):
                title = "python" if command is None else command.title
                found.setdefault(title, []).append(measured_command(command, port, home))
    return {title: _medians(each) for title, each in found.items()}


# ---- one start ------------------------------------------------------------------------------


def _python() -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(PYTHON, check=True)
    taken = time.perf_counter() - began
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime
    return {"info_ms": taken * 1e3, "cpu_ms": cpu * 1e3}


def _measured(start: Start, home: Path) -> dict[str, float]:
    """ms from the start to the connection and to the first byte of INFO; CPU ms and MiB resident then."""
    if start.stores == "empty":
        shutil.rmtree(_directory(start, home), ignore_errors=True)
    began = time.perf_counter()
    with _running(start, home) as (process, port), _connected(process, port) as client:
        accepted = time.perf_counter()
        if not client.recv(1):
            raise BenchError(f"{start.title} closed its first connection")
        answered = time.perf_counter()
        resident, cpu = _resident_mib(process.pid), _cpu_ms(process.pid)
    return {
        "accept_ms": (accepted - began) * 1e3,
        "info_ms": (answered - began) * 1e3,
        "cpu_ms": cpu,
        "mib": resident,
    }


@contextmanager
def _running(start: Start, home: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    store = ("-sd", str(_directory(start, home))) if start.stores else ()
    process = subprocess.Popen(
        [*start.command, "-a", "127.0.0.1", "-p", str(port), *store],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process, port
    finally:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _connected(process: subprocess.Popen[bytes], port: int) -> socket.socket:
    """Wait until the server accepts. Raises: BenchError when it ends instead, or takes too long."""
    deadline = time.perf_counter() + _LIMIT_S
    while process.poll() is None and time.perf_counter() < deadline:
        with suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port))
        time.sleep(_AGAIN_S)
    raise BenchError(f"{process.args!r} did not start")


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _cpu_ms(pid: int) -> float:
    """What all threads have run so far."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def _medians(found: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(each[key] for each in found) for key in found[0]}


# ---- stores ---------------------------------------------------------------------------------


def _directory(start: Start, home: Path) -> Path:
    return home / f"{Path(start.command[0]).name}-{start.stores}"


def _fill(start: Start, home: Path, streams: int) -> None:
    """Makes a store of so many streams with a message each. Raises: BenchError."""
    with _running(start, home) as (process, port), _connected(process, port) as client:
        lines = client.makefile("rwb")
        lines.write(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\nSUB r 1\r\n')
        for number in range(streams):
            body = json.dumps({"name": f"S{number}", "subjects": [f"s{number}"]}).encode()
            lines.write(b"PUB $JS.API.STREAM.CREATE.S%d r %d\r\n%b\r\n" % (number, len(body), body))
            _expect(lines, b'"config"')
            lines.write(b"PUB s%d r 5\r\nhello\r\n" % number)
            _expect(lines, b'"seq":1')


def _expect(lines: Any, part: bytes) -> None:
    """The next message has this in it. Raises: BenchError."""
    lines.flush()
    while line := lines.readline():
        if line.startswith(b"MSG "):
            body = lines.read(int(line.split()[-1]) + 2)
            if part in body:
                return
            raise BenchError(f"the store could not be made: {body.decode()}")
    raise BenchError("the store could not be made: the server closed the connection")


# ---- words ----------------------------------------------------------------------------------


def start_text(result: dict[str, Any]) -> str:
    """Give the figures of a result file as Markdown."""
    machine, found = result["machine"], result["starts"]
    base, base_cpu = found["python"]["info_ms"], found["python"]["cpu_ms"]
    rows = [
        f"Measured on {result['created']} with `{result['command']}`: {machine['cpu']}, "
        f"{machine['cores']} cores, Python {result['python']}; medians, each started in turn. To the first "
        "INFO, as a multiple of `python -c 'import asyncio, ssl'` "
        f"({base:,.0f} ms, of CPU {base_cpu:,.0f}):",
        "",
        "| | accepts, ms | first INFO, ms | × | CPU, ms | × | memory, MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, each in found.items():
        if title != "python":
            name = title.format(streams=f"{result['streams']:,}")
            times = f"{each['accept_ms']:,.0f} | {each['info_ms']:,.0f} | {each['info_ms'] / base:.2f}"
            cpu = f"{each['cpu_ms']:,.0f} | {each['cpu_ms'] / base_cpu:.2f}"
            rows.append(f"| {name} | {times} | {cpu} | {each['mib']:.1f} |")
    if "commands" in result:
        rows += ["", *command_lines(result["commands"])]
    return "\n".join(rows) + "\n"


SECTION: Final = Section("start", PAGE, start_text)
