"""The log's own numbers: how long a start takes, what it keeps in memory, how fast it appends and replays.

Here live the pieces of a run, one process each (`storage_work`), their result file and their table in
docs/durability.md. Never here: servers, clients, or anything over a wire.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.errors import BenchError
from bench.machine import ROOT
from bench.progress import Progress, bar, short_number
from bench.section import Section

if TYPE_CHECKING:
    import argparse

PAGE: Final = ROOT / "docs" / "durability.md"
RESERVE: Final = 4 << 30
"""Bytes of the disk that a run leaves free."""
SMALLEST = 4 << 20
"""Bytes of a log that is worth measuring."""
MESSAGE_BYTES: Final = 48 + 30 + 16
"""The bytes of a record in the run that measures memory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench storage` takes."""
    parser.add_argument("--gigabytes", type=float, default=10.0, help="size of the log that is opened")
    parser.add_argument(
        "--messages", type=int, default=100_000_000, help="in the log whose memory is measured"
    )
    parser.add_argument("--subjects", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measured rate")
    parser.add_argument("--directory", help="where the logs are made (default: the temporary directory)")
    parser.add_argument("--name", help="result file below bench/results/local; the page is left alone")


def run_storage(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure everything, write the result file, fill the page; the logs are removed. Raises: BenchError."""
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=options.directory))
    progress = Progress(8)
    try:
        figures = {
            "recovery": _recovery(home, options.gigabytes, progress),
            "memory": _memory(home, options.subjects, options.messages, progress),
            "rates": _work(progress, "append and replay", "rates", home / "rates", options.seconds),
        }
    finally:
        progress.close()
        shutil.rmtree(home)
    SECTION.publish({**origin, **figures}, options.name)
    return 0


# ---- the pieces -----------------------------------------------------------------------------


def _work(progress: Progress, text: str, *words: object) -> dict[str, Any]:
    """Run one piece in a process of its own; give what it printed last."""
    progress.begin(text)
    command = [sys.executable, "-m", "bench.storage_work", *map(str, words)]
    last: dict[str, Any] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = json.loads(line)
            if "done" in last:
                progress.begin(f"{text} {bar(last['done'], last['total'])}")
    if process.returncode != 0 or "done" in last:
        raise BenchError(f"{text}: ended with code {process.returncode}")
    progress.step(f"{text}: {last['seconds']:.2f} s")
    return last


def _room(home: Path, wanted: int) -> int:
    """The bytes that a log may take: what was asked for, or what the disk allows."""
    return max(min(wanted, shutil.disk_usage(home).free - RESERVE), SMALLEST)


def _recovery(home: Path, gigabytes: float, progress: Progress) -> dict[str, Any]:
    wanted = int(gigabytes * 1e9)
    size = _room(home, wanted)
    log = home / "recovery"
    found: dict[str, Any] = {"wanted": wanted, "fill": _work(progress, "filling", "fill", log, size)}
    found["killed"] = _opened(progress, "open after a kill", log)
    _work(progress, "closing", "close", log)
    found["closed"] = _opened(progress, "open after a close", log)
    for path in log.glob("*.index"):
        path.unlink()
    found["without_index"] = _opened(progress, "open without indexes", log)
    for path in [*log.glob("*.index"), log / "checkpoint"]:
        path.unlink(missing_ok=True)
    found["without_both"] = _opened(progress, "open without index and checkpoint", log)
    shutil.rmtree(log)
    return found


def _opened(progress: Progress, text: str, log: Path) -> dict[str, Any]:
    _forget_pages(log)
    return _work(progress, text, "open", log)


def _forget_pages(directory: Path) -> None:
    """Has the system drop its cached pages of these files, so that a start reads the disk."""
    for path in directory.iterdir():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _memory(home: Path, subjects: int, messages: int, progress: Progress) -> dict[str, Any]:
    allowed = _room(home, messages * MESSAGE_BYTES) // MESSAGE_BYTES
    log = home / "memory"
    found = _work(progress, "memory", "grow", log, subjects, min(messages, allowed))
    shutil.rmtree(log)
    return {"wanted": messages, **found}


# ---- words ----------------------------------------------------------------------------------

_STARTS: Final = [
    ("killed", "after a kill: checkpoint of the last segment begun"),
    ("closed", "after a close: index and checkpoint"),
    ("without_index", "checkpoint only: indexes are made again"),
    ("without_both", "neither: every record is read"),
]


def storage_text(result: dict[str, Any]) -> str:
    """Give the figures of a result file as Markdown."""
    recovery, memory, rates = result["recovery"], result["memory"], result["rates"]
    machine, size = result["machine"], recovery["fill"]["bytes"]
    rows = [
        f"Measured on {result['created']} with `{result['command']}`: {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, Python {result['python']}.",
        "",
        f"A log of {size / 1e9:.1f} GB, {short_number(recovery['fill']['messages'])} messages of 1 KiB"
        f"{'' if size >= recovery['wanted'] else ' (the largest the disk allowed)'}; its pages were dropped "
        "from the cache before each start:",
        "",
        "| start | seconds | records read | peak memory |",
        "|---|---|---|---|",
    ]
    for key, text in _STARTS:
        found = recovery[key]
        rows.append(
            f"| {text} | {found['seconds']:.2f} | {found['read_bytes'] / 1e6:,.0f} MB "
            f"| {found['peak'] / 2**20:,.0f} MiB |"
        )
    subjects = (memory["with_subjects"] - memory["empty"]) / memory["subjects"]
    more = memory["messages"] - memory["subjects"]
    each = (memory["with_messages"] - memory["with_subjects"]) / max(more, 1)
    rows += [
        "",
        f"Memory: {subjects:.0f} bytes for each of {memory['subjects']:,} subjects of 30 bytes; "
        f"{each:.2f} bytes for each of {more:,} further messages"
        f"{'' if memory['messages'] >= memory['wanted'] else ' (fewer than asked for: the disk)'}; "
        f"{memory['with_messages'] / 2**20:,.0f} MiB resident at the end, "
        f"{memory['peak'] / 2**20:,.0f} MiB at most, "
        f"of which {memory['empty'] / 2**20:,.0f} MiB are the bench itself.",
        "",
        f"The log alone, one thread, {rates['payload']} B, messages a second: appends of one "
        f"{short_number(rates['append_1'])}, of 100 {short_number(rates['append_100'])}; each with its fsync "
        f"{short_number(rates['append_1_fsync'])} and {short_number(rates['append_100_fsync'])}; replay "
        f"{short_number(rates['replay'])}.",
    ]
    return "\n".join(rows) + "\n"


SECTION: Final = Section("storage", PAGE, storage_text)
