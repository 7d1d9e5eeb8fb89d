"""Documents as their readers use them: blocks are copied in order into an empty directory, and what comes out
is compared with what the document shows.

A block that begins with a comment `# name.py` or `-- name.sql` is saved as that file, one that begins with
`# name.py, continued` is put behind what the file has; other Python blocks are run. A console block has
commands behind `$ `, each with what it prints on standard output, or if that is nothing on standard error
(a server: in its log). In that, `…` is any text of a line, and a line of `…` alone is any lines. A line
`^C` ends the server. A block behind a line `<!-- not run: reason -->` is left out.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from packaging.requirements import Requirement

from harness.ports import free_port
from harness.processes import BIN, Program, ServerProcess
from harness.waiting import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

ROOT: Final = Path(__file__).parents[2]

_FENCE: Final = re.compile(
    r"(?P<left_out>^<!-- not run: [^\n]+ -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_NAME: Final = re.compile(r"(?:#|--) ([\w-]+\.\w+)(, continued)?\n")
_PORT: Final = "4222"
"""Where the servers of all documents listen."""
_MORE_PORTS: Final = ("1883", "8083")
"""The ports of documents for clients over MQTT, and over WebSocket."""
_NO_SERVER: Final = frozenset(("-t", "-v", "-h", "--help", "--signal"))
"""Flags with which the command of a server ends at once."""


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences; `line` is its first one in the document.

    `is_run` is False for what the document says that it is not run.
    """

    language: str
    text: str
    line: int
    is_run: bool = True

    @property
    def name(self) -> str | None:
        """The file that a reader saves the block as."""
        found = _NAME.match(self.text)
        return found.group(1) if found else None

    @property
    def is_continued(self) -> bool:
        """True if the block goes on with a file that there is."""
        found = _NAME.match(self.text)
        return found is not None and found.group(2) is not None


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block and what is shown behind it."""

    text: str
    output: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)


def blocks(document: str) -> Iterator[Block]:
    """The blocks of a document, in order."""
    for found in _FENCE.finditer(document):
        line = document.count("\n", 0, found.start("text")) + 1
        yield Block(found["language"], found["text"], line, is_run=found["left_out"] is None)


def commands(console: str) -> Iterator[Command]:
    """The commands of a console block. Raises: AssertionError where it begins with none."""
    before, *parts = re.split(r"^\$ |^(?=\^C$)", console, flags=re.MULTILINE)
    assert not before, f"no command before {before!r}"
    for part in parts:
        text, output = part.split("\n", 1)
        while text.endswith("\\"):
            more, output = output.split("\n", 1)
            text = f"{text[:-1]}{more}"
        yield Command(text, output)


def assert_shown(shown: str, happened: str) -> None:
    """Compare what a document shows with what happened. Raises: AssertionError with both."""
    lines = (
        r"(?:.*\n)*?" if line == "…" else "[^\n]*".join(map(re.escape, line.split("…"))) + "\n"
        for line in shown.splitlines()
    )
    is_same = re.fullmatch("".join(lines), happened.rstrip() + "\n" if happened.strip() else "")
    assert is_same, f"the document shows:\n{shown}\nwhat happened:\n{happened}"


class Reader:
    """Somebody who copies every block of a document, in an empty directory; its server ends with the `with`.

    Readers have one terminal for servers: the next one is started when the one before has been stopped.
    Commands that install or build are looked at and not run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "reader"
        self.folder.mkdir()
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self._port = str(free_port())
        self.server: ServerProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.server is not None:
            self.server.stop()

    def read(self, document: str) -> None:
        """Do what a document says. Raises: AssertionError with the line at which something else happens."""
        for block in blocks(self._at_free_port(document)):
            try:
                self._copy(block)
            except AssertionError as error:
                raise AssertionError(f"block at line {block.line}: {error}") from error

    def _at_free_port(self, document: str) -> str:
        """The only change of what is copied; `_serve` says `-p` for the default."""
        for port in _MORE_PORTS:
            document = document.replace(port, str(free_port()))
        return document.replace(_PORT, self._port)

    def _copy(self, block: Block) -> None:
        if not block.is_run:
            return
        if block.language == "console":
            for command in commands(block.text):
                self._enter(command)
        elif block.name is not None:
            self._save(self.folder / block.name, block)
        elif block.language == "python":
            self._run(["python", "-c", block.text], "")

    def _save(self, file: Path, block: Block) -> None:
        assert file.exists() == block.is_continued, f"{file.name} is there: {file.exists()}"
        with file.open("a", encoding="utf-8") as out:
            out.write(f"\n{block.text}" if block.is_continued else block.text)

    def _enter(self, command: Command) -> None:
        match command.words:
            case ["pip", "install", *requirements]:
                _check_requirements(requirements)
            case ["make", *targets]:
                _check_targets(targets)
            case ["headrace", "serve" | "streaming" as verb, *flags] if _is_server(verb, flags):
                self._serve(["headrace", verb], flags, command.output)
            case ["nats-server", *flags] if _is_server("serve", flags):
                self._serve(["nats-server"], flags, command.output)
            case ["^C"]:
                assert self.server is not None, "no server to end"
                self.server.stop()
            case _:
                self._run(["sh", "-c", command.text], command.output)

    def _serve(self, words: Sequence[str], flags: Sequence[str], shown: str) -> None:
        if self.server is not None:
            self.server.stop()
        listen = () if {"-p", "-c"} & set(flags) else ("-p", self._port)
        program = Program(" ".join(words), (str(BIN / words[0]), *words[1:]))
        # The directory for temporary files is where a store is that has no directory of its own.
        environment = {"TMPDIR": str(self._temporary)}
        server = ServerProcess(program, self.folder, *flags, listen=listen, environment=environment)
        self.server = server
        if "streaming" in words:
            server.wait_for_line("Streaming Server is ready")
        assert_shown(f"{shown}…\n", server.log)

    def _run(self, command: list[str], shown: str) -> None:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert done.returncode == 0, (
            f"{command[-1]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
        assert_shown(shown, done.stdout or (done.stderr if shown else ""))


def _environment() -> dict[str, str]:
    """That of a terminal of 80 columns in the virtual environment of the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "NATS_"))}
    return {**kept, "PATH": f"{BIN}{os.pathsep}{kept['PATH']}", "COLUMNS": "80"}


def _is_server(verb: str, flags: Sequence[str]) -> bool:
    begins_with_flag = not flags or flags[0].startswith("-")
    return (verb == "serve" or begins_with_flag) and not _NO_SERVER & set(flags)


def _check_requirements(requirements: Sequence[str]) -> None:
    """What `pip` is told to install is installed here, in the form in which it is asked for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert requirements, "nothing to install"
    for requirement in map(Requirement, requirements):
        version = importlib.metadata.version(requirement.name)
        assert version in requirement.specifier, f"{requirement} is not what the tests have: {version}"
        if requirement.name == project["name"]:
            unknown = requirement.extras - project["optional-dependencies"].keys()
            assert not unknown, f"headrace has no extras {unknown}"


def _check_targets(targets: Sequence[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{re.escape(target)}\b[^=\n]*:", makefile, re.MULTILINE), f"no target {target}"
