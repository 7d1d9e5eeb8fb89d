"""Row records against one block of columns per group commit: prints the table of ADR 0009.

`python -m bench.layouts`. Both are compiled. Messages have subjects of 16 bytes and payloads of 128. Appends
pack and write to a file (page cache); reads come from that file. Best of five.
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.engine.messages import NewMessages, StoredMessages
from headrace.engine.records import Scan, encode
from headrace.engine.sequence_set import SequenceSet
from headrace.engine.subject_index import SubjectIndex
from headrace.log.port import NewMessage, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES: Final = 200_000
ROUNDS: Final = 5
WINDOW: Final = 72 << 10
SPACING: Final = 64 << 10
SALT: Final = 0x5EED
END: Final = (1 << 63) - 1


def build_columnar(directory: Path) -> Any:
    """Compiles bench/columnar.pyx into a directory and imports it."""
    source = Path(__file__).with_name("columnar.pyx")
    c = directory / "columnar.c"
    library = directory / f"columnar{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run([sys.executable, "-m", "cython", "-3", str(source), "-o", str(c)], check=True)
    include = sysconfig.get_paths()["include"]
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-w", f"-I{include}", str(c), "-o", str(library)], check=True
    )
    spec = importlib.util.spec_from_file_location("columnar", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Rows:
    """The records of the log."""

    name = "row records"

    def __init__(self) -> None:
        self.table = SubjectIndex()
        self.nothing = SequenceSet()

    def encode(self, batch: list[NewMessage], first: int) -> bytes:
        return encode(NewMessages(NewMessage, batch), first, 0, 1_700_000_000_000_000_000, SALT, self.table)

    def replay(self, data: bytes, first: int, out: list[StoredMessage]) -> int:
        scan = Scan(SALT, first, END)
        found = StoredMessages(StoredMessage)
        scan.messages_in(data, False, 1, END, None, self.nothing, 0, found, 1 << 40, 1 << 60)
        out += found
        return scan.at

    def point(self, data: bytes, first: int, sequence: int) -> bool:
        out = StoredMessages(StoredMessage)
        scan = Scan(SALT, first, END)
        scan.messages_in(data, False, sequence, sequence, None, self.nothing, 0, out, 1, 1)
        return bool(out)

    def survivors(self, data: bytes) -> int:
        out = StoredMessages(StoredMessage)
        scan = Scan(SALT, 1, END)
        scan.messages_in(data, True, 1, END, None, self.nothing, 0, out, 1 << 40, 1 << 60)
        return len(out)


class Columns:
    """The blocks of columns."""

    name = "columnar blocks"

    def __init__(self, module: Any) -> None:
        self.module = module

    def encode(self, batch: list[NewMessage], first: int) -> bytes:
        return self.module.encode_block(batch, first, 0, 1_700_000_000_000_000_000, SALT)  # type: ignore[no-any-return]

    def replay(self, data: bytes, first: int, out: list[StoredMessage]) -> int:
        return self.module.replay(data, SALT, StoredMessage, out)  # type: ignore[no-any-return]

    def point(self, data: bytes, first: int, sequence: int) -> bool:
        return self.module.point(data, SALT, StoredMessage, sequence) is not None

    def survivors(self, data: bytes) -> int:
        """Return the messages that are left, resynchronised at the next block that is whole, as generously as
        can be.
        """
        out: list[StoredMessage] = []
        at = 0
        while at < len(data):
            used = self.module.replay(data[at:], SALT, StoredMessage, out)
            at += used or 1
        return len(out)


Layout = Rows | Columns


def best(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(layout: Layout, group: int, directory: Path) -> dict[str, str]:
    """The rows of the table for one layout and one size of group."""
    rng = random.Random(1)
    subjects = [b"orders.%09d" % rng.randrange(10**9) for _ in range(100)]
    payload = rng.randbytes(128)
    batches = [
        [NewMessage(subjects[(n * group + k) % 100], payload) for k in range(group)] for n in range(64)
    ]
    path = directory / f"{layout.name}-{group}"
    marks: list[tuple[int, int]] = []

    def append() -> None:
        marks.clear()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        offset = 0
        for n in range(MESSAGES // group):
            data = layout.encode(batches[n % 64], n * group + 1)
            if not marks or offset - marks[-1][1] >= SPACING:
                marks.append((n * group + 1, offset))
            offset += os.write(handle, data)
        os.close(handle)

    append_s = best(append)
    handle = os.open(path, os.O_RDONLY)
    size = os.fstat(handle).st_size

    def replay() -> None:
        offset = count = 0
        while offset < size:
            out: list[StoredMessage] = []
            offset += layout.replay(os.pread(handle, 256 << 10, offset), count + 1, out)
            count += len(out)
        assert count == MESSAGES

    window = WINDOW + 250 * group
    wanted = [rng.randrange(1, MESSAGES + 1) for _ in range(5000)]
    places = [max(m for m in marks if m[0] <= s) for s in wanted[:500]]

    def points() -> None:
        for sequence, (first, offset) in zip(wanted, places, strict=False):
            assert layout.point(os.pread(handle, window, offset), first, sequence)

    result = {
        "append": f"{MESSAGES / append_s / 1e6:.2f} M/s",
        "bytes a message": f"{size / MESSAGES:.0f}",
        "replay": f"{MESSAGES / best(replay) / 1e6:.2f} M/s",
        "point read": f"{best(points) / len(places) * 1e6:.1f} us",
        "lost to one bad byte": f"{lost(layout, batches, group, rng):.1f}",
    }
    os.close(handle)
    return result


def lost(layout: Layout, batches: list[list[NewMessage]], group: int, rng: random.Random) -> float:
    """Messages that one changed byte costs, on average over 50 places."""
    count = max(4, 400 // group)
    data = b"".join(layout.encode(batches[n % 64], n * group + 1) for n in range(count))
    total = 0
    for _ in range(50):
        bad = bytearray(data)
        bad[rng.randrange(len(bad))] ^= 0x40
        total += count * group - layout.survivors(bytes(bad))
    return total / 50


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        layouts: list[Layout] = [Rows(), Columns(build_columnar(Path(name)))]
        rows: list[tuple[str, ...]] = []
        for group in (1, 10, 100, 1000):
            found = [measure(layout, group, Path(name)) for layout in layouts]
            rows += [(str(group), what, *(f[what] for f in found)) for f in found[:1] for what in f]
    print("| messages a group | | row records | columnar blocks |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
