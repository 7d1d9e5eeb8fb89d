"""How long a server takes to end: from the signal to its client's end of file, and from there to its own.

Here live the programs that are ended in turn, the client that hears of it, their result file and their table
in docs/performance.md. Never here: what takes the time.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.errors import BenchError
from bench.process import STOP_LIMIT_S, default_peer
from bench.progress import Progress
from bench.render import PAGE
from bench.section import Section

if TYPE_CHECKING:
    import argparse

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_HEADRACE: Final = str(Path(sys.executable).parent / "headrace")
_LIMIT_S: Final = 30.0
_AGAIN_S: Final = 0.002


class Stop(NamedTuple):
    """A server as it is started; `store`: the option that takes a directory for it."""

    title: str
    command: tuple[str, ...]
    store: str = ""


def stops(peer: str) -> tuple[Stop, ...]:
    """The stops of both servers, with stores and without."""
    return (
        Stop("`headrace serve`", (_HEADRACE, "serve")),
        Stop("`headrace serve -js`", (_HEADRACE, "serve", "-js"), "-sd"),
        Stop("`headrace streaming`", (_HEADRACE, "streaming", "-st", "FILE"), "-dir"),
        Stop("nats-server", (peer,)),
        Stop("nats-server `-js`", (peer, "-js"), "-sd"),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench stop` takes."""
    parser.add_argument("--reps", type=int, default=11, help="ends of each by each signal, in turn")
    parser.add_argument("--name", help="result file below bench/results/local; the page is left alone")


def run_stops(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result file, fill the page. Raises: BenchError."""
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    progress = Progress(options.reps)
    wanted = stops(shlex.split(default_peer())[0])
    found: dict[str, dict[str, list[float]]] = {each.title: {} for each in wanted}
    try:
        for _ in range(options.reps):
            for number in SIGNALS:
                for each in wanted:
                    for key, ms in _measured(each, home, number).items():
                        found[each.title].setdefault(f"{number.name} {key}", []).append(ms)
            progress.step("ended")
    finally:
        progress.close()
        shutil.rmtree(home)
    medians = {
        title: {key: statistics.median(times) for key, times in each.items()} for title, each in found.items()
    }
    SECTION.publish({**origin, "stops": medians}, options.name)
    return 0


# ---- one end --------------------------------------------------------------------------------


def _measured(stop: Stop, home: Path, number: signal.Signals) -> dict[str, float]:
    """ms from the signal to the client's end of file, and from there until the process can be waited for."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    store = (stop.store, str(home / Path(stop.command[0]).name)) if stop.store else ()
    process = subprocess.Popen(
        [*stop.command, "-a", "127.0.0.1", "-p", str(port), *store],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with closing(_served(process, port)) as client:
            return _ended(process, client, number)
    finally:
        process.kill()
        process.wait()


def _ended(process: subprocess.Popen[bytes], client: socket.socket, number: int) -> dict[str, float]:
    watched = os.pidfd_open(process.pid)
    try:
        began = time.perf_counter()
        process.send_signal(number)
        while client.recv(4096):
            pass
        heard = time.perf_counter()
        waiting = select.poll()  # a descriptor may be too high for select
        waiting.register(watched, select.POLLIN)
        if not waiting.poll(STOP_LIMIT_S * 1000):
            raise BenchError(f"{process.args!r} did not end")
        gone = time.perf_counter()
    finally:
        os.close(watched)
    return {"eof_ms": (heard - began) * 1e3, "gone_ms": (gone - heard) * 1e3}


def _served(process: subprocess.Popen[bytes], port: int) -> socket.socket:
    """A client whose PING has been answered. Raises: BenchError when the server ends instead."""
    deadline = time.perf_counter() + _LIMIT_S
    while process.poll() is None and time.perf_counter() < deadline:
        with suppress(ConnectionRefusedError):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
            received = b""
            while b"PONG\r\n" not in received:
                part = client.recv(4096)
                if not part:
                    raise BenchError(f"{process.args!r} closed its first connection")
                received += part
            return client
        time.sleep(_AGAIN_S)
    raise BenchError(f"{process.args!r} did not start")


# ---- words ----------------------------------------------------------------------------------


def stop_text(result: dict[str, Any]) -> str:
    """Give the figures of a result file as Markdown."""
    machine = result["machine"]
    rows = [
        f"Measured on {result['created']} with `{result['command']}`: {machine['cpu']}, "
        f"{machine['cores']} cores, Python {result['python']}; medians, each ended in turn, in ms: from the "
        "signal to the end of file of a client, and from there until the process is gone.",
        "",
        "| | INT, end of file | INT, gone | TERM, end of file | TERM, gone |",
        "|---|---|---|---|---|",
    ]
    for title, each in result["stops"].items():
        times = [each[f"{number.name} {key}"] for number in SIGNALS for key in ("eof_ms", "gone_ms")]
        rows.append(f"| {title} | {' | '.join(f'{ms:.1f}' for ms in times)} |")
    return "\n".join(rows) + "\n"


SECTION: Final = Section("stop", PAGE, stop_text)
