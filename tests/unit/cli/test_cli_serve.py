"""`headrace serve` up to the point where a server would start."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import headrace
from headrace.cli.serve import run
from headrace.errors import StartError
from headrace.protocol.info import COMPATIBLE_VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.conf.options import Options


class FakeApp(ModuleType):
    """Stands for `headrace.app`: remembers the options instead of serving."""

    def __init__(self) -> None:
        super().__init__("headrace.app")
        self.options: Options | None = None
        self.failure: StartError | None = None

    def run(self, options: Options) -> int:
        self.options = options
        if self.failure is not None:
            raise self.failure
        return 7


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> FakeApp:
    fake = FakeApp()
    monkeypatch.setitem(sys.modules, "headrace.app", fake)
    monkeypatch.setattr(headrace, "app", fake, raising=False)
    return fake


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "x.conf"


def test_serve_runs_the_server_and_gives_its_exit_code(app: FakeApp) -> None:
    assert run(["-p", "-1", "-a", "127.0.0.1", "-DV"]) == 7
    assert app.options is not None
    assert (app.options.port, app.options.host) == (-1, "127.0.0.1")
    assert app.options.debug
    assert app.options.trace


def test_serve_lets_flags_override_the_file(app: FakeApp, conf: Path) -> None:
    conf.write_text("port: 1\nhost: h\nauthorization {token: t}")
    assert run(["-c", "x.conf", "--port=2", "--user", "u", "--pass", "-p"]) == 7
    assert app.options is not None
    assert (app.options.port, app.options.host, app.options.config_file) == (2, "h", "x.conf")
    assert [(user.user, user.password) for user in app.options.authorization.users] == [("u", "-p")]


def test_serve_that_cannot_start_says_so(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.failure = StartError("port 4222 is in use")
    assert run([]) == 1
    assert capsys.readouterr().err == "headrace: port 4222 is in use\n"


@pytest.mark.parametrize("flag", ["-v", "--version", "version"])
def test_version_is_shown(flag: str, app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([flag]) == 0
    version = f"headrace: v{headrace.__version__} (speaks nats-server {COMPATIBLE_VERSION})\n"
    assert capsys.readouterr().out == version
    assert run([flag], "nats-server") == 0
    assert capsys.readouterr().out == f"nats-server: v{COMPATIBLE_VERSION}\n"
    assert app.options is None


def test_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-h"]) == 0
    assert capsys.readouterr().out.startswith("Usage: headrace serve [options]\n")
    assert run(["--help"], "nats-server") == 0
    assert capsys.readouterr().out.startswith("Usage: nats-server [options]\n")
    assert run(["--help_tls"]) == 0
    assert "cert_file" in capsys.readouterr().out


def test_check_of_valid_file_says_so(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf.write_text("port: 4222\n")
    assert run(["-t", "-c", "x.conf"]) == 0
    digest = "sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e"
    assert capsys.readouterr().err == f"headrace: configuration file x.conf is valid ({digest})\n"


def test_check_of_file_with_warnings_fails(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf.write_text("ping_interval: 2\n")
    assert run(["-t", "-c", "x.conf"], "nats-server") == 1
    assert capsys.readouterr().err.startswith('nats-server: x.conf:1:1: invalid use of field "ping_interval"')


def test_check_without_a_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-t"]) == 1
    message = "headrace: must specify [-c, --config] option to check configuration file syntax\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("flags", [["-t"], []])
def test_broken_file_gives_one_line_for_each_problem(
    flags: list[str], app: FakeApp, conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf.write_text("prot: 1\ndebug: 5\n")
    assert run([*flags, "-c", "x.conf"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        'headrace: x.conf:1:1: unknown field "prot" (did you mean "port"?)',
        'headrace: x.conf:2:8: field "debug" must be true or false, not an integer',
    ]
    assert app.options is None


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("-c none.conf", "open none.conf: no such file or directory"),
        ("-foo", "flag provided but not defined: -foo"),
        ("-p", "flag needs an argument: -p"),
        ("-p 70000", "port must lie between -1 and 65535"),
        ("start", 'unrecognized command: "start"'),
        ("--profile 1", "--profile is not supported by this version yet"),
        ("--routes nats://h:1", "solicited routes require cluster capabilities, e.g. --cluster"),
        ("--tls", "TLS server certificate must be present and valid"),
        ("--tlscert x", "TLS server private key must be present and valid"),
        ("--tlscert x --tlskey y", "open x: no such file or directory"),
        ("--user u --auth t", "a user and password cannot stand together with a token"),
        ("-sl ldm", "a process id or pid file is missing: --signal ldm=<pid>"),
    ],
)
def test_wrong_use_gives_one_line_and_exit_code_1(
    arguments: str, line: str, app: FakeApp, conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments.split()) == 1
    captured = capsys.readouterr()
    assert captured.err == f"headrace: {line}\n"
    assert captured.out == ""
    assert app.options is None


def test_signal_is_sent_instead_of_serving(
    app: FakeApp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[str] = []
    monkeypatch.setattr("headrace.cli.signals.send_signal", sent.append)
    assert run(["--signal", "ldm=123"]) == 0
    assert sent == ["ldm=123"]
    assert app.options is None
