"""How long commands of the client take from their start to their end, beside a Python that imports little.

Here live the commands that are run in turn against one server, and their table. Never here: servers' own
starts (`bench.starts`), or what takes the time (`-X importtime`).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Mapping

YARDSTICK: Final = (sys.executable, "-c", "import argparse, json, socket")
"""What no command that parses arguments and asks a server can do without."""

BAR: Final = 2.0
"""The multiple of the yardstick within which `headrace rtt` is to end."""

_HEADRACE: Final = str(Path(sys.executable).parent / "headrace")


class CommandStart(NamedTuple):
    """A command as it is run; `bar`: the multiple of the yardstick that it may take, None for none."""

    title: str
    arguments: tuple[str, ...]
    bar: float | None = None


COMMANDS: Final = (
    CommandStart("`headrace rtt 1`", ("rtt", "1"), BAR),
    CommandStart("`headrace pub s x`", ("pub", "s", "x", "-q")),
    CommandStart("`headrace stream ls`", ("stream", "ls")),
    CommandStart("`headrace context ls`", ("context", "ls")),
)


def measured_command(command: CommandStart | None, port: int, home: Path) -> dict[str, float]:
    """Return ms from start to end, and of CPU; None: of the yardstick. Raises: BenchError if it fails."""
    words = YARDSTICK if command is None else (_HEADRACE, *command.arguments)
    before = _spent_s()
    began = time.perf_counter()
    ran = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, env=_environment(port, home), check=False
    )
    taken = time.perf_counter() - began
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").strip()
        raise BenchError(f"{' '.join(words[1:])} ended with {ran.returncode}: {said}")
    return {"ms": taken * 1e3, "cpu_ms": (_spent_s() - before) * 1e3}


def _environment(port: int, home: Path) -> dict[str, str]:
    """The server, and no contexts or credentials of whoever measures."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
    return {**kept, "NATS_URL": f"nats://127.0.0.1:{port}", "XDG_CONFIG_HOME": str(home / "config")}


def _spent_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def command_lines(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the table of commands as Markdown: medians by title, "python" the yardstick."""
    base, base_cpu = found["python"]["ms"], found["python"]["cpu_ms"]
    bars = {command.title: command.bar for command in COMMANDS}
    lines = [
        f"Commands of the client, from start to end, as a multiple of `python -c '{YARDSTICK[-1]}'` "
        f"({base:,.0f} ms, of CPU {base_cpu:,.0f}):",
        "",
        "| | ms | × | CPU, ms | × | may take |",
        "|---|---|---|---|---|---|",
    ]
    for title, each in found.items():
        if title != "python":
            bar = bars.get(title)
            times = f"{each['ms']:,.0f} | {each['ms'] / base:.2f}"
            cpu = f"{each['cpu_ms']:,.0f} | {each['cpu_ms'] / base_cpu:.2f}"
            lines.append(f"| {title} | {times} | {cpu} | {'' if bar is None else f'{bar:g} ×'} |")
    return lines
