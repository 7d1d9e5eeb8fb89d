"""How long a check of a long configuration takes: `serve -t -c FILE`, beside nats-server.

Here live the configuration that is checked, the commands that are run in turn, their result file and their
table in docs/performance.md. Never here: starts (`bench.starts`).
"""

from __future__ import annotations

import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.errors import BenchError
from bench.process import default_peer
from bench.progress import Progress
from bench.render import PAGE
from bench.section import Section

if TYPE_CHECKING:
    import argparse

_HEADRACE: Final = str(Path(sys.executable).parent / "headrace")


def commands(peer: str) -> dict[str, tuple[str, ...]]:
    """Who checks, by title."""
    return {"`headrace serve -t`": (_HEADRACE, "serve"), "nats-server `-t`": (peer,)}


def configuration(users: int) -> str:
    """Users with passwords and permissions, each on lines of its own."""
    listed = "".join(
        f"    {{\n      user: user{number}, password: pass{number}\n"
        f'      permissions {{ publish: ["app.{number}.>", "req.*"], subscribe: "in.{number}.>" }}\n    }}\n'
        for number in range(users)
    )
    return f"listen: 127.0.0.1:4222\nauthorization {{\n  users: [\n{listed}  ]\n}}\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench config` takes."""
    parser.add_argument("--reps", type=int, default=5, help="checks by each, in turn")
    parser.add_argument("--users", type=int, default=100_000, help="of the configuration")
    parser.add_argument("--name", help="result file below bench/results/local; the page is left alone")


def run_configs(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result file, fill the page. Raises: BenchError."""
    wanted = commands(shlex.split(default_peer())[0])
    found: dict[str, list[dict[str, float]]] = {title: [] for title in wanted}
    progress = Progress(options.reps)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        path = Path(home) / "users.conf"
        path.write_text(configuration(options.users), encoding="utf-8")
        megabytes = path.stat().st_size / 1e6
        try:
            for _ in range(options.reps):
                for title, command in wanted.items():
                    found[title].append(_measured((*command, "-t", "-c", str(path))))
                progress.step("checked")
        finally:
            progress.close()
    medians = {
        title: {key: statistics.median(each[key] for each in measured) for key in measured[0]}
        for title, measured in found.items()
    }
    SECTION.publish({**origin, "users": options.users, "mb": megabytes, "checks": medians}, options.name)
    return 0


def _measured(command: tuple[str, ...]) -> dict[str, float]:
    """Seconds until it has ended, and of CPU, user's and system's. Raises: BenchError when it is refused."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    said = process.stdout.read().decode(errors="replace")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        raise BenchError(f"{shlex.join(command)}: {said.strip()}")
    return {"seconds": time.perf_counter() - began, "cpu": used.ru_utime + used.ru_stime}


def config_text(result: dict[str, Any]) -> str:
    """Give the figures of a result file as Markdown."""
    machine = result["machine"]
    rows = [
        f"Measured on {result['created']} with `{result['command']}`: {machine['cpu']}, "
        f"{machine['cores']} cores, Python {result['python']}; medians, each run in turn, with "
        f"{result['users']:,} users ({result['mb']:,.1f} MB):",
        "",
        "| | s | CPU, s |",
        "|---|---|---|",
        *(
            f"| {title} | {each['seconds']:.2f} | {each['cpu']:.2f} |"
            for title, each in result["checks"].items()
        ),
    ]
    return "\n".join(rows) + "\n"


SECTION: Final = Section("config", PAGE, config_text)
