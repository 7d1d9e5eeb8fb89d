"""What compression saves and costs: bytes on disk, CPU of appends, of replays and of reading the files.

Here live two logs that get the same messages, their result file and their table in docs/durability.md.
CPU time, not wall clock: compressing goes on between appends, on the same thread.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.progress import Progress
from bench.section import Section
from bench.storage import PAGE
from headrace.log.file import FileLog
from headrace.log.port import Limits, NewMessage
from headrace.log.view import LogView, read_slice

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

BATCH: Final = 64
BYTES: Final = 1024
KINDS: Final = {"x": "one letter", "json": "JSON events", "random": "random bytes"}
WHAT: Final = {"append": "append", "replay": "replay", "files": "files read as Spark's tasks do"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench compression` takes."""
    parser.add_argument("--megabytes", type=int, default=64, help="of payloads in each log")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--directory", help="where the logs are made (default: the temporary directory)")
    parser.add_argument("--name", help="result file below bench/results/local; the page is left alone")


def run_compression(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result file, fill the page; the logs are removed."""
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=options.directory))
    progress = Progress(len(KINDS))
    found: dict[str, dict[str, Any]] = {}
    try:
        for kind, words in KINDS.items():
            runs: dict[str, list[dict[str, float]]] = {"none": [], "s2": []}
            for _ in range(options.reps):
                for way, results in runs.items():
                    results.append(_one(home / "log", kind, way, options.megabytes << 20))
            found[kind] = {
                way: {key: statistics.median(one[key] for one in results) for key in results[0]}
                for way, results in runs.items()
            }
            progress.step(words)
    finally:
        progress.close()
        shutil.rmtree(home)
    SECTION.publish({**origin, "megabytes": options.megabytes, "kinds": found}, options.name)
    return 0


def _one(directory: Path, kind: str, way: str, size: int) -> dict[str, float]:
    """Megabytes on disk, and µs of CPU a message."""
    count = size // BYTES
    make = maker(kind)
    log = FileLog(directory, limits=Limits(compresses=way == "s2"))
    append = 0.0
    for start in range(0, count, BATCH):
        batch = [NewMessage(b"bench.events", make(start + n)) for n in range(BATCH)]
        began = time.process_time()
        log.append(batch)
        append += time.process_time() - began
        if start % (64 * BATCH) == 0:
            log.sync()
    log.sync()
    used = sum(path.stat().st_blocks * 512 for path in directory.glob("*.log"))
    seconds = {"append": append, "replay": _timed(lambda: _replay(log, count))}
    log.close()
    seconds["files"] = _timed(lambda: _read_files(directory, count))
    shutil.rmtree(directory)
    return {"disk": used / 1e6, **{key: value / count * 1e6 for key, value in seconds.items()}}


def _timed(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _replay(log: FileLog, count: int) -> None:
    sequence = 1
    while sequence <= count:
        page = log.read_from(sequence)
        for _ in page.messages:
            pass
        sequence = page.next_sequence


def _read_files(directory: Path, count: int) -> None:
    for part in LogView(directory).slices(1, count + 1, 4):
        for messages, _ in read_slice(part):
            len(messages)


def maker(kind: str) -> Callable[[int], bytes]:
    """Give what makes the payload of a number."""
    dice = random.Random(7)
    if kind == "x":
        return lambda _: b"x" * BYTES
    if kind == "random":
        return lambda _: dice.randbytes(BYTES)

    def event(number: int) -> bytes:
        events = [
            {
                "id": number * 8 + place,
                "device": f"sensor-{dice.randrange(500)}",
                "at": 1_700_000_000_000 + number * 7,
                "temperature": round(dice.gauss(21, 4), 2),
                "state": dice.choice(["ok", "ok", "ok", "warning"]),
            }
            for place in range(12)
        ]
        return json.dumps(events).encode()[:BYTES]

    return event


# ---- words ----------------------------------------------------------------------------------


def compression_text(result: dict[str, Any]) -> str:
    """Give the figures of a result file as Markdown."""
    machine = result["machine"]
    rows = [
        f"Measured on {result['created']} with `{result['command']}`: {machine['cpu']}, "
        f"{machine['cores']} cores, Python {result['python']}; {result['megabytes']} MiB of 1 KiB each, "
        "µs of CPU a message, without / with compression:",
        "",
        "| payloads | MB on disk | " + " | ".join(WHAT.values()) + " |",
        "|---|---|" + "---|" * len(WHAT),
    ]
    for kind, found in result["kinds"].items():
        cells = [f"{found['none']['disk']:,.1f} / {found['s2']['disk']:,.1f}"]
        cells += [f"{found['none'][key]:.2f} / {found['s2'][key]:.2f}" for key in WHAT]
        rows.append(f"| {KINDS[kind]} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


SECTION: Final = Section("compression", PAGE, compression_text)
