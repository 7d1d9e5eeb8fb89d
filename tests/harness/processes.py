"""Servers as processes: Headrace with either transport, and the Go server of the PyPI package.

A process is ready when its log says so; its ports are the system's choice and are read from the log.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from harness.forking import FORKS
from harness.waiting import PATIENCE
from harness.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from harness.forking import Forked

BIN = Path(sys.executable).parent
_LISTENING = re.compile(r"\[INF\] Listening for client connections on (\S+):(\d+)$")
_MONITOR = re.compile(r"\[INF\] Starting https? monitor on (\S+):(\d+)$")
_READY = re.compile(r"\[INF\] Server is ready$")


@dataclass(frozen=True)
class Program:
    """A way to start a server; `str()` of it names the test case."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_headrace(self) -> bool:
        return self.name.startswith("headrace")

    @property
    def transport(self) -> str:
        return self.environment.get("HEADRACE_TRANSPORT", "")

    def __str__(self) -> str:
        return self.name


def limited(program: Program, limits: str) -> Program:
    """The same program under shell limits, such as `-Sn 256`."""
    shell = ("sh", "-c", f'ulimit {limits}; exec "$0" "$@"')
    return Program(f"{program.name} under {limits}", (*shell, *program.command), program.environment)


_SERVE = (str(BIN / "headrace"), "serve")
EPOLL = Program("headrace-epoll", _SERVE, {"HEADRACE_TRANSPORT": "epoll"})
ASYNCIO = Program("headrace-asyncio", _SERVE, {"HEADRACE_TRANSPORT": "asyncio"})
STREAMING = Program("headrace-streaming", (str(BIN / "headrace"), "streaming"))
NATS_SERVER = Program("nats-server", (str(BIN / "nats-server"),))

HEADRACES = (EPOLL, ASYNCIO) if sys.platform == "linux" else (ASYNCIO,)
ALL = (*HEADRACES, NATS_SERVER)
SIDES = {"headrace": HEADRACES[0], "nats-server": NATS_SERVER}
"""One of each, by the names that tests are parametrized with."""


def _started(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.Popen[str] | Forked:
    if FORKS.starts(command):
        return FORKS.start(command, folder, environment)
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        cwd=folder,
        env=environment,
    )


class ServerProcess:
    """One running server; a context manager that ends it.

    `config` is text for a file that is passed with -c. Every line of stderr is kept in `lines`;
    `ready_after` is seconds.
    """

    def __init__(
        self,
        program: Program,
        folder: Path,
        *arguments: str,
        config: str | None = None,
        listen: tuple[str, ...] = ("-a", "127.0.0.1", "-p", "-1"),
        environment: Mapping[str, str] | None = None,
        ready: bool = True,
    ) -> None:
        self.program = program
        self.lines: list[str] = []
        self.ready_after = 0.0
        self._news = threading.Condition()
        command = [*program.command, *listen, *arguments]
        self.config_file = folder / "server.conf"
        if config is not None:
            self.config_file.write_text(config)
            command += ["-c", str(self.config_file)]
        began = time.perf_counter()
        self.process = _started(command, folder, {**os.environ, **program.environment, **(environment or {})})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if ready:
            try:
                self.wait_until_ready()
                self.ready_after = time.perf_counter() - began
            except BaseException:
                self.kill()
                raise

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as log:
            for line in log:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    # -- the log

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def wait_for_line(
        self, pattern: str | re.Pattern[str], *, after: int = 0, seconds: float = PATIENCE
    ) -> re.Match[str]:
        """The first match among the lines from number `after` on.

        Raises: AssertionError with the log when the process ends, or the time is over, without one.
        """
        compiled = re.compile(pattern)
        deadline = time.monotonic() + seconds
        seen = after
        with self._news:
            while True:
                for line in self.lines[seen:]:
                    match = compiled.search(line)
                    if match:
                        return match
                seen = max(seen, len(self.lines))
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    log = "\n".join(self.lines)
                    raise AssertionError(f"no line matches {compiled.pattern!r}:\n{log}")
                self._news.wait(min(left, 0.5))

    def wait_until_ready(self, seconds: float = PATIENCE) -> None:
        """Wait until the server is ready. Raises: AssertionError with the log when it does not become so."""
        self.wait_for_line(_READY, seconds=seconds)

    # -- where it is

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.wait_for_line(_LISTENING).group(2))

    @property
    def monitor_url(self) -> str:
        return f"http://127.0.0.1:{self.wait_for_line(_MONITOR).group(2)}"

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def connect(self, connect: bytes | None = None, **options: object) -> Wire:
        """A raw connection, past INFO; past CONNECT too when its JSON (or b"") is given."""
        wire = Wire(("127.0.0.1", self.port), **options)  # type: ignore[arg-type]
        if connect is not None:
            wire.connect(connect)
        return wire

    def descriptors(self) -> int:
        """Open descriptors of the process (Linux)."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    # -- its end

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit code, and the whole log has been read."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def stop(self) -> int:
        """Ask it to end, as an operator would; gives the exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end on SIGTERM:\n{self.log}") from None

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()
        else:
            self.wait()
