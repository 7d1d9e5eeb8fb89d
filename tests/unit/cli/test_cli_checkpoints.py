"""`headrace checkpoints`: it says where it is, answers there, and ends when it is told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

pytest.importorskip("obstore")

from headrace.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "a-secret-of-mine"


@pytest.mark.parametrize("order", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(tmp_path: Path, order: signal.Signals) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    words = ["checkpoints", f"file://{tmp_path}/store", "--port", "0", "--secret-file", str(secret)]
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        location = process.stdout.readline().strip()
        assert location.startswith("webhdfs://127.0.0.1:"), process.stderr.read()
        assert location.endswith(f"/{SECRET}")
        address = location.removeprefix("webhdfs://").removesuffix(f"/{SECRET}")
        with urlopen(f"http://{address}/webhdfs/v1/{SECRET}/?op=LISTSTATUS", timeout=10) as answer:
            assert json.load(answer) == {"FileStatuses": {"FileStatus": []}}
        process.send_signal(order)
        assert process.wait(10) == 0
        assert process.stderr.read() == ""


def test_what_cannot_start_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = tmp_path / "secret"
    short.write_text("short")
    cases = [
        (["nonsense"], "not an object store: nonsense"),
        (["memory:///", "--secret-file", str(short)], "8 to 128 letters"),
        (["memory:///", "--secret-file", str(tmp_path / "none")], "No such file"),
    ]
    for words, text in cases:
        assert main(["headrace", "checkpoints", *words]) == 1
        assert text in capsys.readouterr().err


def test_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["headrace", "checkpoints", "memory:///", "--port", "99999"])
    assert caught.value.code == 2
    assert "not a port" in capsys.readouterr().err
