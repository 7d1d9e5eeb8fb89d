"""The program `headrace` and its registry of commands."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import headrace
from headrace.cli import main as program
from headrace.cli.main import COMMANDS, Command, main


class FakeCommand(ModuleType):
    """A command that remembers how it was called."""

    def __init__(self) -> None:
        super().__init__("fake_command")
        self.calls: list[tuple[list[str], str]] = []

    def run(self, arguments: list[str], program: str) -> int:
        self.calls.append((arguments, program))
        return 5


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> FakeCommand:
    fake = FakeCommand()
    monkeypatch.setitem(sys.modules, "fake_command", fake)
    monkeypatch.setitem(COMMANDS, "serve", Command("fake_command", "Fakes"))
    return fake


def test_command_gets_its_arguments_and_gives_the_exit_code(command: FakeCommand) -> None:
    assert main(["/usr/bin/headrace", "serve", "-p", "1"]) == 5
    assert command.calls == [(["-p", "1"], "headrace")]


@pytest.mark.parametrize("arguments", [["-p", "1"], ["serve", "-p", "1"]])
def test_program_called_nats_server_serves(arguments: list[str], command: FakeCommand) -> None:
    assert main(["/opt/nats-server", *arguments]) == 5
    assert command.calls == [(["-p", "1"], "nats-server")]


def test_arguments_come_from_the_process_by_default(
    command: FakeCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("headrace.cli.main.end_starts", lambda: None)
    monkeypatch.setattr("os._exit", end)
    monkeypatch.setattr(sys, "argv", ["nats-server", "-D"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 5
    assert command.calls == [(["-D"], "nats-server")]


@pytest.mark.parametrize("flag", ["-v", "--version", "version"])
def test_version_is_shown(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headrace", flag]) == 0
    assert capsys.readouterr().out.startswith(f"headrace: v{headrace.__version__} ")


@pytest.mark.parametrize("flag", ["-h", "--help", "help"])
def test_help_names_the_commands(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headrace", flag]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)
    lines = text.splitlines()
    columns = {line.find(command.summary) for command in COMMANDS.values() for line in lines} - {-1}
    assert len(columns) == 1


def test_no_command_shows_help_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headrace"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: headrace <command>")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("serv", "headrace: unknown command 'serv'; did you mean 'serve'?"),
        ("xyzzy", "headrace: unknown command 'xyzzy'; there are: serve"),
        ("--port", "headrace: unknown flag '--port'; flags of the server follow its command: headrace serve"),
    ],
)
def test_unknown_command_gives_one_line(name: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headrace", name]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(line)
    assert captured.err.count("\n") == 1


def test_every_command_can_be_loaded() -> None:
    for name, entry in COMMANDS.items():
        assert entry.summary, name
        assert entry.module.startswith("headrace."), name


def test_loading_the_program_loads_no_command() -> None:
    # A slow import here is paid by every start; the server must be ready in a quarter of a second.
    heavy = ("headrace.cli.serve", "headrace.conf.binding", "asyncio", "argparse", "difflib", "ssl")
    code = f"import {program.__name__}, sys; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert shown.stdout == "[]\n"


def test_serving_without_a_configuration_loads_no_parser() -> None:
    heavy = ("headrace.conf.parser", "headrace.conf.toplevel", "hashlib", "difflib", "ssl", "argparse")
    code = (
        "import sys; from headrace.conf.binding import load_options; load_options(overrides={'port': -1});"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert shown.stdout == "[]\n"


@pytest.mark.parametrize(("loaded", "is_taken_apart"), [("obstore", False), ("none", True)])
def test_process_with_threads_of_obstore_is_not_taken_apart(loaded: str, is_taken_apart: bool) -> None:
    """Such a thread that comes back to Python then aborts it: the exit code would be another."""
    lines = [
        "import atexit, sys, types",
        f"sys.modules[{loaded!r}] = types.ModuleType({loaded!r})",
        "atexit.register(print, 'taken apart')",
        "sys.argv = ['headrace', 'jetstream', 'status', '--from', 'file:///nonexistent/bucket']",
        "from headrace.cli.main import main",
        "main()",
    ]
    program = "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "has no streams of Headrace in it" in done.stderr
    assert (done.stdout == "taken apart\n") is is_taken_apart
