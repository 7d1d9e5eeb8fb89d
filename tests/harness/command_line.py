"""The command line in tests: in this process, as a process of its own, and on a terminal.

`CommandLine` runs `headrace` with an environment and contexts of its own. In this process is the quickest and
the usual way; a process is for signals, pipes that close and standard input that is waited for; a terminal is
for questions, widths and colours.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from unittest import mock

from harness.waiting import LONG, PATIENCE
from headrace.cli.main import COMMANDS, ClientWord, main
from headrace.cli.tree import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from headrace.cli.command_rows import CommandRow

PROGRAM: Final = str(Path(sys.executable).parent / "headrace")


def all_rows() -> list[CommandRow]:
    """The rows of all words of the client."""
    words = [command for command in COMMANDS.values() if isinstance(command, ClientWord)]
    return [row for word in words for row in rows_of(word.module)]


@dataclass(frozen=True)
class Ran:
    """A command that has ended: its exit code, and what it printed."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        """The one JSON document that it printed."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    @property
    def error(self) -> dict[str, Any]:
        """The error that it printed as JSON."""
        found: dict[str, Any] = json.loads(self.err.splitlines()[-1])["error"]
        return found

    def ok(self) -> Self:
        """This one, if it ended with 0."""
        assert self.code == 0, (self.code, self.err)
        return self


class _Stream(io.TextIOWrapper):
    """A stream of text over bytes that are kept; it may pass for a terminal."""

    def __init__(self, data: bytes = b"", *, is_terminal: bool = False) -> None:
        self.kept = io.BytesIO(data)
        self._is_terminal = is_terminal
        super().__init__(self.kept, encoding="utf-8", errors="backslashreplace", newline="")

    def isatty(self) -> bool:
        return self._is_terminal

    def value(self) -> bytes:
        self.flush()
        return self.kept.getvalue()


class CommandLine:
    """`headrace` in a folder with contexts and variables of its own; `url` is what NATS_URL says."""

    def __init__(self, folder: Path, url: str = "", program: str = "headrace") -> None:
        self.folder = folder
        self.url = url
        self.program = program
        self.variables: dict[str, str] = {}
        """More variables of the environment."""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
        for name in ("CI", "NO_COLOR", "COLUMNS", "LINES"):
            kept.pop(name, None)
        own = {"XDG_CONFIG_HOME": str(self.folder / "config"), "XDG_RUNTIME_DIR": str(self.folder)}
        if self.url:
            own["NATS_URL"] = self.url
        return {**kept, **own, **self.variables}

    def __call__(self, *arguments: str, stdin: bytes = b"", width: int | None = None) -> Ran:
        """Run a command in this process. It must end by itself.

        `width`: standard output passes for a terminal of so many cells.
        """
        out, err = _Stream(is_terminal=width is not None), _Stream()
        environment = self.environment if width is None else {**self.environment, "COLUMNS": str(width)}
        with ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
            stack.enter_context(mock.patch.object(sys, "stdin", _Stream(stdin)))
            stack.enter_context(mock.patch.object(sys, "stdout", out))
            stack.enter_context(mock.patch.object(sys, "stderr", err))
            code = main([self.program, *arguments])
        return Ran(code, out.value(), err.value().decode())

    def process(self, *arguments: str, stdin: bytes | None = b"", check_ends: float = LONG) -> Ran:
        """Run a command as a process of its own; `stdin` None: that of this one."""
        done = subprocess.run(
            [PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment,
            cwd=self.folder,
            timeout=check_ends,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr.decode())

    @contextmanager
    def started(self, *arguments: str, **options: Any) -> Iterator[Running]:
        """A command that goes on, as a process, for a block."""
        process = subprocess.Popen(
            [PROGRAM, *arguments],
            stdin=options.get("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            cwd=self.folder,
        )
        with Running(process) as running:
            yield running

    def terminal(
        self, *arguments: str, width: int = 80, before: tuple[str, ...] = (), **variables: str
    ) -> Terminal:
        """A command on a terminal of its own, `width` cells wide; a context manager.

        `before`: another command, such as a shell, that is run with this one as its arguments.
        """
        command = [*before, PROGRAM, *arguments]
        return Terminal(command, {**self.environment, **variables}, self.folder, width)


class Running:
    """A command that runs: its lines as they come, and its end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._rest = {"out": b"", "err": b""}

    def line(self, stream: str = "out", *, seconds: float = PATIENCE) -> str:
        """The next line of standard output, or of "err"."""
        return self._until(stream, b"\n", seconds)

    def wait_for(self, text: str, stream: str = "err", *, seconds: float = PATIENCE) -> str:
        """Read lines until one has a text in it."""
        while text not in (line := self.line(stream, seconds=seconds)):
            pass
        return line

    def _until(self, stream: str, end: bytes, seconds: float) -> str:
        file = self.process.stdout if stream == "out" else self.process.stderr
        assert file is not None
        deadline = time.monotonic() + seconds
        while end not in self._rest[stream]:
            ready, _, _ = select.select([file], [], [], max(deadline - time.monotonic(), 0))
            data = os.read(file.fileno(), 1 << 16) if ready else b""
            if not data:
                raise AssertionError(f"no further line, only {self._rest}")
            self._rest[stream] += data
        line, _, self._rest[stream] = self._rest[stream].partition(end)
        return line.decode("utf-8", "backslashreplace")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self, *, seconds: float = PATIENCE) -> Ran:
        """Wait for its end: the exit code, and what was not read of what it printed."""
        out, err = self.process.communicate(timeout=seconds)
        return Ran(self.process.returncode, self._rest["out"] + out, (self._rest["err"] + err).decode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.process.stderr):
            if file is not None:
                file.close()


class Terminal:
    """A command on a terminal: what it shows, and keys."""

    def __init__(self, command: list[str], environment: Mapping[str, str], folder: Path, width: int) -> None:
        self._main, side = pty.openpty()
        self.seen = ""
        """What was shown so far, with escape sequences and without the carriage returns of the terminal."""
        self.resize(width)
        self.process = subprocess.Popen(
            command,
            stdin=side,
            stdout=side,
            stderr=side,
            env={**environment, "TERM": "xterm"},
            cwd=folder,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - nothing of this process is used
        )
        os.close(side)

    def settings(self) -> list[Any]:
        """What the terminal does with what is typed: its flags."""
        return termios.tcgetattr(self._main)[:4]

    def resize(self, width: int, height: int = 24) -> None:
        fcntl.ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def wait_for(self, text: str, *, after: int = 0, seconds: float = PATIENCE) -> str:
        """All that was shown, once a text is in it, behind so many characters."""
        deadline = time.monotonic() + seconds
        while text not in self.seen[after:]:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} was not shown, only {self.seen!r}")
        return self.seen

    def end(self, *, seconds: float = PATIENCE) -> int:
        """The exit code; all that was shown is in `seen`."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self.process.wait(seconds)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._main], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return False
        try:
            data = os.read(self._main, 1 << 16)
        except OSError:  # the other side is closed
            return False
        self.seen += data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._main)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
