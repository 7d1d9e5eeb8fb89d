"""Keys without effect: a line in the log of a server that starts, and nothing that a check fails for."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.cli import serve
from headrace.conf.binding import load_options
from headrace.server.server import Server

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TEXT = "prof_port: 6060\nno_sublist_cache: true\nserver_metadata { zone: a }"


def test_server_says_once_what_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    options = load_options(text=TEXT, environ={}, overrides={"host": "127.0.0.1", "port": -1})

    async def main() -> None:
        async with Server(options):
            pass

    asyncio.run(main())
    said = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert [line.partition(" has no effect: ")[0] for line in said] == [
        "<text>:1:1: prof_port",
        "<text>:2:1: no_sublist_cache",
    ]


def test_check_of_a_file_does_not_fail_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.conf"
    file.write_text(TEXT)
    assert serve.run(["-t", "-c", str(file)]) == 0
    assert "is valid" in capsys.readouterr().err
