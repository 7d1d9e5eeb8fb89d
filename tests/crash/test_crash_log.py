"""kill -9 at random moments: nothing acknowledged is missing, nothing is there that was not written.

20 runs, or 200 with HEADRACE_TEST_MANY=1; each goes on with the log the one before left behind. What loss of
power does that a kill does not is in tests/unit/log/test_log_file_faults.py.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest
from log_writer import content

from harness.tallies import note
from headrace.log.file import FileLog

RUNS: Final = 200 if os.environ.get("HEADRACE_TEST_MANY") == "1" else 20
WRITER: Final = Path(__file__).with_name("log_writer.py")


class Promises:
    """What the processes so far have said."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.may_be_gone: set[int] = set()
        self.gone: set[int] = set()
        self.purged = 0
        self.may_be_purged = 0
        self.checks = self.lost = self.invented = 0

    def hear(self, line: str) -> None:
        word, _, number = line.partition(" ")
        match word:
            case "A":
                self.acknowledged = int(number)
            case "d":
                self.may_be_gone.add(int(number))
            case "D":
                self.gone.add(int(number))
            case "p":
                self.may_be_purged = max(self.may_be_purged, int(number))
            case "P":
                self.purged = max(self.purged, int(number))

    def check(self, log: FileLog) -> int:
        """Reads everything; gives how many messages there are."""
        state = log.state()
        assert state.damaged == ()
        assert state.last_sequence >= self.acknowledged
        found: set[int] = set()
        sequence = 1
        while sequence <= state.last_sequence:
            page = log.read_from(sequence, max_messages=10_000)
            assert not page.damaged
            for m in page.messages:
                self.invented += (m.subject, m.payload, m.reply) != content(m.sequence)[:3]
                found.add(m.sequence)
            sequence = page.next_sequence
        everything = set(range(max(self.may_be_purged, 1), state.last_sequence + 1))
        self.checks += 1
        self.lost += len(everything - self.may_be_gone - found)
        assert self.lost == 0, "messages are missing"
        assert self.invented == 0, "messages are there that nobody wrote"
        assert not found & self.gone
        assert not any(s < self.purged for s in found)
        assert state.messages == len(found)
        return len(found)


def run_once(directory: Path, seed: int, moment: float, promises: Promises) -> None:
    """Starts a writer, kills it `moment` seconds after it has opened the log, takes in what it said."""
    command = [sys.executable, str(WRITER), str(directory), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        time.sleep(moment)
        process.kill()
        *lines, cut_off = process.stdout.read().split("\n")
    assert process.returncode == -9
    assert lines or not cut_off
    for line in lines:
        promises.hear(line)


@pytest.mark.parametrize("seed", [1])
def test_kill_at_random_moments(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    promises = Promises()
    cuts = 0
    held = 0
    checkpoints = 0
    for run in range(RUNS):
        run_once(tmp_path, run, rng.uniform(0, 0.15), promises)
        if rng.random() < 0.8:  # else the next writer opens what the dead one left
            log = FileLog(tmp_path, segment_bytes=16_384)
            held = promises.check(log)
            cuts += log.cut_bytes > 0
            checkpoints += log.opened_from_checkpoint
            log.close()
    assert promises.acknowledged > RUNS
    note("log: kill -9", RUNS)
    note("log: messages acknowledged before a kill", promises.acknowledged)
    note("log: messages acknowledged before a kill, removed again, durably", len(promises.gone))
    note("log: starts checked after a kill", promises.checks)
    note("log: messages acknowledged before a kill, lost", promises.lost)
    note("log: messages invented by a kill", promises.invented)
    note("log: tails cut off by a kill", cuts)
    note("log: starts from a checkpoint after a kill", checkpoints)
    note("log: messages held after the last kill", held)
