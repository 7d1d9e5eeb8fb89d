"""One measured piece of work on a log, in a process of its own: `python -m bench.storage_work VERB …`.

Here lives what touches the log. Each verb prints lines of JSON: `{"done": …, "total": …}` on the way, and at
the end its figures: seconds, bytes, resident memory in bytes. Never here: which pieces a run has (`storage`).
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.log.file import FileLog
from headrace.log.port import NewMessage, SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BATCH: Final = 1000
SUBJECTS_OF_FILL: Final = 1000
PAYLOAD_OF_FILL: Final = 1024
SYNC_EVERY: Final = 64 << 20
"""Bytes between two syncs where the rate of the disk is not what is measured."""


def resident() -> int:
    """Resident memory of this process now, in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """Its highest value so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def say(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


class Steps:
    """Says how far a piece of work is, some four times a second."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._next = 0.0

    def at(self, done: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 0.25
            say(done=done, total=self._total)


def fill(directory: Path, size: int) -> None:
    """Appends about `size` bytes, syncs, and ends without closing, as a kill does."""
    log = FileLog(directory)
    batch = [NewMessage(b"bench.s.%d" % (n % SUBJECTS_OF_FILL), b"x" * PAYLOAD_OF_FILL) for n in range(BATCH)]
    steps = Steps(size)
    start = time.perf_counter()
    synced = messages = 0
    while log.written < size:
        log.append(batch)
        messages += BATCH
        if log.written - synced >= SYNC_EVERY:
            synced = log.sync()
            steps.at(synced)
    log.sync()
    say(seconds=time.perf_counter() - start, messages=messages, bytes=log.written)
    os._exit(0)


def open_log(directory: Path) -> None:
    """Opens a log as it is found and counts it; ends without closing."""
    before = resident()
    start = time.perf_counter()
    log = FileLog(directory)
    state = log.state()
    say(
        seconds=time.perf_counter() - start,
        messages=state.messages,
        read_bytes=log.opened_by_reading,
        from_checkpoint=log.opened_from_checkpoint,
        peak=peak(),
        before=before,
    )
    os._exit(0)


def close_log(directory: Path) -> None:
    """Opens and closes a log, so that index and checkpoint are complete."""
    start = time.perf_counter()
    FileLog(directory).close()
    say(seconds=time.perf_counter() - start)


def grow(directory: Path, subjects: int, messages: int) -> None:
    """One message for each of `subjects`, then more for them up to `messages`; memory after each."""
    log = FileLog(directory, sync=SyncPolicy.NEVER)
    batches = [
        [NewMessage(b"bench.subject.%016d" % n, b"0123456789abcdef") for n in range(first, first + BATCH)]
        for first in range(0, subjects, BATCH)
    ]
    steps = Steps(messages)
    empty = resident()
    for place, batch in enumerate(batches):
        log.append(batch)
        steps.at(place * BATCH)
    with_subjects = resident()
    start = time.perf_counter()
    count = subjects
    while count < messages:
        log.append(batches[count // BATCH % len(batches)])
        count += BATCH
        steps.at(count)
    say(
        seconds=time.perf_counter() - start,
        subjects=subjects,
        messages=count,
        bytes=log.written,
        empty=empty,
        with_subjects=with_subjects,
        with_messages=resident(),
        peak=peak(),
    )
    os._exit(0)


def rates(directory: Path, seconds: float) -> None:
    """Messages a second of the log alone: appends of 1 and of 100 with and without fsync, and replay."""
    found: dict[str, float] = {}
    steps = Steps(4)
    begun = time.perf_counter()
    one = [NewMessage(b"bench.rate", b"x" * 128)]
    for place, (name, batch, synced) in enumerate(
        [
            ("append_1", one, False),
            ("append_100", one * 100, False),
            ("append_1_fsync", one, True),
            ("append_100_fsync", one * 100, True),
        ]
    ):
        log = FileLog(directory / name)
        found[name] = _appends_a_second(log, batch, synced, seconds)
        steps.at(place + 1)
        if name == "append_100":
            log.sync()
            found["replay"] = _replay(log)
        log.close()
    say(seconds=time.perf_counter() - begun, payload=128, **found)


def _appends_a_second(log: FileLog, batch: Sequence[NewMessage], synced: bool, seconds: float) -> float:
    count = 0
    start = now = time.perf_counter()
    while now - start < seconds:
        for _ in range(1 if synced else 100):
            log.append(batch)
            count += len(batch)
            if synced:
                log.sync()
        now = time.perf_counter()
    return count / (now - start)


def _replay(log: FileLog) -> float:
    end = log.state().last_sequence
    sequence, count = 1, 0
    start = time.perf_counter()
    while sequence <= end:
        page = log.read_from(sequence, max_messages=BATCH)
        count += len(page.messages)
        sequence = page.next_sequence
    return count / (time.perf_counter() - start)


VERBS: Final[dict[str, Callable[[list[str]], None]]] = {
    "fill": lambda words: fill(Path(words[0]), int(words[1])),
    "open": lambda words: open_log(Path(words[0])),
    "close": lambda words: close_log(Path(words[0])),
    "grow": lambda words: grow(Path(words[0]), int(words[1]), int(words[2])),
    "rates": lambda words: rates(Path(words[0]), float(words[1])),
}

if __name__ == "__main__":
    VERBS[sys.argv[1]](sys.argv[2:])
