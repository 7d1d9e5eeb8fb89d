"""A process that appends to a log until it is killed, and says on stdout what is acknowledged.

Arguments: directory, seed. Lines: `A last` all up to `last` is durable, `D sequence` it is removed durably,
`P below` everything below is purged durably. A message's content follows from its sequence.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from headrace.log.file import FileLog
from headrace.log.port import NewMessage


def content(sequence: int) -> NewMessage:
    """The message that stands at a sequence in every run."""
    rng = random.Random(sequence)
    return NewMessage(b"s.%d" % rng.randrange(20), rng.randbytes(rng.randrange(400)), b"r%d" % sequence)


def main() -> None:
    rng = random.Random(int(sys.argv[2]))
    log = FileLog(Path(sys.argv[1]), segment_bytes=16_384)
    print("open", flush=True)
    while True:
        first = log.state().last_sequence + 1
        log.append([content(s) for s in range(first, first + rng.choice([1, 1, 3, 40]))])
        if rng.random() < 0.6:
            log.sync()
            print("A", log.state().last_sequence, flush=True)
        if rng.random() < 0.1:
            sequence = rng.randrange(log.state().first_sequence, log.state().last_sequence + 1)
            print("d", sequence, flush=True)  # from now on it may be gone
            if log.delete(sequence, erase=rng.random() < 0.5):
                log.sync()
                print("D", sequence, flush=True)
        if rng.random() < 0.01:
            below = rng.randrange(log.state().first_sequence, log.state().last_sequence + 1)
            print("p", below, flush=True)
            log.purge(up_to=below)
            log.sync()
            print("P", below, flush=True)


if __name__ == "__main__":
    main()
