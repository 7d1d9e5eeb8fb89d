"""kill -9 at random moments: nothing acknowledged is missing, nothing is there that was not written.

200 kills in `make test-deep`, in four logs at a time; each writer goes on with the log the one before left
behind. What loss of power does that a kill does not is in tests/unit/log/test_log_file_faults.py.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from log_writer import content

from harness import depth
from harness.tallies import note
from headrace.log.file import FileLog

LOGS: Final = 4
KILLS: Final = depth.seeds(50)
"""The kills of each log's writers; each is drawn from its own seed."""
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


def kill_again_and_again(directory: Path, seed: int) -> Counter[str]:
    """One log and its writers; gives what is to be told of them."""
    promises = Promises()
    told: Counter[str] = Counter({"kill -9": len(KILLS)})
    for kill in KILLS:
        rng = random.Random(f"{seed} {kill}")
        run_once(directory, kill, rng.uniform(0, 0.15), promises)
        if kill == KILLS[-1] or rng.random() < 0.8:  # else the next writer opens what the dead one left
            log = FileLog(directory, segment_bytes=16_384)
            held = promises.check(log)
            told["tails cut off by a kill"] += log.cut_bytes > 0
            told["starts from a checkpoint after a kill"] += log.opened_from_checkpoint
            log.close()
    assert promises.acknowledged > len(KILLS)
    told["messages acknowledged before a kill"] = promises.acknowledged
    told["messages acknowledged before a kill, removed again, durably"] = len(promises.gone)
    told["messages acknowledged before a kill, lost"] = promises.lost
    told["messages invented by a kill"] = promises.invented
    told["messages held after the last kill"] = held
    told["starts checked after a kill"] = promises.checks
    return told


def test_kill_at_random_moments(tmp_path: Path) -> None:
    directories = [tmp_path / str(seed) for seed in range(LOGS)]
    with ThreadPoolExecutor(LOGS) as pool:
        for told in pool.map(kill_again_and_again, directories, range(LOGS)):
            for what, count in told.items():
                note(f"log: {what}", count)
