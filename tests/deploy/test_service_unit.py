"""The unit for systemd: systemd's own check, and commands that the program takes."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from headrace.cli import reload
from headrace.cli.flags import read_invocation
from headrace.conf.options import Options

UNIT: Final = Path(__file__).parents[2] / "deploy" / "systemd" / "headrace.service"


def setting(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    return str(value)


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    installed = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    program, *_ = shlex.split(setting("ExecStart"))
    assert program == "/opt/headrace/bin/headrace"
    installed.write_text(text.replace(program, sys.executable))  # it looks whether that is there

    done = subprocess.run([analyze, "verify", installed], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_commands_are_those_of_the_program() -> None:
    _, command, *arguments = shlex.split(setting("ExecStart"))
    _, reloading, process = shlex.split(setting("ExecReload"))

    assert command == "serve"
    assert read_invocation(arguments).config_file == "/etc/headrace/headrace.conf"
    assert reloading == "reload"
    assert reload.parser("headrace").parse_args(["1"]).process == "1"
    assert process == "$MAINPID"


def test_a_stop_waits_until_clients_have_moved() -> None:
    assert signal.Signals[setting("KillSignal")] is signal.SIGUSR2
    assert int(setting("TimeoutStopSec")) > Options().lame_duck_duration
